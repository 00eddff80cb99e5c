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
has_row() { ok grep -q "^ *$1  .*  $2$" out; }
train_runs all reverse 1 2 3

expect 0 compare all
out_has "6 runs of 2 settings; means over seeds"; has_row 3 "scale=none"; has_row 3 "scale=1/d-head"
has_file all/compare/curves.png
ok grep -aq "scale=none: [0-9.]* at 12" all/compare/curves.png
expect 0 compare all/reverse-none-[12] --json --out two
is_json_line; out_has '"setting":"all runs"'; out_has '"n":2'; has_file two/curves.png
expect 0 compare all/reverse-none-3 --out one; out_has "1 run of 1 setting;"; has_file one/curves.png

# --- a damaged run is not compared, and a warning gives its name and the reason
damage() {  # damage FILE [SIZE]: copies all runs, and truncates FILE of the first run to SIZE bytes (default: 0)
  rm -rf bad
  cp -r all bad
  head -c "${2:-0}" "all/reverse-none-1/$1" > "bad/reverse-none-1/$1"
}
damage config.toml; damage metrics.csv  # copies, which are not read
expect 0 compare bad; out_has "6 runs of 2 settings"; ok test ! -s err
for size in 0 300; do
  damage state.safetensors $size
  expect 0 compare bad; out_has "5 runs of 2 settings"; has_row 2 "scale=none"
  err_has "warning: 1 of 6 runs is not compared: bad/reverse-none-1 (cannot read state.safetensors: it"
done
expect 0 compare bad --json --out json; is_json_line
out_has '"left_out":[{"run":"bad/reverse-none-1","why":"cannot read state.safetensors'
refuses 4 "compare: no run can be compared: bad/reverse-none-1/ (cannot read" compare bad/reverse-none-1/

# --- the files go into a new directory. The table is printed even if it cannot be made
table() { out_has "6 runs of 2 settings"; has_row 3 "scale=1/d-head"; }
touch file; expect 4 compare all --out file/here; table; err_has "cannot make the directory file/here: "; err_has "--out DIR writes"
expect 4 compare all --out file/here --json; is_json_line; out_has '"files":[]'; err_has "--out DIR writes"


# --- runs on two different texts have one task, and each text is a setting
for text in a b; do
  seq -s $text 500 > $text.txt
  expect 0 train --text $text.txt "${tiny[@]}" --context 8 --steps 4 --quiet --out $text
done
expect 0 compare a b --out texts; out_has "2 runs of 2 settings"; out_has "text=$PWD/a.txt"; out_has "text=$PWD/b.txt"

# --- help states how many settings are drawn
expect 0 compare --help all; help_has "of more than 8 settings the first 8"

# --- a run that was extended has no value of seconds, because a resume does not measure all its steps
cp -r all longer
expect 0 compare longer/reverse-none-1 --out shorter; out_has "  seconds  "
expect 0 train --resume longer/reverse-none-1 --steps 16 --quiet
expect 0 compare longer/reverse-none-1 --out longer-one; ok bash -c '! grep -q "  seconds  " out'

# --- runs that cannot be compared are rejected
refuses 2 "heed compare needs RUNS..." compare
mkdir empty; refuses 4 "is not a run and contains no runs" compare empty
refuses 2 "so they are the same run" compare all/reverse-none-1 all/reverse-none-1
unfinish all/reverse-none-2
rm -r all/reverse-none-3
expect 0 compare all
err_has "warning: 1 of 5 runs is not compared: all/reverse-none-2 (not finished)"; has_row 1 "scale=none"
for run in all/*/state.safetensors; do unfinish "${run%/*}"; done
refuses 2 "no run is finished: all/reverse-d-head-1 is not finished" compare all
end_of_checks
