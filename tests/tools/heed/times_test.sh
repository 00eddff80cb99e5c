#!/usr/bin/env bash
# Tests of measured times, which need an otherwise idle machine. The time of a step that `heed train --dry-run` measures
# must agree with the speed of the same run within a factor of 1.5, and a training step must not be faster than
# the peak speed of matrix products, or than its matrix products and memory traffic alone. Usage: times_test.sh PATH-TO-HEED
set -eu
heed=$(readlink -f "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
awk 'BEGIN { srand(1); for (i = 0; i < 60000; ++i) printf "%s%s", substr("thequickbrownfoxjumpsoverthelazydogABCDEFG", 1 + rand() * 36, 2 + rand() * 6), rand() < 0.1 ? ".\n" : " " }' > text.txt
failures=0
# Other programs on the machine disturb the measured time, so it is enough if one of three tries agrees.
# number KEY FILE: prints the first value of a JSON key
number() { grep -o "\"$1\":[0-9.e+-]*" "$2" | head -1 | cut -d : -f 2; }
# check_time ARGUMENTS...: compares the predicted and the measured seconds of a step of `heed train`
check_time() {
  for try in 1 2 3; do
    "$heed" train "$@" --threads 1 --quiet --dry-run --json > dry
    "$heed" train "$@" --threads 1 --quiet --out run --overwrite --json > real
    predicted=$(number seconds_per_step dry)
    measured=$(awk -v a="$(number flops_per_step dry)" -v b="$(number flops_per_token dry)" -v c="$(number tokens_per_s real)" 'BEGIN { print a / b / c }')
    if awk -v a="$predicted" -v b="$measured" 'BEGIN { exit !(b > 0 && a / b >= 1 / 1.5 && a / b <= 1.5) }'; then
      echo "predicted $predicted s, measured $measured s: heed train $*"
      return
    fi
  done
  echo "FAILED: predicted $predicted s, measured $measured s: heed train $*"
  failures=$((failures + 1))
}
check_time --text text.txt --preset toy --steps 60
check_time markov --steps 100

"${heed%/*}/heed-bench" train --preset micro --threads 1 --json > bench
awk -v mfu="$(number mfu bench)" 'BEGIN { exit !(mfu < 1) }' || { echo "FAILED: faster than the peak: $(cat bench)"; failures=$((failures + 1)); }
awk -v x="$(number over_bound bench)" 'BEGIN { exit !(x > 1) }' || { echo "FAILED: faster than the bound: $(cat bench)"; failures=$((failures + 1)); }
exit $failures
