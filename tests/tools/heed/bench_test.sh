#!/usr/bin/env bash
# Tests the output of `heed bench`. Of the printed numbers, it tests those that do not depend on the load of
# the machine. times_test.sh tests mfu.
# Usage: bench_test.sh PATH-TO-HEED
set -euo pipefail
heed=$1
fail() { echo "FAILED: $*"; exit 1; }
# number KEY: reads a JSON line from stdin and prints the last value of the key
number() { grep -o "\"$1\":[-0-9.e+]*" | tail -1 | cut -d: -f2; }
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }

train=$("$heed" bench train --preset micro --threads 1 --json)
[[ $(wc -l <<< "$train") == 1 && $train == '{"rows":['* ]] || fail "bench train --json: $train"
for key in ms_per_step tokens_per_s mfu peak_bytes products_ms traffic_ms traffic_bytes over_bound; do
  less 0 "$(number $key <<< "$train")" || fail "bench train: $key in $train"
done
# Pool jobs are exact: none on one thread, and the same number in each step on two threads.
[[ $(number pool_jobs_per_step <<< "$train") =~ ^0(\.0)?$ ]] || fail "jobs on one thread: $train"
two=$("$heed" bench train --preset micro --threads 2 --json)
for one in "$train" "$two"; do
  less "$(number mallocs_per_step <<< "$one")" 2 || fail "a step calls malloc: $one"
done
[[ $(number pool_jobs_per_step <<< "$two") =~ ^4(\.0)?$ ]] || fail "jobs on two threads: $two"
# With --simd scalar, the peak speed is measured with a small matrix product, because the reference kernels
# are slow.
scalar=$("$heed" bench train --preset micro --threads 1 --simd scalar) || fail "bench train --simd scalar"
[[ $scalar == *"256^3 products"* ]] || fail "bench train --simd scalar: $scalar"

generate=$("$heed" bench generate --preset micro --threads 1 --json)
for key in tokens_per_s gb_per_s read_share us_per_token products_us read_us over_bound; do
  less 0 "$(number $key <<< "$generate")" || fail "bench generate: $key in $generate"
done
[[ $(number pool_jobs_per_token <<< "$generate") =~ ^0(\.0)?$ ]] || fail "jobs on one thread: $generate"
# The weights that are read are matrices with 12 x 32 x 32 elements, the head with 32 x 32 elements, biases and
# norms, but not embeddings.
[[ $(number weight_bytes <<< "$generate") == 55168* ]] || fail "weights of micro: $generate"

ops=$("$heed" bench ops --json)
less 0 "$(number forward_ns <<< "$ops")" || fail "bench ops: $ops"
for key in $("$heed" bench --help json | sed -n '/^Keys of --json, ops:/,/^$/p' | tail -n +2 | tr -d '()'); do
  grep -q "\"$key\":" <<< "$ops" || fail "bench ops: no key $key in $ops"
done
# The memory of attention is proportional to the number of tokens T, so T = 8192 needs 8 times as much as
# T = 1024. If it were proportional to T^2, it would need 64 times as much.
extra() { grep -o "\"length\":$1,[^}]*" <<< "$ops" | number extra_bytes; }
less "$(extra 8192)" "$(awk -v a="$(extra 1024)" 'BEGIN { print 10 * a }')" ||
  fail "attention's memory: $ops"
less "$(extra 8192)" "$(number composite_extra_bytes <<< "$ops")" || fail "composite: $ops"
echo "bench: passed"
