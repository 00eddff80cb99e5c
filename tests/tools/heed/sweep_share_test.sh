#!/usr/bin/env bash
# A sweep of 20 runs takes at most 1.1 times the share of each core of what they take alone, one after
# the other, on one thread: the median of three, as cores change their speed. Usage:
# sweep_share_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
cores=$(nproc)
printf '%s\n' "[train]" 'task = "induction"' "[sweep]" "seed = [$(seq -s, 20)]" > s.toml
now() { date +%s%N; }
ratios=()
for try in 1 2 3; do
  rm -rf alone sweeps
  start=$(now)
  for seed in $(seq 20); do
    expect 0 train induction --seed "$seed" --threads 1 --quiet --out "alone/$seed"
  done
  alone=$(( $(now) - start ))
  start=$(now)
  expect 0 sweep s.toml --quiet
  shared=$(( $(now) - start ))
  ratio=$(( shared * cores * 1000 / alone ))
  echo "alone $(( alone / 1000000 )) ms, as a sweep on $cores cores $(( shared / 1000000 )) ms: $ratio / 1000 of a share"
  ratios+=("$ratio")
done
what="heed sweep of 20 runs, median of ${ratios[*]}"
ok test "$(printf '%s\n' "${ratios[@]}" | sort -n | sed -n 2p)" -le 1100
for seed in $(seq 20); do same "alone/$seed/model.safetensors" "sweeps/s/seed=$seed/model.safetensors"; done
end_of_checks
