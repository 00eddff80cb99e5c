#!/usr/bin/env bash
# Tests that heed_blocks prints a line with seconds and bytes for each line of input, and rejects invalid lines.
# Usage: blocks_test.sh PATH-TO-HEED_BLOCKS
set -euo pipefail
blocks=$1
fail() { echo "FAILED: $*"; exit 1; }
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }

figures=$(printf 'train micro 0.01\nattention 1x1x8x4 0\ngenerate micro 0\ntrain micro,context=32 0\n' | "$blocks" --threads 1)
[[ $(wc -l <<< "$figures") == 4 ]] || fail "$figures"
while read -r seconds bytes; do
  less 0 "$seconds" && less 0 "$bytes" || fail "$figures"
done <<< "$figures"

# refuses LINE TEXT: checks that heed_blocks rejects LINE with exit code 2 and an error that contains TEXT
refuses() {
  code=0
  output=$("$blocks" <<< "$1" 2>&1 > /dev/null) || code=$?
  [[ $code == 2 && $output == *"$2"* ]] || fail "'$1' gives exit code $code: $output"
}
refuses 'train micro' 'a line is WORK SIZE SECONDS'
refuses 'train nano 1' "'nano' is not a speed preset; these are: micro, toy"
refuses 'sleep micro 1' "'sleep micro' is not a work"
refuses 'attention 1x1x8 1' 'needs a shape BxHxTxD'
refuses 'train micro,context 1' 'needs PRESET,OPTION=VALUE'
refuses 'train micro,contxt=32 1' "'contxt' is not an option of this work; did you mean 'context'?"
refuses 'train micro,schedule=constant 1' 'is not an option of this work'
refuses 'train micro,context=0 1' 'context'

# The round trip of a message between two cores takes more than 5 ns and, on a busy machine, less than 100 us.
if (( $(nproc) > 1 )); then
  trip=$("$blocks" <<< 'roundtrip cores 0.02' | cut -d ' ' -f 1)
  less 5e-9 "$trip" && less "$trip" 1e-4 || fail "a round trip of $trip s"
fi
code=0
taskset -c "$(taskset -cp $$ | grep -o '[0-9]*$')" "$blocks" <<< 'roundtrip cores 0' 2> /dev/null || code=$?
[[ $code == 2 ]] || fail "a round trip on one core gives exit code $code"

# The option optimizer applies to the timed step. A step with SGD needs less memory, because SGD has no
# moments. With two threads, the peak also depends on which parts run at the same time.
bytes() { "$blocks" --threads 1 <<< "train micro,$1 0" | cut -d ' ' -f 2; }
less "$(bytes optimizer=sgd)" "$(bytes optimizer=adamw)" || fail "SGD takes as much as AdamW"
echo "blocks: passed"
