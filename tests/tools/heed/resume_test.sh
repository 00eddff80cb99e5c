#!/usr/bin/env bash
# Tests of `heed train --resume` (more steps, a moved text, a stop near the end).
# Usage: resume_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
quick=("${tiny[@]}" --quiet --threads 1)

# --- more steps: the schedule still ends at the old last step, and heed prints a note about it. resume_test.cpp
# tests every schedule
cosine=(reverse "${quick[@]}" --schedule cosine --min-lr 1e-4 --warmup 2)
expect 0 train "${cosine[@]}" --steps 10 --out longer
expect 0 train --resume longer --steps 14 --quiet
err_has "the cosine schedule still ends at step 10; later steps use min-lr 0.0001"
ok test "$(wc -l < err)" == 1
expect 0 train reverse "${quick[@]}" --steps 10 --out constant
cp -r constant short
expect 0 train --resume constant --steps 14 --quiet; ok test ! -s err

# --- a resume needs no copy of a part of the state. run_copies_test.cpp tests damaged copies
cp -r short part
rm part/{model.safetensors,config.toml}
expect 0 train --resume part --steps 14 --quiet
same_run part constant; same part/config.toml constant/config.toml

# --- the text of a run was moved
for i in $(seq 60); do echo "line $i: the quick brown fox, naïve café"; done > text.txt
expect 0 train --text text.txt "${quick[@]}" --context 16 --steps 4 --out text-run
mkdir elsewhere && mv text.txt elsewhere/new.txt
expect 0 train --resume text-run --text elsewhere/new.txt --steps 8 --quiet
ok grep -q 'elsewhere/new.txt' text-run/config.toml
mv elsewhere/new.txt elsewhere/newer.txt  # the run is finished, so no steps remain
expect 0 train --resume text-run --text elsewhere/newer.txt; err_has "text-run: saved the new path of its text"
ok grep -q 'elsewhere/newer.txt' text-run/config.toml
expect 0 eval text-run --sequences 4; refuses 2 "has done its 8 steps" train --resume text-run
mv elsewhere/newer.txt elsewhere/new.txt
expect 0 train --resume text-run --text elsewhere/new.txt
refuses 2 "no step is done; leave out --json" train --resume text-run --text elsewhere/new.txt --json
expect 0 eval text-run --sequences 4
sed 's/quick/quack/' elsewhere/new.txt > changed.txt
refuses 4 "is not the text of this run" train --resume text-run --text changed.txt --steps 12
refuses 2 "does not learn a text; omit --text" train --resume constant --text changed.txt --steps 20
refuses 2 "--lr has no effect with --resume; leave out --lr" train --resume constant --lr 1
refuses 2 "--config constant/config.toml sets options that have no effect with --resume, such as " train --resume constant --config constant/config.toml
err_has "such as batch; leave out --config"
refuses 2 "--warmup has no effect with --resume; leave out --warmup" train --resume constant --config constant/config.toml --warmup 1
refuses 2 "has done its 10 steps, and --steps 10 is not more; continue with heed train --resume short --steps 20" \
  train --resume short --steps 10

for i in $(seq 60); do echo "$i fox"; done > lines.txt
expect 0 train --lines lines.txt "${quick[@]}" --context 16 --steps 4 --out lines-run
mv lines.txt elsewhere/
expect 0 train --resume lines-run --lines elsewhere/lines.txt --steps 8 --quiet

# --- if a run is stopped between its last step and the last evaluation and pictures, --resume adds these
long=(reverse --layers 2 --heads 4 --d-model 96 --batch 1 --eval-batch 4 --eval-every 2 --steps 4 --quiet --threads 1)
expect 0 train "${long[@]}" --out whole
for signal in KILL INT TERM HUP; do
  what="heed train, SIG$signal in its last evaluation"
  code=0
  while [[ $code == 0 ]]; do  # if the run ended before the signal arrived, it is repeated
    rm -rf cut-$signal
    "$heed" train "${long[@]}" --out cut-$signal > cut.out 2> err &
    pid=$!
    wait_until $pid grep -qs '^4,.*,.*,.*,.*,' cut-$signal/metrics.csv
    kill -$signal $pid 2> /dev/null
    wait $pid 2> /dev/null
    code=$?
  done
  if [[ $signal == KILL ]]; then ok test $code == 137; else
    ok test $code == 130; err_has "heed train --resume cut-$signal"; fi
  ok test ! -s cut.out
  expect 0 train --resume cut-$signal --quiet; out_has "best possible"
  same_run cut-$signal whole
  has_file cut-$signal/loss.png; has_file cut-$signal/attention.png
  refuses 2 "has done its 4 steps" train --resume cut-$signal
done

end_of_checks
