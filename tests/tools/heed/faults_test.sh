#!/usr/bin/env bash
# Tests that a kill or a failed system call loses no saved run and leaves no torn file. Each command that writes several
# files is killed just before each call that changes the file system (failing_calls.cpp), and each of its calls of open,
# write, fsync, rename, unlink, mkdir and flock fails once, with each error. EVERY=3 only takes every third call.
# - The exit code of a failure is 4, unless the table below allows another one. If it is 0 without a message, the files
#   are those of an undisturbed command.
# - The state of a run that was saved is whole, and no other file is torn. A result is complete or marked as unfinished.
# - Files of the user, also with names like those that heed writes, stay. At most one temporary file is left for each
#   thread that writes.
# - The command then succeeds, and the files are those of an undisturbed command.
# Usage: [FAULTS="kill ENOSPC EIO EACCES EINTR short"] [COMMANDS="train resume"] [EVERY=3] faults_test.sh PATH-TO-HEED
# PATH-TO-failing_calls.so. The fault "short" lets a write store half of its bytes, and the fault "new" lets operator new
# fail at each call site.
[[ -w /dev/shm ]] && export TMPDIR=/dev/shm  # fsync is fast there
calls_library=$(readlink -f "$2")
source "$(dirname "$0")/expect.sh" "$1"

# The failures after which the exit code is not 4. Each line has a pattern (bash) for "COMMAND ERROR CALL PATH", the
# exit code, and a text that stderr or stdout must contain; "-" if the failure needs no message.
allowed=(
  # Pictures of a run: training continues, and a later save or the end of the run draws them again.
  "@(train|replace|resume) * @(open|write|fsync|rename) *@(loss|attention).png*" 0 "warning: no "
  "@(train|replace|resume) * @(open|fsync) target/out" 0 "warning: no "
  # If a file that is not needed cannot be found or removed, the next command that writes here removes it.
  "* * @(remove|unlink|unlinkat|rmdir) *" 0 -
  "@(train|replace|resume|retext|import) * open @(target/out|target/out/checkpoints)" 0 -
  # Sync: a directory that is not readable cannot be synced, but may be writable.
  "* EACCES open @(.|checkpoints|target|target/*)" 0 -
  # Interruption: the call is repeated. After a short write the rest is written.
  "* EINTR @(open|write|fsync|flock) *" 0 -
  "* short *" 0 -
  # Memory: a picture is left out, or the allocation was optional.
  "* new new *" 0 -
  # libstdc++ ends the process if no memory is left for an entry of a directory (directory_iterator).
  "* new new *" 70 "std::terminate was called"
  # If --resume cannot read config.toml, it writes it again.
  "@(resume|retext) * open target/out/config.toml" 0 "is ignored"
  # If study cannot read the data of the run, it leaves out some measurements.
  "study * open a/*" 0 "is not"
  # If study cannot read the state again to learn its step, it lists all checkpoints.
  "study * open a/state.safetensors" 0 -
  # compare leaves out a run that it cannot read.
  "compare * open [ab]/*" 0 "not compared"
)

# --- the commands. before_NAME is the directory `target` before the command
learn=(train reverse "${tiny[@]}" --steps 2 --eval-every 2 --save-every 2 --quiet --threads 1)
expect 0 "${learn[@]}" --out a
expect 0 "${learn[@]}" --scale none --out b
mkdir -p before_{train,study,replace,resume,retext,compare,export,import,plot}
for name in replace resume import; do cp -r a before_$name/out; done
for i in $(seq 60); do echo "$i fox"; done > text.txt
expect 0 train --text text.txt "${tiny[@]}" --context 16 --steps 2 --quiet --out before_retext/out; mv text.txt moved.txt
for name in replace resume import; do  # files of the user
  echo mine | tee before_$name/out/{dS_Lecture.png,notes.txt,.mine} > before_$name/out/curves-mine.png
done
mkdir -p before_replace/out/checkpoints; echo mine > before_replace/out/checkpoints/mine.safetensors
command_train=("${learn[@]}" --out target/out)
command_replace=("${learn[@]}" --seed 2 --out target/out --overwrite)
command_resume=(train --resume target/out --steps 4 --quiet --threads 1)
command_retext=(train --resume target/out --text moved.txt --threads 1)
command_study=(study a --samples 5 --format png,svg --out target/out --threads 1)
command_compare=(compare a b --out target/out --threads 1)
command_export=(export a --names transformerlens --out target/out.safetensors)
command_import=(import b/model.safetensors --out target/out --overwrite)
command_plot=(plot a/model.safetensors --name tok.weight --out target/out.png)

restore() { rm -rf target; cp -r "before_$1" target; }
# Prints the checksums of all files that a command writes, except for those in `left_out`. Of a state, only the tensors
# are compared, because its header contains the seconds of the run.
contents() {
  local state=target/out/state.safetensors
  find target -type f ! -name state.safetensors ! -name '*.tmp[0-9]*' "${left_out[@]}" -print0 2> /dev/null | sort -z | xargs -0r md5sum
  if [[ -e $state ]]; then tail -c "+$((9 + $(od -An -t u8 -N 8 "$state")))" "$state" | md5sum; fi
}
users() { find target -type f \( -name '*mine*' -o -name notes.txt -o -name dS_Lecture.png \) -exec grep -c mine {} + | sort; }

# check_saved NAME: checks what the directory contains after a fault
check_saved() {
  local file most=1
  [[ $1 == study ]] && most=3  # arrays, pictures and the page are written by three threads
  ok test "$(users)" == "$mine"
  ok test "$(find target -name '*.tmp*' | wc -l)" -le $most
  if [[ -e target/out/state.safetensors ]]; then
    for file in target/out target/out/*.safetensors target/out/checkpoints/0*.safetensors; do
      if [[ -e $file ]]; then "$heed" info "$file" > out 2> err; ok test $? == 0; fi
    done
  fi
  case $1 in
    replace|resume|retext) ok test -e target/out/state.safetensors ;;
    import) ok "$heed" info target/out > /dev/null ;;
    compare|study)
      if [[ $silent =~ ^-?$ && -n $(ls -I 'unfinished*' target/out 2> /dev/null) && ! -e target/out/unfinished ]]; then
        checks=$((checks + 1))
        [[ $(contents) == "$after" ]] || fail "$what: the result is not complete"
      fi
      rm -rf target/out ;;
  esac
}
# check_again NAME: repeats the command, or resumes a run of the command that was saved
check_again() {
  local -n again=command_$1
  [[ $(contents) == "$after" ]] && return
  if [[ $1 == resume ]] || { [[ $1 == @(train|replace) ]] && grep -aqsF "nseed = $seed\n" target/out/state.safetensors; }; then
    if ! "$heed" train --resume target/out --steps "$steps" --quiet --threads 1 > out 2> err; then
      ok grep -q "has done its" err  # a fault after the last save of the state: copies may be older
      ok test "$(contents | grep -e ' -$')" == "$(grep -e ' -$' <<< "$after")"
      return
    fi
  else expect 0 "${again[@]}"; fi
  checks=$((checks + 1))
  [[ $(contents) == "$after" ]] || fail "$what: after a second start: $(diff <(echo "$after") <(contents))"
  # A command without a directory of its own does not know whose temporary file it finds.
  [[ $1 == @(export|plot) ]] || ok test -z "$(find target -name '*.tmp*')"
  ok test "$(users)" == "$mine"
}
# is_allowed CALL CODE: returns whether the table contains this exit code for this failure
is_allowed() {
  local i
  for ((i = 0; i < ${#allowed[@]}; i += 3)); do
    # shellcheck disable=SC2053  # the right side is a pattern
    [[ $1 == ${allowed[i]} && $2 == "${allowed[i + 1]}" ]] || continue
    silent=${allowed[i + 2]}
    [[ $silent == - ]] || grep -qF -- "$silent" err out || continue
    return 0
  done
  return 1
}
# one_fault NAME FAULT N: kills the command before its Nth call, or lets its Nth call fail. Returns 1 if the command
# makes fewer calls
one_fault() {
  local -n command=command_$1
  local code call
  restore "$1"
  rm -f failed
  silent=""
  if [[ $2 == kill ]]; then
    { HEED_KILL_AT=$3 LD_PRELOAD=$calls_library "$heed" "${command[@]}" > out 2> err < /dev/null; } 2> /dev/null
    code=$?
    what="heed ${command[*]}, killed before call $3"
    [[ $code == 137 ]] || return 1
  else
    HEED_FAIL_AT=$3 HEED_FAIL_WITH=$2 HEED_FAIL_BELOW=$dir HEED_FAILED=$dir/failed LD_PRELOAD=$calls_library \
      "$heed" "${command[@]}" > out 2> err < /dev/null
    code=$?
    [[ -e failed ]] || return 1
    call="$1 $2 $(sed "s|$dir/||; s|\.tmp[0-9.]*|.tmp|" failed)"
    what="heed ${command[*]}, $call (call $3)"
    checks=$((checks + 1))
    [[ $code == 4 ]] || is_allowed "$call" "$code" || fail "$what: exit code $code"
    [[ $(contents) == "$after" ]] || ok test "$code$silent" != 0-
  fi
  points=$((points + 1))
  check_saved "$1"
  check_again "$1"
}

points=0
for name in ${COMMANDS:-train replace resume retext study compare export import plot}; do
  declare -n plain=command_$name
  # After a fault some commands are resumed, and pictures then contain another command line.
  left_out=(); [[ $name =~ ^(train|replace|resume|retext)$ ]] && left_out=(! -name '*.png')
  seed=1 steps=2
  [[ $name == replace ]] && seed=2
  [[ $name == resume ]] && steps=4
  restore "$name"; mine=$(users)
  expect 0 "${plain[@]}"
  after=$(contents)
  ok test "$(users)" == "$mine"
  for fault in ${FAULTS:-kill ENOSPC EIO EACCES EINTR short}; do
    first=$points
    for ((n = 1;; n += ${EVERY:-1})); do one_fault "$name" "$fault" "$n" || break; done
    echo "heed ${plain[*]}: $fault at $((points - first)) calls; $failures findings so far"
    ok test $((points - first)) -gt 0
  done
done

# --- a file system without locks: heed prints a warning and does not remove temporary files, which may belong to another
# process. Other errors of flock are errors
nolock() { HEED_NO_FLOCK=$no_flock LD_PRELOAD=$calls_library expect "$@"; }
warns() { err_has "warning: this file system has no flock; a second process that writes to 'free' is not detected"; }
for no_flock in ENOTSUP ENOSYS ENOLCK; do rm -rf free; nolock 0 "${learn[@]}" --out free; warns; done
touch free/state.safetensors.tmp1.0
nolock 0 "${learn[@]}" --out free --overwrite; warns; ok test -e free/state.safetensors.tmp1.0
nolock 0 train --resume free --steps 5 --quiet; warns
no_flock=EIO nolock 4 "${learn[@]}" --out free --overwrite; err_has "cannot lock free: Input/output error"

echo "$points faults"
end_of_checks
