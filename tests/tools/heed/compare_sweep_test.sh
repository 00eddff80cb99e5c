#!/usr/bin/env bash
# Tests `heed compare`: its table, its files, and runs that it cannot compare. A setting is a group of runs
# whose options differ only in the seed. Usage: compare_sweep_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
cat > s.toml << 'TOML'
[train]
task = "reverse"
steps = 12
layers = 1
heads = 2
d-model = 16
batch = 4
eval-batch = 8
eval-every = 4
save-every = 6
[sweep]
scale = ["none", "1/d-head"]
seed = [1, 2, 3]
TOML
expect 0 sweep s.toml --quiet

expect 0 compare sweeps/s
out_has "6 runs of 2 settings, mean ± standard error"; out_has "scale=none      3"; out_has "scale=1/d-head  3"
for file in compare.csv runs.csv curves.csv curves.png; do has_file sweeps/s/compare/$file; done
ok test "$(head -1 sweeps/s/compare/compare.csv)" == "scale,setting,quantity,n,final_mean,final_error,best,above_mean,above_error,accuracy_mean,accuracy_error,seconds_mean,seconds_error"
ok test "$(wc -l < sweeps/s/compare/compare.csv)" == 3; ok test "$(wc -l < sweeps/s/compare/runs.csv)" == 7
ok grep -q '^none,loss,"sweeps/s/scale=none,seed=1",1,' sweeps/s/compare/runs.csv
ok grep -q '^none,eval_loss,12,3,' sweeps/s/compare/curves.csv
ok grep -aq "mean of 3 seeds and its standard error" sweeps/s/compare/curves.png
cp sweeps/s/compare/compare.csv first.csv
expect 0 compare sweeps/s; same first.csv sweeps/s/compare/compare.csv  # this replaces the first comparison
expect 0 compare sweeps/s/scale=none,seed=[12] --json --out two
is_json_line; out_has '"setting":"all runs"'; out_has '"n":2'; has_file two/curves.png
expect 0 compare sweeps/s/scale=none,seed=3 --out one; out_has "1 run of 1 setting,"; has_file one/curves.png

expect 0 compare sweeps/s --of accuracy --out accuracy; out_has "final: accuracy"

# --- a damaged run is not compared, and a warning gives its name and the reason
damage() {  # damage FILE [SIZE]: copies the sweep, and truncates FILE of the first run to SIZE bytes (default: 0)
  rm -rf bad
  cp -r sweeps/s bad
  head -c "${2:-0}" "sweeps/s/scale=none,seed=1/$1" > "bad/scale=none,seed=1/$1"
}
damage config.toml; damage metrics.csv  # copies, which are not read
expect 0 compare bad; out_has "6 runs of 2 settings"; ok test ! -s err
damage state.safetensors 1000000; flip_bit bad/scale=none,seed=1/state.safetensors
expect 0 compare bad; out_has "5 runs of 2 settings"; err_has "state.safetensors: its checksum is "
for size in 0 300; do
  damage state.safetensors $size
  expect 0 compare bad; out_has "5 runs of 2 settings"; out_has "scale=none      2"
  err_has "warning: 1 of 6 runs is not compared: bad/scale=none,seed=1 (cannot read state.safetensors: it"
done
ok test "$(grep -c '^none,loss,"bad/' bad/compare/runs.csv)" == 2
expect 0 compare bad --json --out json; is_json_line
out_has '"left_out":[{"run":"bad/scale=none,seed=1","why":"cannot read state.safetensors'
refuses 4 "compare: no run can be compared: bad/scale=none,seed=1/ (cannot read" compare bad/scale=none,seed=1/

# --- the table is printed even if no file can be written
table() { out_has "6 runs of 2 settings"; out_has "scale=1/d-head  3"; }
mv sweeps/s/compare aside && touch sweeps/s/compare
expect 4 compare sweeps/s; table; err_has "cannot make the directory"; err_has "--out DIR writes"
expect 4 compare sweeps/s --json; is_json_line; out_has '"files":[]'; err_has "--out DIR writes"
rm sweeps/s/compare && mv aside sweeps/s/compare
refuses 4 "heed: cannot make the directory s.toml/here: " compare sweeps/s --out s.toml/here
mkdir -p held/curves.png/inside
expect 4 compare sweeps/s --out held; table; err_has "cannot replace held/curves.png: it is a directory"
ok test "$(ls -A held)" == curves.png
rm -r held/curves.png; exec 9< held; flock 9
expect 4 compare sweeps/s --out held; table; err_has "held: it is locked by another process"
exec 9<&-
expect 0 compare sweeps/s --out held; has_file held/curves.png
mkdir fixed  # heed replaces neither compare.csv alone nor a run
for file in compare.csv runs.csv curves.csv; do
  touch fixed/$file; expect 4 compare sweeps/s --out fixed; table; err_has "cannot replace fixed/compare.csv: heed did not write it"
done
run=(sweeps/s/*seed=1); refuses 2 "--out ${run[0]} is a run" compare sweeps/s --out "${run[0]}"
if unshare --map-root-user --mount true 2> err; then
  what="heed compare --out fixed, which is read-only"
  # shellcheck disable=SC2016
  unshare --map-root-user --mount bash -c \
    'mount --bind fixed fixed && mount -o remount,bind,ro fixed && exec "$0" "$@"' \
    "$heed" compare sweeps/s --out fixed > out 2> err; code=$?
  ok test $code == 4; table; err_has "fixed/heed-files.txt: Read-only file system"; err_has "--out DIR writes"
fi

# --- runs of several tasks: a table, pictures and lines of the CSV files for each task
sed 's/^task = .*//; s/^seed = .*/task = ["reverse", "copy"]\nseed = [1, 2]/' s.toml > tasks.toml
for done in "8 trained" "8 finished before"; do
  expect 0 sweep tasks.toml --quiet; out_has "$done"; out_has "to compare the runs: heed compare sweeps/tasks"
done
expect 0 compare sweeps/tasks
for task in reverse copy; do
  out_has "$task: 4 runs of 2 settings, mean ± standard error"
  has_file sweeps/tasks/compare/curves-$task.png; out_has "compare/curves-$task.png"
done
ok test "$(grep -c "above optimum" out)" == 2; ok test "$(grep -c "^scale=none      2" out)" == 2; ok test ! -s err
ok test ! -e sweeps/tasks/compare/curves.png
ok grep -aq "task copy, mean of 2 seeds" sweeps/tasks/compare/curves-copy.png
ok test "$(cut -d, -f1-4 sweeps/tasks/compare/compare.csv | head -2)" == $'task,scale,setting,quantity\nreverse,none,scale=none,loss'
ok grep -q '^copy,1/d-head,loss,"sweeps/tasks/scale=1_d-head,task=copy,seed=2",2,' sweeps/tasks/compare/runs.csv
ok test "$(wc -l < sweeps/tasks/compare/compare.csv)" == 5; ok test "$(wc -l < sweeps/tasks/compare/runs.csv)" == 9
expect 0 compare sweeps/tasks/scale={none,1_d-head},task=copy,seed=* --json --out copy; has_file copy/curves.png
alone=$(sed 's/,"left_out.*/}/' out)
expect 0 compare sweeps/tasks --json; is_json_line; out_has "$alone],\"left_out\":[],\"files\":[\"sweeps/tasks/compare/compare.csv\""
ok test "$(head -c 48 out)" == '{"tasks":[{"task":"reverse","quantity":"loss","s'
touch sweeps/tasks/compare/curves-mine.png
expect 0 compare sweeps/tasks/*copy* --out sweeps/tasks/compare  # this removes the pictures of both tasks
ok test "$(ls sweeps/tasks/compare)" == $'compare.csv\ncurves-mine.png\ncurves.csv\ncurves.png\nheed-files.txt\nruns.csv'
expect 0 train markov "${tiny[@]}" --steps 4 --quiet --out markov
expect 0 compare sweeps/s markov --out mixed
out_has "reverse: 6 runs of 2 settings"; out_has "markov: 1 run of 1 setting"; out_has "markov   1"
has_file mixed/curves-reverse.png; has_file mixed/curves-markov.png
ok test "$(grep '^markov,' mixed/runs.csv | cut -d, -f1-5)" == "markov,,loss,markov,1"

# --- runs on two different texts have one task, and each text is a setting
for text in a b; do
  seq -s $text 500 > $text.txt
  expect 0 train --text $text.txt "${tiny[@]}" --context 8 --steps 4 --quiet --out $text
done
expect 0 compare a b --out texts; out_has "text: 2 runs of 2 settings"; out_has "a.txt: a; b.txt: b"
expect 0 compare a markov --out texts; has_file texts/curves-text.png

# --- the tables of a sweep of many options have at most 80 columns, even if the names of its settings are longer
recipe 2 'scale = ["none", "1/d-head"]' 'positions = ["learned", "rope"]' 'mlp-act = ["relu", "gelu"]' \
  'norm-kind = ["layernorm", "rmsnorm"]' 'lr = [0.00125]' > wide.toml
for call in "sweep wide.toml --quiet" "compare sweeps/wide"; do
  # shellcheck disable=SC2086
  expect 0 $call; ok test "$(grep -c '.\{81\}' out)" == 0
done

# --- help states how many settings are drawn
expect 0 compare --help all; help_has "of more than 8 settings the first 8"

# --- a run that was extended has no value of seconds, because a resume does not measure all its steps
cp -r sweeps/s longer
expect 0 compare longer/scale=none,seed=1 --out one; out_has "seconds"
expect 0 train --resume longer/scale=none,seed=1 --steps 16 --quiet
expect 0 compare longer/scale=none,seed=1 --out one
ok test "$(grep -c seconds out)" == 0; ok grep -q ',$' one/runs.csv

# --- runs that cannot be compared are rejected
refuses 2 "heed compare needs RUNS..." compare
mkdir empty; refuses 4 "is not a run and contains no runs" compare empty
refuses 2 "so they are the same run" compare sweeps/s/scale=none,seed=1 sweeps/s/scale=none,seed=1
unfinish sweeps/s/scale=none,seed=2
rm -r sweeps/s/scale=none,seed=3
expect 0 compare sweeps/s
err_has "warning: 2 of 6 runs are not compared: sweeps/s/scale=none,seed=2 (not finished), sweeps/s/scale=none,seed=3 (not begun)"
out_has "scale=none      1"
for run in sweeps/s/*/state.safetensors; do unfinish "${run%/*}"; done
refuses 2 "no run is finished: sweeps/s/scale=none,seed=1 is not finished" compare sweeps/s
end_of_checks
