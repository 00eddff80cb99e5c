#!/usr/bin/env bash
# Tests the program heed-bench. Of the printed numbers, it tests those that do not depend on the load of the
# machine. products_test.cpp tests the counts of FLOP and bytes in mfu and over_bound.
# Usage: bench_test.sh PATH-TO-HEED-BENCH
source "$(dirname "$0")/../heed/expect.sh" "$1"
# number KEY FILE: prints the last value of the key
number() { grep -o "\"$1\":[-0-9.e+]*" "$2" | tail -1 | cut -d: -f2; }
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }
# measure FILE MODE ARGUMENTS...: runs heed-bench and stores its JSON line in FILE. The keys are those that help states
measure() {
  local file=$1 mode=$2
  shift
  expect 0 --help all; cp out help
  expect 0 "$@" --json; is_json_line; cp out "$file"
  for key in $(sed -n "/^Keys of --json, $mode:/,/^\$/p" help | tail -n +2 | tr -d '()'); do out_has "\"$key\":"; done
}

refuses 2 "heed-bench needs gemm, train or generate; try heed-bench gemm"
refuses 2 "did you mean 'gemm'" gem
refuses 2 "did you mean 'small'" train --preset smal
refuses 2 "preset has no effect with gemm; leave out preset" gemm --preset micro
refuses 2 "'toy' is one argument too many; see heed-bench --help" train micro toy
refuses 2 "see heed-bench --help" train --steps 3
HEED_SIMD=abacus refuses 2 "abacus" gemm
expect 0 --version; out_has "heed "
expect 0 --help; out_has "Usage: heed-bench [OPTIONS] WHAT [PRESET]"; help_has "More: heed-bench --help all"

measure train train --preset micro --threads 1
for key in ms_per_step tokens_per_s mfu peak_bytes products_ms traffic_ms traffic_bytes over_bound; do
  ok less 0 "$(number $key train)"
done
# Pool jobs are exact: none on one thread, and the same number in each step on two threads.
ok test "$(number pool_jobs_per_step train)" == 0.0
measure two train --preset micro --threads 2
for one in train two; do ok less "$(number mallocs_per_step $one)" 2; done
ok test "$(number pool_jobs_per_step two)" == 4.0
# With HEED_SIMD=scalar, the peak speed is measured with a small matrix product, because the reference kernels
# are slow.
HEED_SIMD=scalar expect 0 train --preset micro --threads 1; out_has "256^3 products"
checks=$((checks + 1)); ! grep -qE '.{81}' out || fail "$what: more than 80 columns"

measure generate generate --preset micro --threads 1
for key in tokens_per_s gb_per_s read_share us_per_token products_us read_us over_bound; do
  ok less 0 "$(number $key generate)"
done
ok test "$(number pool_jobs_per_token generate)" == 0.0
# The weights that are read are matrices with 12 x 32 x 32 elements, the head with 32 x 32 elements, biases and
# norms, but not embeddings.
ok test "$(number weight_bytes generate)" == 55168.0

end_of_checks
