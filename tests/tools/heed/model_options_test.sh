#!/usr/bin/env bash
# Tests of unusual model options: runs with these options are trained, evaluated, studied, verified and
# repeated. The test also checks parameter counts, and combinations of options that heed must reject.
# Usage: model_options_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"

five_steps=(reverse --context 8 --d-model 8 --steps 5 --batch 4 --eval-batch 4 --quiet --threads 1)
everything=(--layers 2 --heads 4 --d-head 6 --d-value 5 --kv-heads 1 --window 5 --scale learned
  --qk-norm --soft-cap 20 --sink learned --mlp-act swiglu --mlp-ratio 1.5 --q-bias no --o-bias no
  --norm-kind rmsnorm --residual-scale 1/sqrt-2-layers --form separate --init orthogonal
  --q-init ones --o-init gpt2)

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
  expect 0 study $run --out study$number --json
  out_has '"heads"'
  expect 0 verify causality $run
  expect 0 train --config $run/config.toml --out again$number --quiet
  same $run/model.safetensors again$number/model.safetensors
done << END
--scale none --kv-heads 1 --heads 2 --sink zero --positions alibi
--scale 0.2 --window 3 --norm post --norm-kind rmsnorm --form per_head --k-bias no --init mup
--soft-cap 5 --d-head 3 --d-value 2 --norm none --mlp-act relu --residual-scale 0.3 --init xavier
--qk-norm --positions rope --mlp-act gelu-tanh --mlp-ratio 0.5 --init kaiming --sink learned
${everything[@]} --matmul bfloat16
END
expect 0 info run$number
out_has "products of bfloat16"
expect 0 gradcheck --run run$number --order 1
out_has "in float32 with products in bfloat16 on"

# The expected counts are computed by hand. The model has 17 input tokens (16 symbols and the separator), 16
# output classes, d-model 8, and 8 positions.
expect 0 train "${five_steps[@]}" "${everything[@]}" --dry-run --json
matrices=$((2 * (4 * 6 * 8 + 6 * 8 + 5 * 8 + 8 * 4 * 5 + 3 * 12 * 8) + 16 * 8))  # q, k, v, o, MLP; head
vectors=$((2 * (6 + 5 + 2 * 6 + 4 + 4 + 12 + 8 + 12 + 2 * 8) + 8))  # biases, gains, scales, sinks, norms
out_has "\"parameters\":$((17 * 8 + 8 * 8 + matrices + vectors)),"
out_has "\"flops_per_token\":$((6 * matrices + 6 * 2 * 8 * 4 * (6 + 5))).0"
out_has '"attention":"composite because of soft cap"'
out_has '"name":"blocks.1.q.weight","shape":[24,8],"std":0.0}'  # all elements are 1

# The error for an invalid combination names the options. config_test.cpp tests all combinations.
refuses 2 "--kv-heads 3 does not divide --heads 2; choose a divisor" train --kv-heads 3
refuses 2 "--matmul: bfloat16 rounds float32 numbers" train --matmul bfloat16 --dtype float64
refuses 2 "--mlp-act: there is no MLP; add --mlp" train --mlp-act silu
refuses 2 "RoPE needs an even --d-head (by default --d-model / --heads), got 5" train --d-head 5

end_of_checks
