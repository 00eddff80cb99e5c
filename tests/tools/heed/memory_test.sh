#!/usr/bin/env bash
# Compares the peak memory that `heed train --dry-run` predicts with measurements of the same runs. It must agree
# within 15 %.
# Usage: memory_test.sh PATH-TO-HEED
set -eu
heed=$(readlink -f "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
awk 'BEGIN { srand(1); for (i = 0; i < 60000; ++i) printf "%s%s", substr("thequickbrownfoxjumpsoverthelazydogABCDEFG", 1 + rand() * 36, 2 + rand() * 6), rand() < 0.1 ? ".\n" : " " }' > text.txt

# megabytes FILE: prints the number of MB in the line "memory [about] 83.5 MB at its peak"
megabytes() {
  sed -n 's/^memory *\(about \)\?\([0-9.]*\) \([kMG]\)B at its peak.*/\2 \3/p' "$1" |
    awk '{ print $1 * ($2 == "G" ? 1000 : $2 == "k" ? 0.001 : 1) }'
}
failures=0
# check_memory ARGUMENTS...: compares the predicted and the measured peak memory of `heed train`
check_memory() {
  "$heed" train "$@" --threads 1 --dry-run > dry
  "$heed" train "$@" --threads 1 --quiet --out run --overwrite > real
  predicted=$(megabytes dry) measured=$(megabytes real)
  if awk -v a="$predicted" -v b="$measured" 'BEGIN { exit !(b > 0 && a / b >= 0.85 && a / b <= 1.15) }'; then
    echo "predicted $predicted MB, measured $measured MB: heed train $*"
  else
    echo "FAILED: predicted $predicted MB, measured $measured MB: heed train $*"
    failures=$((failures + 1))
  fi
}
check_memory --text text.txt --preset toy --steps 3
check_memory --text text.txt --preset chargpt --steps 3
check_memory urn --context 16 --layers 1 --mlp --d-model 1024 --heads 16 --batch 1 --steps 2 --eval-batch 2
check_memory --text text.txt --preset toy --context 2048 --layers 1 --batch 2 --steps 2 --eval-batch 4
exit $failures
