#!/usr/bin/env bash
# Tests `heed compare`: its table, its files, and runs that it cannot compare. A setting is a group of runs
# whose options differ only in the seed. Usage: compare_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
# train_runs DIR TASK SEED...: trains a run for each of two scales and each seed, as DIR/TASK-SCALE-SEED
train_runs() {
  local scale seed
  for scale in none 1/d-head; do
    for seed in "${@:3}"; do
      expect 0 train "$2" "${tiny[@]}" --heads 2 --steps 12 --save-every 6 --scale $scale --seed "$seed" --quiet --out "$1/$2-${scale#1/}-$seed"
    done
  done
}
# has_row N SETTING: the table has a row of the setting with N runs
has_row() { ok grep -q "^$1 .*  $2$" out; }
train_runs all reverse 1 2 3

expect 0 compare all
out_has "6 runs of 2 settings, mean ± standard error"; has_row 3 "reverse-none-1 and 2 more"; has_row 3 "reverse-d-head-1 and 2 more"
out_has "scale   1/d-head: reverse-d-head-1 and 2 more; none: reverse-none-1 and 2 more"
for file in compare.csv runs.csv curves.csv curves.png; do has_file all/compare/$file; done
ok test "$(head -1 all/compare/compare.csv)" == "scale,setting,quantity,n,final_mean,final_error,best,above_mean,above_error,accuracy_mean,accuracy_error,seconds_mean,seconds_error"
ok test "$(wc -l < all/compare/compare.csv)" == 3; ok test "$(wc -l < all/compare/runs.csv)" == 7
ok grep -q '^none,loss,all/reverse-none-1,1,' all/compare/runs.csv
ok grep -q '^none,eval_loss,12,3,' all/compare/curves.csv
ok grep -aq "mean of 3 seeds and its standard error" all/compare/curves.png
cp all/compare/compare.csv first.csv
expect 0 compare all; same first.csv all/compare-2/compare.csv
expect 0 compare all/reverse-none-[12] --json --out two
is_json_line; out_has '"setting":"all runs"'; out_has '"n":2'; has_file two/curves.png
expect 0 compare all/reverse-none-3 --out one; out_has "1 run of 1 setting,"; has_file one/curves.png

expect 0 compare all --of accuracy --out accuracy; out_has "final: accuracy"

# --- a damaged run is not compared, and a warning gives its name and the reason
damage() {  # damage FILE [SIZE]: copies all runs, and truncates FILE of the first run to SIZE bytes (default: 0)
  rm -rf bad
  cp -r all bad
  head -c "${2:-0}" "all/reverse-none-1/$1" > "bad/reverse-none-1/$1"
}
damage config.toml; damage metrics.csv  # copies, which are not read
expect 0 compare bad; out_has "6 runs of 2 settings"; ok test ! -s err
damage state.safetensors 1000000; flip_bit bad/reverse-none-1/state.safetensors
expect 0 compare bad; out_has "5 runs of 2 settings"; err_has "state.safetensors: its checksum is "
for size in 0 300; do
  damage state.safetensors $size
  expect 0 compare bad; out_has "5 runs of 2 settings"; has_row 2 "reverse-none-2 and 1 more"
  err_has "warning: 1 of 6 runs is not compared: bad/reverse-none-1 (cannot read state.safetensors: it"
done
ok test "$(grep -c '^none,loss,bad/' bad/compare-3/runs.csv)" == 2
expect 0 compare bad --json --out json; is_json_line
out_has '"left_out":[{"run":"bad/reverse-none-1","why":"cannot read state.safetensors'
refuses 4 "compare: no run can be compared: bad/reverse-none-1/ (cannot read" compare bad/reverse-none-1/

# --- the files go into a new directory. The table is printed even if it cannot be made
table() { out_has "6 runs of 2 settings"; has_row 3 "reverse-d-head-1 and 2 more"; }
touch file; expect 4 compare all --out file/here; table; err_has "cannot make the directory file/here: "; err_has "--out DIR writes"
expect 4 compare all --out file/here --json; is_json_line; out_has '"files":[]'; err_has "--out DIR writes"
mkdir fixed
expect 0 compare all --out fixed; has_file fixed/curves.png

# --- runs of several tasks: a table, pictures and lines of the CSV files for each task
train_runs tasks reverse 1 2; train_runs tasks copy 1 2
expect 0 compare tasks
for task in reverse copy; do
  out_has "$task: 4 runs of 2 settings, mean ± standard error"
  has_file tasks/compare/curves-$task.png; out_has "curves-$task.png"
done
ok test "$(grep -c "above optimum" out)" == 2; ok test "$(grep -c "^2 .*none-1 and 1 more$" out)" == 2; ok test ! -s err
ok test ! -e tasks/compare/curves.png
ok grep -aq "task copy, mean of 2 seeds" tasks/compare/curves-copy.png
ok test "$(cut -d, -f1-4 tasks/compare/compare.csv | head -2)" == $'task,scale,setting,quantity\ncopy,1/d-head,copy-d-head-1 and 1 more,loss'
ok grep -q '^copy,1/d-head,loss,tasks/copy-d-head-2,2,' tasks/compare/runs.csv
ok test "$(wc -l < tasks/compare/compare.csv)" == 5; ok test "$(wc -l < tasks/compare/runs.csv)" == 9
expect 0 compare tasks/reverse-* --json --out reverse; has_file reverse/curves.png
alone=$(sed 's/,"left_out.*/}/' out)
expect 0 compare tasks --json; is_json_line; out_has "$alone],\"left_out\":[],\"files\":[\"tasks/compare-2/compare.csv\""
ok test "$(head -c 48 out)" == '{"tasks":[{"task":"copy","quantity":"loss","sett'
expect 0 train markov "${tiny[@]}" --steps 4 --quiet --out markov
expect 0 compare all markov --out mixed
out_has "reverse: 6 runs of 2 settings"; out_has "markov: 1 run of 1 setting"; has_row 1 markov
has_file mixed/curves-reverse.png; has_file mixed/curves-markov.png
ok test "$(grep '^markov,' mixed/runs.csv | cut -d, -f1-5)" == "markov,,loss,markov,1"

# --- runs on two different texts have one task, and each text is a setting
for text in a b; do
  seq -s $text 500 > $text.txt
  expect 0 train --text $text.txt "${tiny[@]}" --context 8 --steps 4 --quiet --out $text
done
expect 0 compare a b --out texts; out_has "text: 2 runs of 2 settings"; out_has "a.txt: a; b.txt: b"
expect 0 compare a markov --out text; has_file text/curves-text.png

# --- help states how many settings are drawn
expect 0 compare --help all; help_has "of more than 8 settings the first 8"

# --- a run that was extended has no value of seconds, because a resume does not measure all its steps
cp -r all longer
expect 0 compare longer/reverse-none-1 --out shorter; ok test "$(grep -c ',$' shorter/runs.csv)" == 0
expect 0 train --resume longer/reverse-none-1 --steps 16 --quiet
expect 0 compare longer/reverse-none-1 --out longer-one
ok grep -q ',$' longer-one/runs.csv

# --- runs that cannot be compared are rejected
refuses 2 "heed compare needs RUNS..." compare
mkdir empty; refuses 4 "is not a run and contains no runs" compare empty
refuses 2 "so they are the same run" compare all/reverse-none-1 all/reverse-none-1
unfinish all/reverse-none-2
rm -r all/reverse-none-3
expect 0 compare all
err_has "warning: 1 of 5 runs is not compared: all/reverse-none-2 (not finished)"; has_row 1 reverse-none-1
for run in all/*/state.safetensors; do unfinish "${run%/*}"; done
refuses 2 "no run is finished: all/reverse-d-head-1 is not finished" compare all
end_of_checks
