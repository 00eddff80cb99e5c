#!/usr/bin/env bash
# Tests of unusual model options: runs with these options are trained, evaluated, studied, verified and
# repeated. The test also checks parameter counts, and combinations of options that heed must reject.
# Usage: model_options_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"

five_steps=(reverse --context 8 --d-model 8 --steps 5 --batch 4 --eval-batch 4 --quiet --threads 1)
everything=(--layers 2 --heads 4 --d-head 6 --d-value 5 --kv-heads 1 --window 5 --scale 1/d-head
  --qk-norm --soft-cap 20 --mlp-act swiglu --mlp-ratio 1.5 --o-bias no --norm-kind rmsnorm --init ones)

# Trains a run of five steps for each line of options, and runs the other commands on it.
number=0
while read -r -a options; do
  number=$((number + 1))
  run=run$number
  expect 0 train "${five_steps[@]}" --out $run "${options[@]}"
  expect 0 info $run
  out_has "attention    $([[ "${options[*]}" == *soft-cap* ]] && echo composite || echo fused)"
  expect 0 eval $run
  expect 0 generate $run --prompt abcd
  expect 0 study $run --samples 5 --out study$number --json
  out_has '"components"'
  expect 0 train --config $run/config.toml --out again$number --quiet
  same $run/model.safetensors again$number/model.safetensors
done << END
--scale none --kv-heads 1 --heads 2 --positions alibi
--scale 0.2 --window 3 --norm post --norm-kind rmsnorm
--soft-cap 5 --d-head 3 --d-value 2 --norm none --mlp-act relu --init torch
--qk-norm --positions rope --mlp-act gelu-tanh --mlp-ratio 0.5 --init gpt2
${everything[@]}
END
expect 0 gradcheck --run run$number --order 1
out_has "in float32 on"

# The expected counts are computed by hand. The model has 17 input tokens (16 symbols and the separator), 16
# output classes, d-model 8, and 8 positions.
expect 0 info run$number --json
matrices=$((2 * (4 * 6 * 8 + 6 * 8 + 5 * 8 + 8 * 4 * 5 + 3 * 12 * 8) + 16 * 8))  # q, k, v, o, MLP; head
vectors=$((2 * (4 * 6 + 6 + 5 + 2 * 6 + 12 + 8 + 12 + 2 * 8) + 8))  # biases, gains of q and k, norms
out_has "\"parameters\":$((17 * 8 + 8 * 8 + matrices + vectors)),"
out_has "\"flops_per_token\":$((6 * matrices + 6 * 2 * 8 * 4 * (6 + 5))).0"
out_has '"attention":"composite because of soft cap"'
out_has '"name":"blocks.1.qkv.weight","shape":[35,8],'

# The error for an invalid combination names the options. config_test.cpp tests all combinations.


# An option that is given overrides a value of the preset that contradicts it. The presets names and shakespeare-cpu
# set --mlp-act and --min-lr.
seq 100 200 > numbers
short=(--steps 1 --batch 4 --eval-batch 4 --context 8 --quiet --overwrite)
expect 0 train --lines numbers --no-mlp "${short[@]}" --out yields
expect 0 train --text numbers --lr 1e-5 "${short[@]}" --out yields
ok grep -qx 'min-lr = 1e-05' yields/config.toml
refuses 2 "--min-lr" train --text numbers --lr 1e-5 --min-lr 1e-4 "${short[@]}" --out yields
refuses 2 "--mlp-act" train --lines numbers --no-mlp --mlp-act relu "${short[@]}" --out yields

# Values that float32 rounds to 0 are errors that name the option.
refuses 2 "--soft-cap 1e-50 is rounded to 0 in float32" train reverse --soft-cap 1e-50 "${short[@]}" --out yields

# --steps 0 makes an untrained run, which other commands read.
expect 0 train reverse "${tiny[@]}" --steps 0 --quiet --out untrained
expect 0 eval untrained
out_has "untrained (reverse), state.safetensors, step 0"
expect 0 study untrained --samples 5 --out untrained-study
expect 0 train --text numbers --steps 0 "${short[@]:2}" --out untrained-text
expect 0 train --resume untrained-text --steps 3 --quiet
# If the loss is far above the loss of equal guessing, train and eval print a sentence about it.
expect 0 train reverse "${tiny[@]}" --steps 60 --lr 10 --optimizer sgd --quiet --out diverged
out_has "the loss is FAR ABOVE 2.7726, that of equal probabilities for all tokens"
expect 0 eval diverged
out_has "the loss is FAR ABOVE 2.7726"
refuses 2 "above 0 to 1000, got '0'; for the most likely token, use --greedy" generate untrained --temperature 0
end_of_checks
