#!/usr/bin/env bash
# Runs with unusual models: trained, counted, studied, verified, run again; and options that do not
# fit each other. Usage: model_options_test.sh PATH-TO-HEED
set -u
heed=$(readlink -f "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
unset NO_COLOR HEED_SIMD
failures=0

fail() {
  failures=$((failures + 1))
  echo "FAILED: $*"
  head -c 400 out err
}
# ok ARGUMENTS...: exit code 0; out_has TEXT: on its stdout
ok() { "$heed" "$@" > out 2> err < /dev/null || fail "heed $*: exit code $?"; }
out_has() { grep -qF -- "$1" out || fail "stdout lacks '$1'"; }
# refuses TEXT ARGUMENTS...: exit code 2 and one line on stderr that holds TEXT
refuses() {
  local text=$1
  shift
  "$heed" train "$@" > out 2> err < /dev/null
  [[ $? == 2 && ! -s out && $(wc -l < err) == 1 ]] || fail "heed train $*: not one line of usage"
  grep -qF -- "$text" err || fail "heed train $*: stderr lacks '$text'"
}

tiny=(reverse --context 8 --d-model 8 --steps 5 --batch 4 --eval-batch 4 --quiet --threads 1)
everything=(--layers 2 --heads 4 --d-head 6 --d-value 5 --kv-heads 1 --window 5 --scale learned
  --qk-norm --soft-cap 20 --sink learned --mlp-act swiglu --mlp-ratio 1.5 --q-bias no --o-bias no
  --norm-kind rmsnorm --residual-scale 1/sqrt-2-layers --form separate --init orthogonal
  --q-init ones --o-init gpt2)

# Every command on runs of five steps.
number=0
while read -r -a options; do
  number=$((number + 1))
  run=run$number
  ok train "${tiny[@]}" --out $run "${options[@]}"
  ok info $run
  out_has "attention $([[ "${options[*]}" == *soft-cap* ]] && echo composite || echo fused)"
  ok eval $run
  ok generate $run --prompt abcd
  ok study $run --out study$number --json
  out_has '"heads"'
  ok verify causality $run
  ok train --config $run/config.toml --out again$number --quiet
  cmp -s $run/model.safetensors again$number/model.safetensors || fail "$run is not $run again"
done << END
--scale none --kv-heads 1 --heads 2 --sink zero --positions alibi
--scale 0.2 --window 3 --norm post --norm-kind rmsnorm --form per_head --k-bias no --init mup
--soft-cap 5 --d-head 3 --d-value 2 --norm none --mlp-act relu --residual-scale 0.3 --init xavier
--qk-norm --positions rope --mlp-act gelu-tanh --mlp-ratio 0.5 --init kaiming --sink learned
${everything[@]}
END
ok gradcheck --run run$number --order 1

# Counts by hand: 17 inputs, one of them the separator, 16 classes, d-model 8, 8 places.
ok train "${tiny[@]}" "${everything[@]}" --dry-run --json
matrices=$((2 * (4 * 6 * 8 + 6 * 8 + 5 * 8 + 8 * 4 * 5 + 3 * 12 * 8) + 16 * 8))  # q k v o mlp, head
vectors=$((2 * (6 + 5 + 2 * 6 + 4 + 4 + 12 + 8 + 12 + 2 * 8) + 8))  # biases gains scales sinks norms
out_has "\"parameters\":$((17 * 8 + 8 * 8 + matrices + vectors)),"
out_has "\"flops_per_token\":$((6 * matrices + 6 * 2 * 8 * 4 * (6 + 5))).0"
out_has '"attention":"composite because of soft cap"'
out_has '"name":"blocks.1.q.weight","shape":[24,8],"std":0.0}'  # ones

# Values and combinations that cannot be.
refuses "--scale needs a number or a name: 'learnd' is not one of" --scale learnd
refuses "--scale needs a number, 0 to 1000, got '-1'" --scale -1
refuses "--d-head needs a whole number, 0 to 16384, got '1.5'" --d-head 1.5
refuses "--d-value needs a whole number, 0 to 16384, got '-1'" --d-value -1
refuses "kv-heads: 3 does not divide heads 2" --kv-heads 3
refuses "--window needs a whole number, 0 to 65536, got 'x'" --window x
refuses "--soft-cap needs a number, 0 to 10000, got 'inf'" --soft-cap inf
refuses "--sink: 'on' is not one of none, zero or learned" --sink on
refuses "--q-bias: 'true' is not one of as-bias, yes or no" --q-bias true
refuses "form: packed_qkv has biases of q, k and v all or none" --v-bias yes
refuses "--norm-kind: 'rms' is not one of layernorm or rmsnorm" --norm-kind rms
refuses "norm-kind: rmsnorm has no place with norm none" --norm none --norm-kind rmsnorm
refuses "--mlp-act: 'swish' is not one of" --mlp --mlp-act swish
refuses "mlp-act: there is no MLP; add mlp" --mlp-act silu
refuses "--mlp-ratio needs a number, above 0 to 64, got '0'" --mlp --mlp-ratio 0
refuses "--residual-scale needs a number, above 0 to 100, got '0'" --residual-scale 0
refuses "--residual-scale needs a number or a name: 'half'" --residual-scale half
refuses "--init: 'glorot' is not one of" --init glorot
refuses "--q-init: 'glorot' is not one of as-init" --q-init glorot
refuses "init: mup draws the output layer smaller" --init mup --tied
refuses "positions: rope needs an even d-head, got 5" --d-head 5

[[ $failures == 0 ]] && echo "all as it should be"
exit $((failures > 0))
