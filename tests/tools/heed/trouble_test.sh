#!/usr/bin/env bash
# Tests of faults that `heed train` detects: the exit code, the message, and the saved run. $1 is the path of
# the program built from tests/tools/heed/trouble.cpp.
source "$(dirname "$0")/expect.sh" "$1"

# run FAULT EXPECTED_EXIT: runs the program with this fault. Checks the exit code, and that the run was saved
run() { expect "$2" "$1" "$dir/$1"; has_file "$1/model.safetensors"; }
# has_line REGEX: checks that a line of stderr matches REGEX
has_line() { ok grep -Eq -- "$1" err; }

run none 0
run task 1
has_line "^heed: impossible: the loss [0-9.]+ is [0-9.]+ nats \([0-9]+ standard errors\) below the best possible 5.0000; the model reads the tokens that it should predict\$"
run model 1
has_line "^heed: the model is not causal: its output [0-9]+ depends on input [0-9]+ .*the test found [0-9]+ more such pairs\$"
ok grep -aq '"step":"0"' model/state.safetensors  # no step was taken
run severed 0
has_line 'warning: no gradient reaches head.weight in step 1 \(--strict makes this an error\)$'
run strict 3
has_line '^heed: no gradient reaches head.weight in step 1'
ok grep -aq '"step":"1"' strict/state.safetensors
end_of_checks
