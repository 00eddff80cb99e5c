#!/usr/bin/env bash
# Tests that train, eval, info, sweep and compare print the same loss of a run, to the bit. Usage:
# one_loss_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
# losses KEY: prints each value of the key in the JSON in ./out, a line each
losses() { grep -oE "\"$1\":[^,}]*" out | cut -d: -f2; }
has_losses() { checks=$((checks + 1)); [[ $1 == "$2" ]] || fail "$what: the losses '$2' are not '$1'"; }
recipe 12 'seed = [1, 2]' > s.toml
expect 0 sweep s.toml --jobs 1 --quiet --json; swept=$(losses loss)
ok test "$(echo "$swept" | wc -l)" == 2
expect 0 info sweeps/s --json; listed=$(losses loss); has_losses "$swept" "$listed"; eval_loss=$(losses eval_loss)
ok test "$eval_loss" != "$listed"  # eval_loss is measured on 8 sequences, loss on the whole set
expect 0 compare sweeps/s --json; has_losses "$swept" "$(losses final)"
expect 0 compare sweeps/s --json --of eval_loss; has_losses "$eval_loss" "$(losses final)"
expect 0 sweep s.toml --quiet --json; has_losses "$swept" "$(losses loss)"; out_has '"state":"before"'
for seed in 1 2; do
  run=sweeps/s/seed=$seed one=$(echo "$swept" | sed -n ${seed}p)
  expect 0 eval $run --json; has_losses "$one" "$(losses loss)"
  expect 0 info $run --json; has_losses "$one" "$(losses loss)"; out_has '"evaluation_set":1024,'
  expect 0 train --config sweeps/s/recipes/seed=$seed.toml --out train-$seed --quiet --json; has_losses "$one" "$(losses loss)"
  seconds=$(losses seconds)
  expect 0 compare train-$seed --out c --json; ok test "$(losses seconds)" == "$seconds"
done

# --- a run that is resumed has no loss until it ends
"$heed" train --resume sweeps/s/seed=2 --steps 100000 --quiet > out 2> err &
pid=$!
wait_until $pid grep -q '^1[3-9],' sweeps/s/seed=2/metrics.csv
expect 0 info sweeps/s --json; has_losses "$(sed '2s/.*/null/' <<< "$swept")" "$(losses loss)"
kill -TERM $pid; wait $pid; ok test $? == 130
expect 0 info sweeps/s --json; has_losses "$(sed '2s/.*/null/' <<< "$swept")" "$(losses loss)"
cp sweeps/s/seed=2/state.safetensors kept; expect 0 eval sweeps/s/seed=2; same kept sweeps/s/seed=2/state.safetensors
end_of_checks
