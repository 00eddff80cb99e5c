#!/usr/bin/env bash
# Tests of faults that `heed train` detects: the exit code, the message, and the saved run. $1 is the path of
# the program built from tests/tools/heed/trouble.cpp.
set -u
program=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0

fail() {
  echo "FAILED: $1"
  sed 's/^/  | /' "$dir/err"
  failed=1
}

# run FAULT EXPECTED_EXIT: runs the program with this fault. Checks the exit code, and that the run was saved
run() {
  "$program" "$1" "$dir/$1" > "$dir/out" 2> "$dir/err"
  local code=$?
  [ "$code" -eq "$2" ] || fail "$1: exit $code, needs $2"
  [ -s "$dir/$1/model.safetensors" ] || fail "$1: nothing was saved"
}
# has_line REGEX: checks that a line of stderr matches REGEX
has_line() { grep -Eq -- "$1" "$dir/err" || fail "no line matches: $1"; }

run none 0
has_line '^[0-9]+ of [0-9]+ parameters learn: \|g\| .*, \|dw\|/\|w\| '
grep -q '^head.weight .*e-0' "$dir/none/audit.txt" || fail 'audit.txt lacks head.weight'
run task 1
has_line "^heed: impossible: the loss [0-9.]+ is [0-9.]+ nats \([0-9]+ standard errors\) below the best possible 5.0000; .*run heed verify causality $dir/task\$"
run model 1
has_line "^heed: the model is not causal: its output [0-9]+ depends on input [0-9]+ .*run heed verify causality $dir/model\$"
grep -q ' learn: ' "$dir/err" && fail 'model: a step was taken'
run severed 0
has_line 'warning: no gradient reaches head.weight in step 1: head.weight: the gradient ends at linear, whose input 1 \[[0-9]+, 16\] is detached'
run strict 3
has_line '^heed: no gradient reaches head.weight in step 1: '
grep -aq '"step":"1"' "$dir/strict/state.safetensors" || fail 'strict: step 1 was not saved'
run invariants 3
has_line "^heed: check-invariants: step 2, L0H0, query 3 of sequence 0: the weight of key 0, which is masked, is 0\.[0-9]+, needs 0; check the gradients of attention, or try another SIMD target; the run is saved in $dir/invariants after step 1\$"
grep -aq '"step":"1"' "$dir/invariants/state.safetensors" || fail 'invariants: step 1 was not saved'
exit $failed
