#!/usr/bin/env bash
# Tests of `heed eval` on other data than the evaluation set of the run: another text, other settings of the task, and
# other lengths. Usage: eval_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
small=("${tiny[@]}" --steps 4 --quiet --threads 1)
# value KEY: prints the value of the key in the JSON in ./out
value() { grep -oE "\"$1\":[^,}]*" out | head -1 | cut -d: -f2; }

for i in $(seq 60); do echo "line $i: the quick, brown fox; été"; done > text.txt
for i in $(seq 30); do echo "the line $i: é"; done > other.txt
expect 0 train --text text.txt "${small[@]}" --context 16 --positions learned --out text
result() { "$heed" info text --json | grep -oE '"result":[^}]*'; }
kept=$(result)

# --- the held-out part of the run's own text: perplexity, bits per character and per byte
expect 0 eval text --json; is_json_line; loss=$(value loss)
close "$(value perplexity)" "exp($loss)"
close "$(value bits_per_character)" "$loss / log(2)"
checks=$((checks + 1)); awk "BEGIN { exit !($(value bits_per_byte) < $(value bits_per_character)) }" || fail "$what: bytes"
expect 0 eval text; out_has "perplexity per character"; out_has "bits per byte"; out_has "a token is a character"
expect 0 train --text text.txt "${small[@]}" --context 16 --out again --json; out_has '"perplexity":'

# --- another text is evaluated as a whole, and the text of the run need not exist
mv text.txt moved.txt
expect 0 eval text --text other.txt --json; is_json_line
ok test "$(value eval_tokens)" == $(($(wc -m < other.txt) - 1)); out_has '"task":"text"'
characters=$(($(wc -m < other.txt) - 1)) bytes=$(($(wc -c < other.txt) - 1)) loss=$(value loss)
close "$(value bits_per_byte)" "$loss / log(2) * $characters / $bytes"
ok test "$(value eval_sequences)" == $(((characters + 15) / 16))
expect 0 eval text --text other.txt; out_has ", on other.txt"
for stride in 1 4 16; do
  expect 0 eval text --text other.txt --stride $stride --json
  ok test "$(value eval_tokens)" == "$characters"
  [[ $stride == 16 ]] && close "$(value loss)" "$loss"
done
expect 0 eval text --text other.txt --context 4 --json; ok test "$(value eval_tokens)" == "$characters"
expect 0 eval text --text other.txt --sequences 2 --json; ok test "$(value eval_tokens)" == 32
printf 'line 1\nline ?\n' > bad.txt
refuses 2 "'bad.txt' contains '?' in line 2, which is not in the vocabulary" eval text --text bad.txt
refuses 2 "the learned positions of the model end at 16 tokens, got 17" eval text --text other.txt --context 17
refuses 2 "--stride: needs 1 to --context = 16, got 17" eval text --text other.txt --stride 17
refuses 2 "the size of the evaluation set, got 1000" eval text --text other.txt --sequences 1000
refuses 4 "cannot read absent.txt" eval text --text absent.txt
refuses 2 "both given" eval text --text other.txt --lines other.txt
refuses 2 "--task-periods has no effect on a text" eval text --text other.txt --task-periods 3..4
refuses 4 "if it was moved" eval text --stride 4
mv moved.txt text.txt
expect 0 eval text --stride 4; out_has "stride 4"; out_has "2-gram"
refuses 2 "--task-periods has no effect on a text" eval text --task-periods 3..4

# --- lines of another file; options that would change the held-out lines of a run are rejected
expect 0 eval text --lines other.txt --context 16 --json; out_has '"task":"lines"'
ok test "$(value eval_sequences)" == 30
refuses 2 "--stride: has no effect on lines" eval text --lines other.txt --stride 4
expect 0 train --lines text.txt "${small[@]}" --context 48 --positions rope --out lines
refuses 2 "the held-out lines of this run depend on its context, 48" eval lines --context 64
expect 0 eval lines --lines other.txt --context 14; err_has "21 of 30 lines are longer than 13 tokens"
expect 0 eval lines --text other.txt --context 64; out_has "context 64"

# --- words
expect 0 train --text text.txt --unit word "${small[@]}" --context 16 --out words
refuses 2 "'the' in line 1, which is not in the vocabulary" eval words --text other.txt
head -1 text.txt > first.txt
expect 0 eval words --text first.txt; out_has "perplexity per word"

# --- several lengths: a table, a picture, and the reason where a length is not possible
expect 0 eval text --text other.txt --context 4,16,32 --json; is_json_line; has_file text/lengths.png
out_has '"context":32,"loss":null'; out_has 'the learned positions of the model end at 16 tokens'
expect 0 eval text --text other.txt --context 4,16,32; out_has "not evaluated"; out_has "text/lengths.png"
expect 2 eval text --text other.txt --context 17,18; err_has "none of these lengths can be evaluated: "
expect 0 train induction "${small[@]}" --out induction
expect 0 eval induction --context 24,48,96 --sequences 16; out_has "26"; out_has "best possible"
rm induction/lengths.png; mkdir -p induction/lengths.png/full
expect 4 eval induction --context 48,96 --sequences 4; out_has "loss by length"

# --- other settings of the same task must keep the vocabulary
expect 0 eval induction --task-periods 12..16 --json; longer=$(value optimal_loss)
expect 0 eval induction --json; ok test "$(value optimal_loss)" != "$longer"
out_has '"perplexity":null'
refuses 2 "with --task-periods and --task-vocabulary the tokens are a-j ^, but the model learned a-z A-F ^" eval induction --task-vocabulary 10 --task-periods 3..5
expect 0 train modadd "${small[@]}" --out modadd
for option in "split unordered" "split-seed 3" "train-share 0.3"; do
  # shellcheck disable=SC2086
  refuses 2 "changes which sequences are held out, and the run trained on some of them" eval modadd --task-$option
done
refuses 2 "--task-symbols" eval induction --task-symbols 3
refuses 2 "--text is for runs on a text, and this run learned the task induction" eval induction --text other.txt
refuses 2 "--stride is for runs on a text" eval induction --stride 4

# --- none of these evaluations became the result of the run, or changed another file of it
ok test "$(result)" == "$kept"
cp -r text as-it-was; edit_state text '"result":"{' '"_esult":"{'
expect 0 eval text --text text.txt; expect 0 eval text --context 16; expect 0 eval text --stride 16
ok test "$(result)" != "$kept"
expect 0 eval text; out_has "wrote text/state.safetensors"
ok test "$(result | sed 's/"seconds":[^,]*//')" == "$(sed 's/"seconds":[^,]*//' <<< "$kept")"
expect 0 eval text; ok test "$(grep -c wrote out)" == 0; expect 0 verify run text
end_of_checks
