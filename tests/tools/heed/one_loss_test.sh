#!/usr/bin/env bash
# Tests that train, eval, info and compare print the same loss of a run, to the bit. Usage:
# one_loss_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
# losses KEY: prints each value of the key in the JSON in ./out, a line each
losses() { grep -oE "\"$1\":[^,}]*" out | cut -d: -f2; }
has_losses() { checks=$((checks + 1)); [[ $1 == "$2" ]] || fail "$what: the losses '$2' are not '$1'"; }
for seed in 1 2; do
  expect 0 train reverse "${tiny[@]}" --heads 2 --steps 12 --seed $seed --out all/$seed --quiet --json; losses loss
done > trained
trained=$(< trained); ok test "$(wc -l < trained)" == 2
expect 0 info all --json; listed=$(losses loss); has_losses "$trained" "$listed"; eval_loss=$(losses eval_loss)
ok test "$eval_loss" != "$listed"  # eval_loss is measured on 8 sequences, loss on the whole set
above=$(losses above_optimum)
expect 0 compare all --json; has_losses "$trained" "$(losses loss)"; ok test "$(losses above_optimum)" == "$above"
for seed in 1 2; do
  run=all/$seed one=$(echo "$trained" | sed -n ${seed}p)
  expect 0 eval $run --json; has_losses "$one" "$(losses loss)"
  expect 0 info $run --json; has_losses "$one" "$(losses loss)"; accuracy=$(losses accuracy | head -1); out_has '"evaluation_set":1024,'
  expect 0 train --config $run/config.toml --out train-$seed --quiet --json; has_losses "$one" "$(losses loss)"
  seconds=$(losses seconds)
  expect 0 compare train-$seed --out c-$seed --json; ok test "$(losses seconds)" == "$seconds"; ok test "$(losses accuracy)" == "$accuracy"
done

# --- a run that is resumed has no loss until it ends
"$heed" train --resume all/2 --steps 100000 --quiet > out 2> err &
pid=$!
wait_until $pid grep -q '^1[3-9],' all/2/metrics.csv
expect 0 info all --json; has_losses "$(sed '2s/.*/null/' <<< "$trained")" "$(losses loss)"
kill -TERM $pid; wait $pid; ok test $? == 130
expect 0 info all --json; has_losses "$(sed '2s/.*/null/' <<< "$trained")" "$(losses loss)"
cp all/2/state.safetensors kept; expect 0 eval all/2; same kept all/2/state.safetensors
end_of_checks
