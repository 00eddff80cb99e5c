#!/usr/bin/env bash
# Tests every command of heed under a limit of processes (RLIMIT_NPROC), so that threads and processes cannot be
# started: the command succeeds, or prints an error and ends with exit code 4. The limit does not apply to root, so
# root runs heed as another user. Usage: few_threads_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
cp "$heed" heed; chmod 755 "$dir" heed; heed=$dir/heed  # another user can run the copy
as=() limits=1  # another user may run other processes, and then only the limit 1 has a known effect
if [[ $EUID == 0 ]]; then
  user=$((60000 + $$ % 5000))  # has no other processes
  as=(setpriv --reuid $user --regid $user --clear-groups) limits="1 2 3"
  chown $user "$dir"
fi
"${as[@]}" prlimit --nproc=1 -- "$heed" --help > out 2> err ||
  { echo "skipped: cannot run heed as another user than root with prlimit: $(cat err)"; exit 0; }
if "${as[@]}" prlimit --nproc=1 -- bash -c 'true & wait $!' 2> /dev/null; then
  echo "skipped: prlimit --nproc has no effect here"; exit 0
fi
# limited N ARGUMENTS...: runs heed under a limit of N processes and threads, and sets the variable code
limited() {
  local limit=$1
  shift
  what="heed $*, $limit processes"
  "${as[@]}" prlimit --nproc="$limit" -- "$heed" "$@" > out 2> err < /dev/null
  code=$?
}

learn=(train reverse "${tiny[@]}" --steps 4 --save-every 2 --overwrite)
"${as[@]}" "$heed" "${learn[@]}" --out run --quiet > out 2> err; "${as[@]}" "$heed" "${learn[@]}" --out other --seed 2 --quiet > out 2> err
"${as[@]}" "$heed" study run --samples 5 --out unlimited > out 2> err
what="heed study without a limit"; has_file unlimited/arrays.safetensors

# --- with --threads 1, no other thread is needed, so each command succeeds under the tightest limit
commands=(
  "${learn[*]} --out new --threads 1"
  "eval run --sequences 8 --threads 1"
  "generate run --prompt abcdefghijklmnop --tokens 4 --threads 1"
  "eval run --prompt abcdefghijklmnop --threads 1"
  "study run --samples 5 --threads 1"
  "study run --over-time --samples 5 --threads 1"
  "gradcheck softmax --order 1 --threads 1"
  "gradcheck --run run --order 1 --threads 1"
  "compare run other --threads 1"
  "plot run/model.safetensors --name tok.weight --out words.png" "info run" "export run --names transformerlens --out e.safetensors" "import e.safetensors --out imported --overwrite" "info ." "tasks"
)
# shellcheck disable=SC2086
for command in "${commands[@]}"; do limited 1 $command; ok test $code == 0; done
same unlimited/arrays.safetensors run/study/arrays.safetensors; has_file run/study/report.html
names=$("$heed" nothing 2>&1 | sed "s/.*Commands: //; s/,//g; s/ and / /")
for name in $names; do  # no command is missing above, except verify resume
  what="the list of commands"; ok grep -qw -- "$name" <<< "${commands[*]}"
done

# --- otherwise each command succeeds, or the error states that a thread cannot be started
refused=0
for limit in $limits; do
  for command in "${commands[@]/ --threads 1/}" --version; do
    # shellcheck disable=SC2086
    limited $limit $command
    [[ $code == 0 ]] && continue
    refused=$((refused + 1))
    ok test $code == 4; ok grep -qE 'the system can start only [0-9]+ of [0-9]+ threads' err
    ok test -z "$(grep -E 'terminate|a bug in heed' err)"
  done
done
what="the limits"; ok test $refused -gt 0
echo "$refused commands were refused"
end_of_checks
