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
  for mutant in sign factor dropped_term; do
    run $mutant 1 --oracle $oracle
    has_line "FAILED wrong_op, sample 'rows', layout contiguous: order 1: "
    has_line "input 0 at \[[01], [0-2]\]: backward returns $number, (differences|dual numbers) give $number for output \[[01], [0-2]\]"
    has_line "^  (differences|dual numbers), [1-9] of 9 entries compared; the worst: input 0 at \[[01], [0-2]\]: engine $number, oracle $number, terms $number, tolerance $number, .*digits"
    has_line "^  repeat with: heed gradcheck wrong_op --order 1 --seed 1.* --layouts contiguous"
  done
  run missing_unbroadcast 1 --oracle $oracle
  has_line "input 1 at \[[0-2]\]: backward returns $number, (differences|dual numbers) give $number for output \[[01], [0-2]\]"
  # If the shape of a gradient is wrong, no values are compared, and the message contains both shapes.
  run wrong_shape 1 --oracle $oracle
  has_line "FAILED wrong_op, sample 'rows', layout contiguous: order 1: threw .*its vjp returned a gradient of shape \[2, 3\] for input 1, needs \[3\]"
  has_line "^  repeat with: heed gradcheck wrong_op --order 1 --seed 1.* --layouts contiguous"
done

run sign 1 --json
python='import json, sys; r = json.loads(sys.stdin.read()); assert r["failed"] > 0, r; \
assert r["worst"]["name"] == "wrong_op" and r["worst"]["error"] > 1e-3, r'
if command -v python3 >/dev/null; then
  ok python3 -c "$python" < out
fi

# junit_is MUTANT: reads the JUnit file with a strict XML parser. It must contain one case for each
# sample, layout and order, with the original names.
junit_is() {
  command -v python3 >/dev/null || { echo "not checked: the JUnit file of $1, because python3 is missing"; return; }
  ok python3 - junit "$@" <<'PYTHON'
import sys, xml.etree.ElementTree as etree
path, mutant = sys.argv[1:]
suite, = etree.parse(path).getroot()
cases = list(suite)
failed = [c for c in cases if c.find("failure") is not None]
skipped = [c for c in cases if c.find("skipped") is not None]
assert suite.tag == "testsuite" and suite.get("name") == "heed gradcheck"
assert all(c.tag == "testcase" and c.get("classname") == "wrong_op" for c in cases)
assert (len(cases), len(failed), len(skipped)) == tuple(
    int(suite.get(k)) for k in ("tests", "failures", "skipped"))
names = [c.get("name") for c in cases]
assert len(set(names)) == len(cases) == 2 * 5 * 2, names  # 2 samples, 5 layouts, 2 orders
assert 'a<b & "c">]]> \ufffd\ufffd, contiguous, order 2' in names, names
assert all(c.find("skipped").get("message") for c in skipped)
for c in cases:
    if c.find("skipped") is not None:
        continue
    assert "digits" in c.find("system-out").text and "repeat with: heed gradcheck" in c.find("system-out").text
by_name = dict(zip(names, cases))
if mutant == "none":
    assert not failed
else:
    assert "input 0 at [" in by_name["rows, contiguous, order 1"].find("failure").get("message")
    assert by_name["rows, contiguous, order 2"].find("skipped").get("message") == "order 1 failed"
    assert 'a<b & "c">]]> \ufffd\ufffd, contiguous, order 1' in [c.get("name") for c in failed]
PYTHON
}
run '' 0 --junit junit
junit_is none
run sign 1 --junit junit
junit_is sign
run wrong_shape 1 --junit junit
ok grep -q '<failure message="order 1: threw .*needs \[3\]' junit  # a sample that throws is a failed case
# If an input is at a kink, the report names the input, and the check passes.
expect 0 gradcheck kinked --junit junit
ok grep -q 'entries moved off a kink: 1; the first: input 0 at \[0\] from 0 to ' junit
# If the JUnit file cannot be written, no other file changes.
cp junit kept
run sign 4 --junit junit/no
same junit kept

# If all ops are checked, only wrong_op fails. If wrong_op has no error, all ops pass.
HEED_WRONG_OP=factor expect 1 gradcheck --order 1 --layouts contiguous
ok test "$(grep -c '  FAILED$' out)" == 1
has_line '^wrong_op .*  FAILED$'
expect 0 gradcheck --order 1 --layouts contiguous

end_of_checks
