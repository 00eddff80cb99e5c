#!/usr/bin/env bash
# Tests of `heed score`: rows, totals, saved logits and errors. Usage: score_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
small=("${tiny[@]}" --steps 4 --quiet --threads 1)
# value KEY: prints the last value of the key in the JSON in ./out
value() { grep -oE "\"$1\":[^,}]*" out | tail -1 | cut -d: -f2; }

for i in $(seq 60); do echo "line $i: the quick, brown fox; été"; done > text.txt
for i in $(seq 30); do echo "the line $i: é"; done > other.txt
expect 0 train --text text.txt "${small[@]}" --context 16 --out text
rm text.txt  # the vocabulary is in the weights

# --- a prompt
expect 0 score text --prompt "the line"; out_has "position"; out_has "alternative"; out_has "over 7 tokens"; out_has "perplexity"
expect 0 score text --prompt "the line" --json; is_json_line
out_has '"tokens":[{"position":0,"token":"t","id":'; out_has '"log_probability":null,"rank":null'
out_has '"total":{"tokens":7,'
refuses 2 "--prompt has 17 tokens, and the context of the run is 16; write it to a file and give it as --text" score text --prompt "the line the line"
refuses 2 "'?'" score text --prompt "?"
refuses 2 "score needs --prompt or --text" score text
refuses 2 "--text has no effect with --prompt" score text --prompt "the" --text other.txt
refuses 2 "--stride has no effect with --prompt" score text --prompt "the" --stride 2

# --- a text: the totals are those of heed eval in the same windows
characters=$(wc -m < other.txt)
for options in "" "--stride 1" "--stride 5" "--stride 16" "--weights best.safetensors"; do
  # shellcheck disable=SC2086
  expect 0 eval text --text other.txt $options --json
  loss=$(value loss) tokens=$(value eval_tokens) perplexity=$(value perplexity) bytes=$(value bits_per_byte)
  # shellcheck disable=SC2086
  expect 0 score text --text other.txt $options --json; is_json_line
  close "$(value loss)" "$loss"; close "$(value perplexity)" "$perplexity"; close "$(value bits_per_byte)" "$bytes"
  close "$(value log_probability)" "-$loss * $tokens"; ok test "$(grep -o '"position":' out | wc -l)" == "$characters"
done
expect 0 score text --text other.txt; out_has "... $characters rows in all"

yes "the line 1: e" | head -c 260000 > long.txt
refuses 2 "tokens, and heed score accepts 250,000" score text --text long.txt

# --- logits
expect 0 score text --prompt "the line" --save p.safetensors; out_has "p.safetensors"
expect 0 info p.safetensors; out_has "[8, "
expect 0 score text --text other.txt --stride 3 --save t.safetensors --json
expect 0 info t.safetensors; out_has "[$((characters - 1)), "
refuses 2 "ends in .safetensors, got 'p.npy'" score text --prompt "the" --save p.npy
for inside in model.safetensors best.safetensors checkpoints/000002.safetensors; do
  refuses 2 "--save text/$inside is inside the run directory" score text --prompt "the" --save text/$inside
done
refuses 2 "--prompt 't' is one token, and the first token has no prediction" score text --prompt t
refuses 4 "absent" score text --prompt "the" --save absent/p.safetensors

# --- tasks: every next token is scored, except the separator, which the model never predicts
expect 0 train reverse "${small[@]}" --out reverse
expect 0 score reverse --prompt "abcdefghijklmnop|p" --json; out_has '"total":{"tokens":16,'; out_has '"perplexity":null'
out_has '"token":"|","id":16,"log_probability":null,'; out_has '{"position":17,"token":"p","id":15,"log_probability":-'
expect 0 train recall "${small[@]}" --out recall
expect 0 score recall --prompt "aAbBcCdDeEfFgGhH..a." --json; out_has '"total":{"tokens":19,'
refuses 2 "--text is for runs on a text" score reverse --text other.txt
end_of_checks
