#!/usr/bin/env bash
# gradcheck must pass a right op and fail each wrong one: exit 1, naming op, input, place and both
# values. $1 is the program built with tests/tools/heed/wrong_op.cpp.
set -u
program=$1
failed=0

fail() {
  echo "FAILED: $1"
  printf '%s\n' "${output:-}" | sed 's/^/  | /'
  failed=1
}

# run MUTANT EXPECTED_EXIT [ARGUMENT...]
run() {
  local mutant=$1 expected=$2
  shift 2
  output=$(HEED_WRONG_OP=$mutant "$program" gradcheck wrong_op "$@" 2>&1)
  local code=$?
  [ "$code" -eq "$expected" ] || fail "HEED_WRONG_OP='$mutant' $*: exit $code, needs $expected"
}

# says REGEX: the last output has a line that matches.
says() { grep -Eq -- "$1" <<<"$output" || fail "no line matches: $1"; }

number='-?[0-9]+(\.[0-9]+)?(e[-+][0-9]+)?'
for oracle in both fd dual; do
  run '' 0 --oracle $oracle
  for mutant in sign factor dropped_term; do
    run $mutant 1 --oracle $oracle
    says "FAILED wrong_op, sample 'rows', layout contiguous: order 1: "
    says "input 0 at \[[01], [0-2]\], output at \[[01], [0-2]\]: engine $number, (differences|dual numbers) $number"
  done
  run missing_unbroadcast 1 --oracle $oracle
  says "input 1 at \[[0-2]\], output at \[[01], [0-2]\]: engine $number, (differences|dual numbers) $number"
  # A gradient of the wrong shape has no values to compare: both shapes are named.
  run wrong_shape 1 --oracle $oracle
  says "FAILED wrong_op.*its vjp gave input 1 a gradient of shape \[2, 3\], needs \[3\]"
done

run sign 1 --json
python='import json, sys; r = json.loads(sys.stdin.read()); assert r["failed"] > 0, r; \
assert r["worst"]["name"] == "wrong_op" and r["worst"]["error"] > 1e-3, r'
if command -v python3 >/dev/null; then
  json=$(HEED_WRONG_OP=sign "$program" gradcheck wrong_op --json 2>/dev/null)
  python3 -c "$python" <<<"$json" || fail 'the JSON does not report the failure'
fi

# Among all ops the wrong one fails alone, and without it everything passes.
output=$(HEED_WRONG_OP=factor "$program" gradcheck --order 1 --layouts contiguous 2>&1)
[ $? -eq 1 ] || fail 'all ops, one wrong: needs exit 1'
[ "$(grep -c '  FAILED$' <<<"$output")" -eq 1 ] || fail 'exactly one op should fail'
says '^wrong_op .*  FAILED$'
output=$(env -u HEED_WRONG_OP "$program" gradcheck --order 1 --layouts contiguous 2>&1) || fail 'all ops right: needs exit 0'

exit $failed
