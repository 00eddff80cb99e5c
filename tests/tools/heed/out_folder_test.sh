#!/usr/bin/env bash
# Tests of `heed train --out DIR` if the directory was used before. Usage: out_folder_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
small=("${tiny[@]}" --steps 4 --quiet --threads 1)

# --- --overwrite removes the files that a run wrote, and no others
expect 0 train reverse "${small[@]}" --save-every 2 --out run
touch run/mine run/checkpoints/mine.safetensors run/checkpoints/notes.txt run/checkpoints/12x4.safetensors
expect 0 verify causality run; has_file run/causality.png  # --overwrite also removes this file
cp run/result.json first.json
mkdir run/checkpoints/000009.safetensors run/study && touch run/study/weights.png
refuses 2 "--overwrite needs a value" train reverse "${small[@]}" --out run --overwrite=
refuses 2 "--overwrite" train reverse "${small[@]}" --out run
expect 0 train reverse "${small[@]}" --seed 2 --out run --overwrite
for kept in mine checkpoints/mine.safetensors checkpoints/notes.txt checkpoints/12x4.safetensors \
            checkpoints/000009.safetensors study/weights.png; do
  ok test -e run/$kept
done
for gone in 000000 000002 000004; do ok test ! -e run/checkpoints/$gone.safetensors; done
ok grep -q 'seed = 2' run/config.toml; ok test ! -e run/causality.png; ok test "$(cat first.json)" != "$(cat run/result.json)"

# --- --overwrite does not remove files through a symbolic link
mkdir outside
expect 0 train reverse "${small[@]}" --out linked
ln -s ../outside linked/checkpoints
refuses 2 "linked/checkpoints is a symbolic link, and heed does not remove files through links" \
  train reverse "${small[@]}" --save-every 2 --out linked --overwrite
rm linked/checkpoints
mv linked/model.safetensors outside/; ln -s ../outside/model.safetensors linked/model.safetensors
cp outside/model.safetensors kept
expect 0 train reverse "${small[@]}" --seed 3 --out linked --overwrite
same outside/model.safetensors kept
ln -s run by-name
expect 0 train reverse "${small[@]}" --seed 4 --out by-name --overwrite  # the output directory may be a symbolic link
ok grep -q 'seed = 4' run/config.toml

# --- a kill before the new run is saved leaves the complete old run
expect 0 train reverse "${small[@]}" --out old
cp -r old saved
audit=$(cksum < old/audit.txt)
for milliseconds in 1 2 3 4 5 6 8 10 12 14 16 18 20 25 30 40 60; do
  what="heed train --overwrite, killed after $milliseconds ms"
  "$heed" train reverse "${tiny[@]}" --steps 100000 --seed 5 --quiet --out old --overwrite > /dev/null 2>&1 &
  pid=$!
  sleep "$(printf '0.%03d' $milliseconds)"
  kill -KILL $pid
  wait $pid 2> /dev/null
  expect 0 info old  # this command completes or removes the interrupted replacement
  if grep -q 'seed = 5' old/config.toml; then
    expect 0 info old/state.safetensors; expect 0 eval old --sequences 4
    rm -r old; cp -r saved old
  else
    for file in model.safetensors best.safetensors state.safetensors config.toml metrics.csv loss.png; do
      same old/$file saved/$file
    done
  fi
done
expect 0 train --resume old --steps 5 --quiet
ok test "$(cksum < old/audit.txt)" == "$audit"  # a resume keeps audit.txt, which describes step 1
ok test -z "$(find old -name '*.tmp*')"

# --- if a kill interrupts heed while it moves the files of the new run, the next command completes the moves
expect 0 train reverse "${small[@]}" --seed 5 --save-every 2 --out earlier
expect 0 train reverse "${tiny[@]}" --steps 5 --quiet --threads 1 --out later
rm later/audit.txt later/attention.png  # so files of these names in earlier/ must be removed
files=(best.safetensors config.toml heads.csv loss.png metrics.csv model.safetensors result.json state.safetensors)
gone=(attention.png audit.txt checkpoints/00000{0,2,4}.safetensors)
for command in info eval "train --resume" runs; do
  for moved in 0 1 2 5; do
    rm -rf runs
    mkdir runs && cp -r earlier runs/mix && cp -r later runs/mix/.publish
    { printf -- '- %s\n' "${gone[@]}"; printf '+ %s\n' "${files[@]}"; } > runs/mix/.publish/heed-journal
    for file in "${files[@]:0:moved}"; do mv runs/mix/.publish/"$file" runs/mix/; done
    if [[ $moved != 0 ]]; then (cd runs/mix && rm "${gone[@]}"); fi
    if [[ $command == runs ]]; then expect 0 runs; out_has "5/5"; else
      # shellcheck disable=SC2086
      expect "$([[ $command == train* ]] && echo 2 || echo 0)" $command runs/mix
    fi
    ok diff -r later runs/mix
  done
done
rm -r runs
# Creating a large model takes long, so the kill happens before the first save.
"$heed" train reverse --layers 24 --heads 16 --d-model 1024 --out old --overwrite > /dev/null 2>&1 &
pid=$!
sleep 0.02
cp -r old during
kill -KILL $pid
wait $pid 2> /dev/null
what="heed train --overwrite, before its first save"
ok grep -q 'steps = 5' during/config.toml
expect 0 eval during --sequences 4; expect 0 eval old --sequences 4

# --- if a directory contains only temporary files of a killed run, it can be used as an output directory
dead=$(bash -c 'echo $$')
mkdir -p bare/checkpoints
expect 0 train reverse "${small[@]}" --out bare
mkdir -p killed/checkpoints
touch killed/config.toml.tmp"$dead".0 killed/checkpoints/000000.safetensors.tmp"$dead".1
expect 0 train reverse "${small[@]}" --out killed; ok test -z "$(find killed -name '*tmp*')"
mkdir mine && touch mine/model.safetensors.tmp"$dead".0 mine/notes.tmp"$dead".0
refuses 2 "is not a run directory" train reverse "${small[@]}" --out mine; ok test -e mine/notes.tmp"$dead".0
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
expect 0 train reverse "${small[@]}" --out busy --overwrite

# --- a replaced file keeps its permissions: each command writes its files twice
expect 0 train reverse "${tiny[@]}" --steps 2 --quiet --save-every 1 --out modes
for command in "study modes --out modes-study --overwrite" "verify causality modes" "eval modes --context 8,16" \
  "gradcheck relu --junit modes.xml" "compare modes --out modes-compare" "plot modes/model.safetensors --name tok.weight --out modes.png" \
  "export modes --names transformerlens --out modes.safetensors" "train --resume modes --quiet --steps"; do
  for steps in 3 4; do
    find modes* -type f -exec chmod 600 {} + -exec touch -d 2001-01-01 {} +
    # shellcheck disable=SC2086
    expect 0 $command $([[ $command == *--steps ]] && echo $steps)
  done
  ok test -z "$(find modes* -type f -newermt 2001-01-02 -perm /077 ! -name 000004.safetensors)"
done
end_of_checks
