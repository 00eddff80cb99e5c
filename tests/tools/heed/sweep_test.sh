#!/usr/bin/env bash
# Tests `heed sweep`: which runs it trains, skips or resumes, failures of runs, runs that processes share, and
# interrupts. Usage: sweep_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
weights() { find "$1" -name model.safetensors | sort | xargs sha256sum | sed "s#  $1/#  #"; }
finished() { grep -la '"finished":"yes"' "$1"/*/state.safetensors 2> /dev/null | wc -l; }

# --- a grid: the directories of its runs, weights equal to those of `heed train`, and finished runs, which are
# skipped
recipe 8 'scale = ["none", "1/d-head"]' 'seed = [1, 2]' > s.toml
expect 0 sweep s.toml --dry-run; out_has "new    sweeps/s/scale=1_d-head,seed=2"; out_has "4 runs"
ok test ! -e sweeps
expect 0 sweep s.toml --quiet
out_has "sweeps/s: 4 runs, 4 trained"; out_has "heed compare sweeps/s"; same s.toml sweeps/s/sweep.toml
ok test ! -s err
for run in scale=none,seed=1 scale=none,seed=2 scale=1_d-head,seed=1 scale=1_d-head,seed=2; do
  has_file "sweeps/s/$run/model.safetensors"
done
expect 0 train --config sweeps/s/recipes/scale=none,seed=2.toml --quiet --out alone
same alone/model.safetensors sweeps/s/scale=none,seed=2/model.safetensors
expect 0 train reverse --steps 8 --layers 1 --heads 2 --d-model 16 --batch 4 --eval-batch 8 --eval-every 4 \
  --scale none --seed 2 --quiet --out flags
same flags/model.safetensors sweeps/s/scale=none,seed=2/model.safetensors
weights sweeps/s > before
expect 0 sweep s.toml; out_has "0 trained"; out_has "4 finished before"
expect 0 sweep s.toml --json; is_json_line; out_has '"state":"before"'
unfinish sweeps/s/scale=none,seed=1  # the run is resumed
expect 0 sweep s.toml --dry-run; out_has "resumes   sweeps/s/scale=none,seed=1"
mv sweeps/s/scale=none,seed=1/state.safetensors whole; head -c 20 whole > sweeps/s/scale=none,seed=1/state.safetensors
expect 0 sweep s.toml --dry-run; out_has "damaged   sweeps/s/scale=none,seed=1"; mv whole sweeps/s/scale=none,seed=1/state.safetensors
expect 0 sweep s.toml --quiet; out_has "1 trained"; out_has "3 finished before"
weights sweeps/s > after; same before after
expect 0 sweep s.toml --jobs 1 --threads 2 --out one; err_has "1 of 4 runs done, "; err_has "4 of 4 runs done"  # the weights do not depend on jobs and threads
weights one > after; same before after
recipe 8 'scale = ["none", "1/d-head", 0.5]' 'seed = [1, 2]' > more.toml
expect 0 sweep more.toml --out sweeps/s --quiet; out_has "2 trained"; out_has "4 finished before"
same more.toml sweeps/s/sweep.toml
refuses 2 "scale = 0.5 is missing now" sweep s.toml --out sweeps/s
recipe 9 'scale = ["none", "1/d-head", 0.5]' 'seed = [1, 2]' > other.toml
refuses 2 "contains another sweep: steps was 8 there and is 9 now" sweep other.toml --out sweeps/s
refuses 2 "is not empty and does not contain a sweep" sweep s.toml --out alone
refuses 2 "is a file" sweep s.toml --out s.toml
recipe 8 'scale = ["none", "1/d-head"]' 'seed = [1, 2]' 'pairs = ["scale", "seed"]' > uncrossed.toml
expect 0 sweep uncrossed.toml --out paired --quiet; out_has "2 trained"
expect 0 sweep paired/sweep.toml --out paired; out_has "2 finished before"
expect 0 compare paired; ok test ! -s err
refuses 2 "its run scale=none,seed=2 is no longer in the grid" sweep uncrossed.toml --out one

# --- invalid sweep files and options are rejected
printf '[sweep]\nseeds = [1]\n' > bad.toml; refuses 2 "the nearest is 'seed'" sweep bad.toml; ok test ! -e sweeps/bad
refuses 2 "heed sweep needs FILE" sweep
for part in 0/2 3/2 2 x/2 1/ /2 1/0 1/4611686018427387904; do refuses 2 "--part" sweep s.toml --part $part; done
printf '[sweep]\nseed = [%s]\nsteps = [%s]\n' "$(seq -s, 100)" "$(seq -s, 100)" > many.toml
expect 0 sweep many.toml --dry-run; out_has "10,000 runs"

# --- --part divides the runs
recipe 4 'seed = [1, 2, 3, 4, 5, 6, 7]' > seven.toml
for part in 1 2 3; do expect 0 sweep seven.toml --part $part/3 --dry-run; cat out; done | grep seed= | sort > parts
expect 0 sweep seven.toml --dry-run; grep seed= out | sort > all; same all parts
for part in 1 2 3; do "$heed" sweep seven.toml --part $part/3 --quiet > part$part 2>&1 & done
wait
ok grep -q "3 runs, 3 trained" part1; ok grep -q "2 runs, 2 trained" part2; ok grep -q "2 runs, 2 trained" part3
expect 0 sweep seven.toml; out_has "7 finished before"

# --- if a run fails, heed reports it, and the other runs continue
recipe 8 'lr = [10.0, 3e-3]' 'optimizer = ["sgd"]' 'momentum = [0.9999]' 'clip = [0]' 'norm = ["none"]' 'seed = [1]' > fail.toml
sed -i 's/^d-model = 16/d-model = 256/; s/^steps = 8/steps = 60/' fail.toml
expect 1 sweep fail.toml --jobs 1
out_has "2 runs, 1 trained"; out_has "1 failed"; out_has "failed  lr=10,"; err_has "lr=10,"; err_has "2 of 2 runs done, 1 failed"
expect 1 sweep fail.toml --json; is_json_line; out_has '"state":"failed","exit_code":3'; out_has '"state":"before"'

# --- a run that another process trains is counted, and trained when that process has ended
recipe 8 'seed = [1, 2]' > shared.toml; expect 0 sweep shared.toml --quiet
rm -r sweeps/shared/seed=2 sweeps/shared/seed=1/*
exec 9< sweeps/shared/seed=1; flock 9
"$heed" sweep shared.toml --jobs 1 > out 2> err 9<&- &
pid=$!
for _ in $(seq 100); do grep -q "another process" err && break; sleep 0.1; done
exec 9<&-
wait $pid; ok test $? == 0; err_has "1 of 2 runs done, 1 running in another process"; out_has "2 runs, 2 trained"

# --- on Ctrl-C or SIGTERM, each run is saved. The same command then continues the sweep, and the weights at the
# end equal those of a sweep without a stop, bit for bit
recipe 90 'seed = [1, 2, 3]' > long.toml
sed -i 's/^batch = 4/batch = 32/; s/^d-model = 16/d-model = 96/' long.toml
expect 0 sweep long.toml --out straight --quiet
weights straight > before
wait_for_steps() {  # wait_for_steps DIR: waits until two runs of the sweep in DIR have done some steps
  for run in 1 2; do wait_until $pid has_lines 8 "$1/seed=$run/metrics.csv"; done
}
all_saved() {  # all_saved DIR: checks that a stop saved the two runs; otherwise a run is saved once a minute
  for run in "$1"/seed=[12]; do ok test "$(saved_step "$run")" -gt 0; done
}
for signal in INT TERM both; do
  # A shell makes its background jobs and their children ignore SIGINT, so `env` resets it.
  env --default-signal=INT "$heed" sweep long.toml --out $signal --jobs 2 > out 2> err &
  pid=$!
  wait_for_steps $signal
  if [[ $signal == both ]]; then  # both the sweep and its runs receive the signal, as with `systemctl stop`
    # shellcheck disable=SC2046
    kill -TERM $(pgrep -P $pid) $pid
  else
    kill -$signal $pid
  fi
  wait $pid
  code=$?
  what="heed sweep, stopped by $signal"
  ok test $code == 130
  out_has "stopped; to continue, repeat the same command"
  ok test "$(finished $signal)" -lt 3
  all_saved $signal
  expect 0 sweep long.toml --out $signal --quiet
  ok test "$(finished $signal)" == 3
  weights $signal > after; same before after
done

# --- two sweeps in one directory divide the runs. A new sweep waits for runs that a killed sweep started
"$heed" sweep long.toml --out twice --jobs 1 --quiet > other 2>&1 &
pid=$!
expect 0 sweep long.toml --out twice --jobs 1 --quiet
wait $pid; code=$?
ok test $code == 0; ok test "$(finished twice)" == 3
ok test $(($(cat out other | sed -n "s/.*runs, \([0-9]\) trained.*/\1/p" | paste -sd+))) == 3
weights twice > after; same before after
"$heed" sweep long.toml --out orphans --jobs 2 > /dev/null 2>&1 &
pid=$!
wait_for_steps orphans
kill -KILL $pid
expect 0 sweep long.toml --out orphans --quiet
wait $pid 2> /dev/null
weights orphans > after; same before after

# --- temporary files that a killed sweep left are removed, but only while no other process has the lock
temporaries=(sweep.toml.tmp12.0 recipes/seed=1.toml.tmp12.1)
for file in "${temporaries[@]}"; do echo part > "twice/$file"; done
touch twice/seed=2/mine.tmp12.0 twice/mine.toml.tmp12.0
mkdir began; echo part > began/sweep.toml.tmp12.0
for folder in twice began; do
  exec 9< $folder; flock 9
  "$heed" sweep long.toml --out $folder --jobs 2 --quiet > out 2> err 9<&- &
  pid=$!
  sleep 0.5
  ok test -e $folder/sweep.toml.tmp12.0; ok kill -0 $pid
  exec 9<&-
  wait $pid; ok test $? == 0
  ok test -z "$(find $folder -name '*.tmp*' ! -name 'mine*')"
  weights $folder > after; same before after
done
ok test -e twice/seed=2/mine.tmp12.0; ok test -e twice/mine.toml.tmp12.0

# --- directories and files that prevent a run
mkdir -p rest/seed=1 && touch rest/seed=1/mine && cp long.toml rest/sweep.toml
expect 1 sweep long.toml --out rest --quiet; out_has "rest/seed=1 is not empty and contains no run that can be resumed; remove the directory"
printf '%s\n' '[train]' 'task = "induction"' 'steps = 2' 'context = 24' '[sweep]' 'seed = [1, 2]' > mistake.toml
expect 1 sweep mistake.toml --quiet; out_has "2 failed"
sed -i 's/24/32/' mistake.toml
expect 0 sweep mistake.toml --quiet; out_has "2 trained"
printf '%s\n' '[train]' 'preset = "micro"' '[sweep]' 'seed = [1]' > file.toml
refuses 2 'text = "FILE"' sweep file.toml --out none

# --- if the sweep is killed (kill -9), its runs save and end
"$heed" sweep long.toml --out killed-$$ --jobs 2 > /dev/null 2>&1 &
pid=$!
wait_for_steps killed-$$
kill -KILL $pid
wait $pid 2> /dev/null
while pgrep -f "out=killed-$$/" > /dev/null; do sleep 0.02; done
what="heed sweep, killed"
all_saved killed-$$
expect 0 sweep long.toml --out killed-$$ --quiet
weights killed-$$ > after; same before after

end_of_checks
