#!/usr/bin/env bash
# Tests of heed train --dry-run: it prints the learning rate of each step and the FLOPs, and writes no
# files.
# Usage: dry_run_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
dry=(train markov "${tiny[@]}" --context 16 --threads 1 --dry-run)
cosine=(--schedule cosine --steps 8 --warmup 2 --lr 0.01 --min-lr 0.001)

# The expected learning rates, computed with the formula of the cosine schedule.
awk 'BEGIN {
  for (s = 0; s < 8; ++s)
    printf "%d %.17g\n", s + 1, s < 2 ? 0.01 * (s + 1) / 3 : 0.001 + 0.009 * (1 + cos(atan2(0, -1) * (s - 2) / 6)) / 2
}' > expected
expect 0 "${dry[@]}" "${cosine[@]}" --json; is_json_line
grep -oE '"step":[0-9]+,"lr":[0-9.e-]+' out | tr ':,' '  ' | awk '{ print $2, $4 }' > got
ok test "$(wc -l < got)" == 8
while read -r step lr got_step got_lr; do
  ok test "$step" == "$got_step"; close "$lr" "$got_lr"
done < <(paste -d ' ' expected got)
# The FLOPs of a step are the number of its tokens (4 x 16) times the FLOPs per token.
number() { grep -o "\"$1\":[0-9.e+-]*" out | head -1 | cut -d : -f 2; }
close "$(number flops_per_step)" "$(number flops_per_token) * 4 * 16"
# The estimated seconds of the run are 8 times the seconds of a step.
close "$(number seconds)" "$(number seconds_per_step) * 8"
# The memory of a run is more than the memory of weights, gradients and moments.
ok awk "BEGIN { exit !($(number bytes) > $(number training_bytes)) }"

expect 0 "${dry[@]}" "${cosine[@]}"
out_has "lr        cosine, by step:"
out_has "          1: 0.00333  2: 0.00667  3: 0.01  4: 0.0094  6: 0.0055  8: 0.0016"
out_has "dry run: nothing written"
# A step that would take hours is not taken: --dry-run prints the shapes and a bound of the memory at once.
SECONDS=0
expect 0 train --context 65536 --dry-run
out_has "blocks.0.attn.hook_attn_scores  [32, 2, 65536, 65536]"
out_has "time      unknown, because three steps take more than 20 s"
ok test $SECONDS -lt 100
ok [ "$(find . -mindepth 1 ! -name out ! -name err ! -name expected ! -name got | wc -l)" = 0 ]
# A run prints its peak of memory at its end.
expect 0 train markov "${tiny[@]}" --context 16 --steps 8 --out run --quiet
ok grep -qE "^memory +[0-9.]+ MB at its peak" out
end_of_checks
