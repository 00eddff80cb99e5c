#!/usr/bin/env bash
# Tests of measured times, which need an otherwise idle machine. A training step must not be faster than
# the peak speed of matrix products, or than its matrix products and memory traffic alone. Usage: times_test.sh PATH-TO-HEED
set -eu
heed=$(readlink -f "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
failures=0
# number KEY FILE: prints the first value of a JSON key
number() { grep -o "\"$1\":[0-9.e+-]*" "$2" | head -1 | cut -d : -f 2; }
"${heed%/*}/heed-bench" train --preset micro --threads 1 --json > bench
awk -v mfu="$(number mfu bench)" 'BEGIN { exit !(mfu < 1) }' || { echo "FAILED: faster than the peak: $(cat bench)"; failures=$((failures + 1)); }
awk -v x="$(number over_bound bench)" 'BEGIN { exit !(x > 1) }' || { echo "FAILED: faster than the bound: $(cat bench)"; failures=$((failures + 1)); }
exit $failures
