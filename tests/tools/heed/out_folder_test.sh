#!/usr/bin/env bash
# Tests of `heed train --out DIR` if the directory was used before. Usage: out_folder_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
small=("${tiny[@]}" --steps 4 --quiet --threads 1)

# --- --overwrite removes the files that a run wrote. run_copies_test.cpp and faults_test.sh have files of the user
expect 0 train reverse "${small[@]}" --save-every 2 --out run
mkdir run/study && touch run/study/weights.png
expect 0 train reverse "${small[@]}" --seed 2 --out run --overwrite
ok test -e run/study/weights.png; ok test -z "$(ls run/checkpoints)"
ok grep -q 'seed = 2' run/config.toml

# hostile_test.py has links inside the run directory, directories in place of files, and commands that only read
expect 0 import run/model.safetensors --out half; rm half/config.toml  # as after a kill
refuses 2 "replace it with --overwrite" import run/model.safetensors --out half
expect 0 import run/model.safetensors --out half --overwrite; ok test -e half/config.toml
ln -s run by-name
expect 0 train reverse "${small[@]}" --seed 4 --out by-name --overwrite; ok grep -q 'seed = 4' run/config.toml

expect 0 train reverse "${small[@]}" --out old
# A kill between the first save and the removal of the old files: the run is new, and a resume removes the old files.
expect 0 train reverse "${small[@]}" --seed 5 --steps 0 --out new
cp -r old between; cp new/state.safetensors between/; mkdir -p between/checkpoints; cp old/model.safetensors between/checkpoints/000004.safetensors
edit_state between 'nsteps = 0' 'nsteps = 9'; unfinish between; expect 0 info .; ok grep -q "^reverse  *0  *9 .* ./between$" out
edit_state between 'nsteps = 9' 'nsteps = 0'
expect 0 eval between --sequences 4; out_has "step 0"; refuses 4 "has no checkpoints" study between --over-time
expect 0 train --resume between --steps 2 --quiet; ok test ! -e between/checkpoints/000004.safetensors
ok grep -q 'seed = 5' between/config.toml

# --- if a directory contains only temporary files of a killed run, it can be used as an output directory
dead=$(bash -c 'echo $$')
mkdir -p bare/checkpoints
expect 0 train reverse "${small[@]}" --out bare
mkdir -p killed/checkpoints
touch killed/config.toml.tmp"$dead".0 killed/checkpoints/000000.safetensors.tmp"$dead".1
expect 0 train reverse "${small[@]}" --out killed; ok test -z "$(find killed -name '*tmp*')"
mkdir mine && touch mine/model.safetensors.tmp"$dead".0 mine/notes.tmp"$dead".0
refuses 2 "is not a run directory" train reverse "${small[@]}" --out mine; ok test -e mine/notes.tmp"$dead".0
ok test -e mine/model.safetensors.tmp"$dead".0; touch bare/config.toml.tmp1.2
refuses 2 "holds a run already" train reverse "${small[@]}" --out bare; ok test -e bare/config.toml.tmp1.2
# A kill in the last write of a finished run leaves a file that the next resume removes, although no step is missing.
refuses 2 "has done its 4 steps" train --resume bare; ok test ! -e bare/config.toml.tmp1.2
mkdir foreign && touch foreign/model.safetensors.tmp
refuses 2 "is not a run directory" train reverse "${small[@]}" --out foreign

# --- a resume removes stale temporary files, and no other files
mkdir -p bare/checkpoints
touch bare/model.safetensors.tmp"$dead".0 bare/checkpoints/000002.safetensors.tmp"$dead".7 \
  bare/state.safetensors.tmp$$.0 bare/notes.tmp"$dead".0 bare/model.safetensors.tmp
expect 0 train --resume bare --steps 5 --quiet
ok test ! -e bare/model.safetensors.tmp"$dead".0; ok test ! -e bare/checkpoints/000002.safetensors.tmp"$dead".7; ok test ! -e bare/state.safetensors.tmp$$.0  # process $$ is alive, but it does not hold the lock
ok test -e bare/notes.tmp"$dead".0; ok test -e bare/model.safetensors.tmp

# --- only one process may write to a run directory; eval and info may read during training
"$heed" train reverse "${tiny[@]}" --steps 1000000 --eval-every 0 --out busy > /dev/null 2>&1 &
pid=$!
wait_until $pid test -e busy/model.safetensors
touch busy/best.safetensors.tmp12.0  # it may belong to the process that holds the lock
for arguments in "--resume busy" "reverse --out busy" "reverse --out busy --overwrite"; do
  # shellcheck disable=SC2086
  expect 4 train $arguments
done
err_has "busy: it is locked by another process"; ok test -e busy/best.safetensors.tmp12.0
expect 0 eval busy --sequences 4
kill -TERM $pid; wait $pid; code=$?
what="heed train, SIGTERM"; ok test $code == 130
expect 0 info .; out_has "1000000"
expect 0 train reverse "${small[@]}" --out busy --overwrite

end_of_checks
