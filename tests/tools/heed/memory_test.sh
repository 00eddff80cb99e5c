#!/usr/bin/env bash
# heed train --dry-run foretells the memory of the run within 15 %, and its time.
# Usage: memory_test.sh PATH-TO-HEED
set -eu
heed=$(readlink -f "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
awk 'BEGIN { srand(1); for (i = 0; i < 60000; ++i) printf "%s%s", substr("thequickbrownfoxjumpsoverthelazydogABCDEFG", 1 + rand() * 36, 2 + rand() * 6), rand() < 0.1 ? ".\n" : " " }' > text.txt

# megabytes FILE: those of the line "memory [about] 83.5 MB at its peak"
megabytes() {
  sed -n 's/^memory *\(about \)\?\([0-9.]*\) \([kMG]\)B at its peak.*/\2 \3/p' "$1" |
    awk '{ print $1 * ($2 == "G" ? 1000 : $2 == "k" ? 0.001 : 1) }'
}
failures=0
foretells() {
  "$heed" train "$@" --threads 1 --dry-run > dry
  "$heed" train "$@" --threads 1 --quiet --out run --overwrite > real
  foretold=$(megabytes dry) measured=$(megabytes real)
  if awk -v a="$foretold" -v b="$measured" 'BEGIN { exit !(b > 0 && a / b >= 0.85 && a / b <= 1.15) }'; then
    echo "foretold $foretold MB, measured $measured MB: heed train $*"
  else
    echo "FAILED: foretold $foretold MB, measured $measured MB: heed train $*"
    failures=$((failures + 1))
  fi
}
foretells --text text.txt --preset toy --steps 3
foretells --text text.txt --preset chargpt --steps 3
foretells urn --context 16 --layers 1 --mlp --d-model 1024 --heads 16 --batch 1 --steps 2 --eval-batch 2
foretells --text text.txt --preset toy --context 2048 --layers 1 --batch 2 --steps 2 --eval-batch 4

# The time within a factor of 1.5, once in three tries: the machine is shared.
number() { grep -o "\"$1\":[0-9.e+-]*" "$2" | head -1 | cut -d : -f 2; }
foretells_time() {
  for try in 1 2 3; do
    "$heed" train "$@" --threads 1 --quiet --dry-run --json > dry
    "$heed" train "$@" --threads 1 --quiet --out run --overwrite --json > real
    foretold=$(number seconds dry) measured=$(number seconds real)
    if awk -v a="$foretold" -v b="$measured" 'BEGIN { exit !(b > 0 && a / b >= 1 / 1.5 && a / b <= 1.5) }'; then
      echo "foretold $foretold s, measured $measured s: heed train $*"
      return
    fi
  done
  echo "FAILED: foretold $foretold s, measured $measured s: heed train $*"
  failures=$((failures + 1))
}
foretells_time --text text.txt --preset toy --steps 60
foretells_time urn --steps 100
foretells_time urn --steps 100 --check-invariants 50  # two steps of 100 are looked at
exit $failures
