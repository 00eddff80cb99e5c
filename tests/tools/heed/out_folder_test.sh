#!/usr/bin/env bash
# Tests of `heed train --out DIR` if the directory was used before. Usage: out_folder_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
small=("${tiny[@]}" --steps 4 --quiet --threads 1)

# --- --overwrite removes the files that a run wrote. run_copies_test.cpp and faults_test.sh have files of the user
expect 0 train reverse "${small[@]}" --save-every 2 --out run
mkdir run/study && touch run/study/weights.png
refuses 2 "--overwrite needs a value" train reverse "${small[@]}" --out run --overwrite=
refuses 2 "--overwrite" train reverse "${small[@]}" --out run
expect 0 train reverse "${small[@]}" --seed 2 --out run --overwrite
ok test -e run/study/weights.png; ok test -z "$(ls run/checkpoints)"
ok grep -q 'seed = 2' run/config.toml

# --- --overwrite does not remove files through a symbolic link
mkdir outside
expect 0 train reverse "${small[@]}" --out linked
ln -s ../outside linked/checkpoints
refuses 2 "linked/checkpoints is not a directory: heed does not remove files through links" \
  train reverse "${small[@]}" --save-every 2 --out linked --overwrite
refuses 4 "cannot make the directory linked/checkpoints" train --resume linked --steps 9 --save-every 1 --quiet
ok test -z "$(ls outside)"
ln -s run by-name
expect 0 train reverse "${small[@]}" --seed 4 --out by-name --overwrite  # the output directory may be a symbolic link
ok grep -q 'seed = 4' run/config.toml

# --- until the first save of the new run, the old run is complete. Creating a large model takes long
expect 0 train reverse "${small[@]}" --out old
cp -r old saved
"$heed" train reverse --layers 24 --heads 16 --d-model 1024 --out old --overwrite > /dev/null 2>&1 &
pid=$!
sleep 0.02
cp -r old during
kill -KILL $pid
wait $pid 2> /dev/null
what="heed train --overwrite, before its first save"
ok diff -r during saved; ok diff -r old saved
# A kill between the first save and the removal of the old files: the run is new, and a resume removes the old files.
expect 0 train reverse "${small[@]}" --seed 5 --steps 0 --out new
cp -r old between; cp new/state.safetensors between/; mkdir -p between/checkpoints; cp old/model.safetensors between/checkpoints/000004.safetensors
edit_state between 'nsteps = 0' 'nsteps = 9'; unfinish between; expect 0 info .; ok grep -q "^./between  *reverse  *0  *9 " out
edit_state between 'nsteps = 9' 'nsteps = 0'
expect 0 eval between --sequences 4; out_has "step 0"; refuses 4 "has no checkpoints" study between --over-time
expect 0 train --resume between --steps 2 --quiet; ok test ! -e between/checkpoints/000004.safetensors
ok grep -q 'seed = 5' between/config.toml
expect 0 train --resume old --steps 5 --quiet
ok test -z "$(find old -name '*.tmp*')"

# --- a rejected --overwrite changes nothing: directories or links in place of files, an immutable file, files of others
expect 0 train reverse "${small[@]}" --out kept-run
copy() { rm -rf before; cp -a kept-run before; }
cp -a kept-run whole
for name in state.safetensors config.toml metrics.csv model.safetensors best.safetensors \
            checkpoints/000009.safetensors; do
  for make in mkdir "ln -s ../outside/file"; do
    rm -rf kept-run; cp -a whole kept-run; mkdir -p kept-run/checkpoints; [[ $name == state* ]] && cp whole/model.safetensors kept-run/
    rm -f kept-run/$name; $make kept-run/$name; copy
    refuses 4 "cannot replace kept-run/$name: " train reverse "${small[@]}" --seed 2 --out kept-run --overwrite
    ok diff --no-dereference -r kept-run before
  done
done
rm -rf kept-run; cp -a whole kept-run; copy
if chattr +i kept-run/model.safetensors 2> /dev/null; then
  refuses 4 "kept-run/model.safetensors: Operation not permitted" train reverse "${small[@]}" --seed 2 --out kept-run --overwrite
  chattr -i kept-run/model.safetensors; ok diff -r kept-run before
else echo "skipped: an immutable file, which this file system or user cannot make"; fi
if [[ $EUID == 0 ]] && setpriv --reuid 65534 --regid 65534 --clear-groups true 2> /dev/null; then
  chmod a+rx "$dir"; cp "$heed" heed-copy; chmod a+rx heed-copy; mkdir kept-run/checkpoints
  other_is_refused() { # other_is_refused TEXT: another user cannot overwrite the run
    copy; what="heed train --overwrite of another user: $1"
    setpriv --reuid 65534 --regid 65534 --clear-groups "$dir/heed-copy" train reverse "${small[@]}" --save-every 2 --out kept-run --overwrite > out 2> err; code=$?
    ok test $code == 4; err_has "$1"; ok diff -r kept-run before
  }
  chmod 1777 kept-run; other_is_refused "state.safetensors: heed did not write it"  # a sticky directory of root
  chown 65534 kept-run/*; chown 0 kept-run/config.toml; other_is_refused "config.toml: heed did not write it"
  chown -R 65534 kept-run; chmod 555 kept-run; other_is_refused "cannot replace kept-run/state.safetensors: Permission denied"
  chmod 755 kept-run; chmod 555 kept-run/checkpoints; other_is_refused "cannot write kept-run/checkpoints/000000.safetensors: Permission denied"
  refuses 4 "heed did not write it" train reverse "${small[@]}" --out kept-run --overwrite; ok diff -r kept-run before
  chown -R 0 kept-run; rmdir kept-run/checkpoints
else echo "skipped: files of other users, because only root can be another user"; fi

# --- commands that read a run write nothing
mkdir -p victim; echo mine > victim/file
rm -rf before; cp -a kept-run before
mkdir -p all; cp -a kept-run all/
for command in "info kept-run" "eval kept-run --sequences 4" "info all" "generate kept-run --tokens 1 --prompt abcdefghijklmnop"; do
  # shellcheck disable=SC2086
  expect 0 $command
done
for run in kept-run all/kept-run; do ok diff -r $run before; done
ln -sf ../victim/file kept-run/loss.png  # pictures replace links
expect 0 train --resume kept-run --steps 5 --quiet; ok test "$(cat victim/file)" == mine

# --- if a directory contains only temporary files of a killed run, it can be used as an output directory
dead=$(bash -c 'echo $$')
mkdir -p bare/checkpoints
expect 0 train reverse "${small[@]}" --out bare
mkdir -p killed/checkpoints
touch killed/config.toml.tmp"$dead".0 killed/checkpoints/000000.safetensors.tmp"$dead".1
expect 0 train reverse "${small[@]}" --out killed; ok test -z "$(find killed -name '*tmp*')"
mkdir mine && touch mine/model.safetensors.tmp"$dead".0 mine/notes.tmp"$dead".0
refuses 2 "is not a run directory" train reverse "${small[@]}" --out mine; ok test -e mine/notes.tmp"$dead".0
ok test -e mine/model.safetensors.tmp"$dead".0; touch bare/config.toml.tmp1.2  # a command that fails removes nothing
refuses 2 "holds a run already" train reverse "${small[@]}" --out bare; refuses 2 "has done its 4 steps" train --resume bare
ok test -e bare/config.toml.tmp1.2
mkdir foreign && touch foreign/model.safetensors.tmp
refuses 2 "is not a run directory" train reverse "${small[@]}" --out foreign

# --- a resume removes stale temporary files, and no other files
mkdir -p bare/checkpoints
touch bare/model.safetensors.tmp"$dead".0 bare/checkpoints/000002.safetensors.tmp"$dead".7 \
  bare/state.safetensors.tmp$$.0 bare/notes.tmp"$dead".0 bare/model.safetensors.tmp
expect 0 train --resume bare --steps 5 --quiet
ok test ! -e bare/model.safetensors.tmp"$dead".0; ok test ! -e bare/checkpoints/000002.safetensors.tmp"$dead".7
ok test ! -e bare/state.safetensors.tmp$$.0  # process $$ is alive, but it does not hold the lock
ok test -e bare/notes.tmp"$dead".0; ok test -e bare/model.safetensors.tmp

# --- only one process may write to a run directory; eval and info may read during training
"$heed" train reverse "${tiny[@]}" --steps 1000000 --eval-every 0 --out busy > /dev/null 2>&1 &
pid=$!
wait_until $pid test -e busy/model.safetensors
for arguments in "--resume busy" "reverse --out busy" "reverse --out busy --overwrite"; do
  # shellcheck disable=SC2086
  expect 4 train $arguments
done
err_has "busy: it is locked by another process"
expect 0 eval busy --sequences 4
kill -TERM $pid; wait $pid; code=$?
what="heed train, SIGTERM"; ok test $code == 130
expect 0 info .; out_has "1000000"
expect 0 train reverse "${small[@]}" --out busy --overwrite

# --- a replaced file keeps its permissions: each command writes its files twice
expect 0 train reverse "${tiny[@]}" --steps 2 --quiet --save-every 1 --out modes
for command in "study modes --out modes-study --overwrite" \
  "compare modes --out modes-compare" "plot modes/model.safetensors --name tok.weight --out modes.png" \
  "export modes --names transformerlens --out modes.safetensors" "train --resume modes --quiet --steps"; do
  for steps in 3 4; do
    find modes* -type f -exec chmod 600 {} + -exec touch -d 2001-01-01 {} +
    # shellcheck disable=SC2086
    expect 0 $command $([[ $command == *--steps ]] && echo $steps)
  done
  ok test -z "$(find modes* -type f -newermt 2001-01-02 -perm /077 ! -name 000004.safetensors)"
done
end_of_checks
