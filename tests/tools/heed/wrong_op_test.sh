#!/usr/bin/env bash
# Tests that `heed gradcheck` accepts a correct op and detects each error in a wrong op. For a wrong op the exit
# code must be 1, and the message must name the op, the input, the element, and the two values that differ. $1
# is the path of the program that contains tests/tools/heed/wrong_op.cpp.
source "$(dirname "$0")/expect.sh" "$1"

# run MUTANT EXPECTED_EXIT [ARGUMENT...]: runs `heed gradcheck wrong_op` with the error MUTANT in the derivative
run() {
  local mutant=$1 expected=$2
  shift 2
  HEED_WRONG_OP=$mutant expect "$expected" gradcheck wrong_op "$@"
}
# has_line REGEX: checks that a line of the last output matches REGEX.
has_line() { ok grep -Eq -- "$1" out; }

number='-?[0-9]+(\.[0-9]+)?(e[-+][0-9]+)?'
for oracle in both fd dual; do
  run '' 0 --oracle $oracle
  run sign 1 --oracle $oracle
  has_line "FAILED wrong_op, sample 'rows', layout contiguous: order 1: "
  has_line "input 0 at \[[01], [0-2]\]: backward returns $number, (differences|dual numbers) give $number for output \[[01], [0-2]\]"
  has_line "^  (differences|dual numbers), [1-9] of 9 entries compared; the worst: input 0 at \[[01], [0-2]\]: engine $number, oracle $number, terms $number, tolerance $number, .*digits"
  has_line "^  repeat with: heed gradcheck wrong_op --order 1 --seed 1( |$)"
  # If the shape of a gradient is wrong, no values are compared, and the message contains both shapes.
  run wrong_shape 1 --oracle $oracle
  has_line "FAILED wrong_op, sample 'rows', layout contiguous: order 1: threw .*its vjp returned a gradient of shape \[2, 3\] for input 1, needs \[3\]"
done

run sign 1 --json
python='import json, sys; r = json.loads(sys.stdin.read()); assert r["failed"] > 0, r; \
assert r["worst"]["name"] == "wrong_op" and r["worst"]["error"] > 1e-3, r'
if command -v python3 >/dev/null; then
  ok python3 -c "$python" < out
fi

# If an input is at a kink, the report says so, and the check passes.
expect 0 gradcheck kinked
has_line "^[1-9][0-9]* input entries were on a kink and were moved off it"

# If several ops are checked, only wrong_op fails. If wrong_op has no error, all pass.
HEED_WRONG_OP=sign expect 1 gradcheck add wrong_op exp --order 1
ok test "$(grep -c '  FAILED$' out)" == 1
has_line '^wrong_op .*  FAILED$'
expect 0 gradcheck add wrong_op exp --order 1

end_of_checks
