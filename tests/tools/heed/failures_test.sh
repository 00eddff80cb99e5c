#!/usr/bin/env bash
# Tests that a failure of a system call loses nothing. Each command that writes files runs once for each call
# of open, write, fsync, rename, unlink, mkdir, ftruncate and flock that it makes: in the Nth run the Nth call
# fails, until a run makes fewer than N calls. This is repeated with the errors ENOSPC, EIO, EACCES and EINTR,
# and with short writes. ERRORS=new lets operator new fail at each call site instead (failing_calls.cpp). EVERY=3
# only takes every third call.
# - The exit code is 4, unless the table below allows another one.
# - If the exit code is 0 and the table requires no message, the files have the same bytes as after an undisturbed
#   command.
# - What was saved before is readable: heed verify run finds each earlier run whole.
# - At most one temporary file is left.
# - The same command then succeeds, leaves no temporary file, and its results have the same bytes as those of a
#   command that was never disturbed.
# Usage: [ERRORS="ENOSPC"] [COMMANDS="train resume"] [EVERY=3] failures_test.sh PATH-TO-HEED PATH-TO-failing_calls.so
[[ -w /dev/shm ]] && export TMPDIR=/dev/shm  # fsync is fast there
calls_library=$(readlink -f "$2")
source "$(dirname "$0")/expect.sh" "$1"

# The failures after which the exit code is not 4. Each line has a pattern (bash) for "COMMAND ERROR CALL PATH", the
# exit code, and a text that stderr must contain; "-" if the failure needs no message.
run="@(train|replace|resume)" sync="@(open .|fsync target/run)"
allowed=(
  # Pictures of a run: training continues, and a later save or the end of the run draws them again.
  "$run * @(open|write|fsync|renameat) *@(loss|attention).png*" 0 "warning: no "
  "$run * $sync" 0 "warning: no "
  # Removal: the next start removes what is left.
  "* * @(remove|unlink|unlinkat|rmdir) *@(target/run|target/study|target/compare|checkpoints)" 0 -
  "sweep * remove target/sweep/seed=1*" 0 -
  "sweep * open target/sweep/seed=1/.staging" 0 -
  # Sync: a directory that is not readable cannot be synced, but may be writable.
  "* EACCES open @(.|checkpoints|target|target/*)" 0 -
  # Interruption: the call is repeated. After a short write the rest is written.
  "* EINTR @(open|write|fsync|flock) *" 0 -
  "* short *" 0 -
  # Memory: a picture is left out, or the allocation was optional.
  "* new new *" 0 -
  # libstdc++ ends the process if no memory is left for an entry of a directory (directory_iterator).
  "* new new *" 70 "std::terminate was called"
  # --resume writes weights and metrics.csv again that it cannot read, and compares metrics.csv only with a state that
  # it can read.
  "@(resume|retext) * open target/run/@(model.safetensors|best.safetensors|state.safetensors|metrics.csv)" 0 -
  # compare leaves out a run that it cannot read.
  "compare * open [ab]/*" 0 "are not compared"
  # sweep: a run that cannot be started is reported like a run that fails.
  "sweep * * target/sweep*" 1 " failed: "
  # sweep: if the lock cannot be read, the process that trains the run reads it again.
  "sweep * @(open|flock) target/sweep/seed=1" 0 -
)

# Prints the checksums of all files that a command writes. Left out are result.json and junit.xml, which contain times,
# and the files in `left_out`.
contents() { find target -type f ! -name result.json ! -name junit.xml "${left_out[@]}" -print0 2> /dev/null | sort -z | xargs -0r md5sum; }

# --- the commands. before_NAME is the directory `target` before the command
learn=(train reverse "${tiny[@]}" --steps 2 --eval-every 2 --save-every 2 --quiet --threads 1)
expect 0 "${learn[@]}" --out a
expect 0 "${learn[@]}" --scale none --out b
for i in $(seq 60); do echo "$i fox"; done > text.txt
mkdir before_train before_sweep before_study before_compare before_gradcheck before_overtime before_other before_plot
mkdir before_replace before_resume before_restudy before_causality before_retext
cp -r a before_replace/run; cp -r a before_resume/run; cp -r a before_causality/run
expect 0 train --text text.txt "${tiny[@]}" --context 16 --steps 2 --quiet --out before_retext/run
mv text.txt moved.txt
expect 0 study a --head L0H0 --out before_restudy/study --threads 1
printf '[train]\ntask = "reverse"\nlayers = 1\nheads = 1\nd-model = 16\nbatch = 4\neval-batch = 8\nsteps = 2\n[sweep]\nseed = [1]\n' > s.toml
command_train=("${learn[@]}" --out target/run)
command_replace=("${learn[@]}" --seed 2 --out target/run --overwrite)
command_resume=(train --resume target/run --steps 4 --quiet --threads 1)
command_sweep=(sweep s.toml --out target/sweep --jobs 1 --threads 1 --quiet)
command_study=(study a --export csv --out target/study --overwrite --threads 1)
command_restudy=(study a --prompt abcdefghijklmnop --of logit:a --out target/study --overwrite --threads 1)
command_compare=(compare a b --out target/compare)
command_gradcheck=(gradcheck relu --junit target/junit.xml --threads 1)
command_overtime=(study a --over-time --out target/study --overwrite --threads 1)
command_other=(study a b --out target/study --overwrite --threads 1)
command_plot=(plot a/model.safetensors --name tok.weight --out target/words.png)
command_retext=(train --resume target/run --text moved.txt --threads 1)
command_causality=(verify causality target/run --threads 1)

restore() { rm -rf target; cp -r "before_$1" target; }
check_runs() {  # finds each run whole that has been saved
  local run
  for run in a target/run target/sweep/seed=1; do
    [[ -e $run/config.toml || -s $run/.publish/heed-journal ]] || continue
    expect 0 verify run "$run"
  done
}
# holds_old_or_new NAME: succeeds if the old result of a command that replaces it is whole, or the new one is committed
holds_old_or_new() {
  [[ -n $(find target -path '*/.publish/heed-journal' -size +0) ]] && return
  (cd "before_$1" && find . -type f -exec md5sum {} +) | (cd target && md5sum -c --status - 2> /dev/null) && return
  [[ $(contents) == "$after" ]] || { [[ $1 == replace ]] && grep -q "^seed = 2" target/run/config.toml; }
}

# is_allowed CALL CODE: returns whether the table contains this exit code for this failure
is_allowed() {
  local i
  for ((i = 0; i < ${#allowed[@]}; i += 3)); do
    # shellcheck disable=SC2053  # the right side is a pattern
    [[ $1 == ${allowed[i]} && $2 == "${allowed[i + 1]}" ]] || continue
    silent=${allowed[i + 2]}
    [[ $silent == - ]] || grep -qF -- "$silent" err || continue
    return 0
  done
  return 1
}

# one_failure NAME ERROR N: lets the Nth call of a command fail. Returns 1 if the command makes fewer calls
one_failure() {
  local -n command=command_$1
  restore "$1"
  rm -f failed
  HEED_FAIL_AT=$3 HEED_FAIL_WITH=$2 HEED_FAIL_BELOW=$dir HEED_FAILED=$dir/failed LD_PRELOAD=$calls_library \
    "$heed" "${command[@]}" > out 2> err < /dev/null
  local code=$?
  [[ -e failed ]] || return 1
  points=$((points + 1))
  local call; call="$1 $2 $(sed "s|$dir/||; s|\.tmp[0-9.]*|.tmp|" failed)"
  what="heed ${command[*]}, $call (call $3)"
  checks=$((checks + 1))
  silent=""
  [[ $code == 4 ]] || is_allowed "$call" "$code" || fail "$what: exit code $code"
  ok test "$(find target -name '*.tmp*' | wc -l)" -le 1
  [[ $1 == replace || $1 == restudy ]] && ok holds_old_or_new "$1"
  check_runs
  [[ $(contents) == "$after" ]] && return 0
  ok test "$code$silent" != 0-
  # A run that was saved before the failure is resumed; otherwise the same command is repeated.
  again=("${command[@]}")
  [[ $1 == train && -e target/run/config.toml ]] && again=(train --resume target/run --quiet --threads 1)
  [[ $1 == replace && $(grep seed target/run/config.toml) == "seed = 2" ]] && again=(train --resume target/run --quiet --threads 1)
  expect 0 "${again[@]}"
  checks=$((checks + 1))
  [[ $(contents) == "$after" ]] || fail "$what: after a second start: $(diff <(echo "$after") <(contents))"
  ok test -z "$(find target -name '*.tmp*' -o -name .staging -o -name .publish)"
}

points=0
for name in ${COMMANDS:-train replace resume retext sweep study restudy overtime other compare gradcheck causality plot}; do
  declare -n plain=command_$name
  # After a failure some commands are resumed. The state and the pictures then contain another command line.
  left_out=(); [[ $name =~ ^(train|replace|resume|retext|sweep)$ ]] && left_out=(! -name '*.png' ! -name state.safetensors)
  restore "$name"
  expect 0 "${plain[@]}"
  after=$(contents)
  for error in ${ERRORS:-ENOSPC EIO EACCES EINTR short}; do
    before=$points
    for ((n = 1;; n += ${EVERY:-1})); do one_failure "$name" "$error" "$n" || break; done
    echo "heed ${plain[*]}: $error at $((points - before)) calls; $failures failures so far"
    ok test $((points - before)) -gt 0
  done
done
echo "$points failures injected"
end_of_checks
