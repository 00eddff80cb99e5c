#!/usr/bin/env bash
# Tests that a sweep of 20 runs on N cores takes at most 1.1 T / N, where T is the time of the same runs one
# after the other on one thread. The speed of the cores here changes by a quarter within a minute. Therefore
# half of the single runs are trained before the sweep and half after it, and the test repeats this three
# times and uses the median.
# Usage: sweep_share_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
cores=$(nproc)
printf '%s\n' "[train]" 'task = "induction"' "[sweep]" "seed = [$(seq -s, 20)]" > s.toml
alone() {  # alone FIRST LAST: trains the seeds FIRST to LAST one after the other
  for seed in $(seq "$1" "$2"); do
    expect 0 train induction --seed "$seed" --threads 1 --quiet --out "alone/$seed"
  done
}
now() { date +%s%N; }
ratios=()
for try in 1 2 3; do
  rm -rf alone sweeps
  start=$(now)
  alone 1 10
  before=$(now)
  expect 0 sweep s.toml --quiet
  after=$(now)
  alone 11 20
  end=$(now)
  together=$(( after - before )) apart=$(( before - start + end - after ))
  ratio=$(( together * cores * 1000 / apart ))
  echo "$try: alone $(( apart / 1000000 )) ms, as a sweep on $cores cores $(( together / 1000000 )) ms: $ratio / 1000 of a share"
  ratios+=("$ratio")
done
what="heed sweep of 20 runs, median of ${ratios[*]}"
ok test "$(printf '%s\n' "${ratios[@]}" | sort -n | sed -n 2p)" -le 1100
for seed in $(seq 20); do same "alone/$seed/model.safetensors" "sweeps/s/seed=$seed/model.safetensors"; done
end_of_checks
