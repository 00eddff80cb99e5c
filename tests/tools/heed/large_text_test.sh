#!/usr/bin/env bash
# Tests that a large text is in memory only once: each byte of the text needs at most 1.3 bytes of memory.
# Usage: large_text_test.sh PATH-TO-HEED [MEGABYTES]
source "$(dirname "$0")/expect.sh" "$1"
megabytes=${2:-50}

# peak_of MB: prints the peak resident memory, in MB, of a training step on a text of MB megabytes. The function
# reads /proc every 0.05 s, which is often enough, because loading the text takes longer.
peak_of() {
  yes "The quick brown fox jumps over the lazy dog, $1 times." | head -c "$1"000000 > text.txt
  "$heed" train --text text.txt --layers 1 --heads 1 --d-model 8 --batch 2 --steps 1 --eval-every 0 \
    --context 1024 --threads 1 --quiet --out "run-$1" > out 2> err &
  local pid=$! peak=0 now
  while now=$(sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$pid/status" 2> /dev/null); [[ $now ]]; do
    peak=$now
    sleep 0.05
  done
  wait "$pid" || fail "training on $1 MB"
  echo $((peak / 1000))
}

small=$(peak_of 5) large=$(peak_of "$megabytes")
what="peak $small MB for 5 MB, $large MB for $megabytes MB"
echo "$what"
ok [ "$small" -gt 0 ]
ok [ "$large" -ge "$megabytes" ]
ok [ $(((large - small) * 10)) -le $(((megabytes - 5) * 13)) ]
end_of_checks
