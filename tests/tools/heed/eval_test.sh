#!/usr/bin/env bash
# Tests of `heed eval` on other data than the evaluation set of the run: another text, other settings of the task,
# another length, and a prompt. Usage: eval_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
small=("${tiny[@]}" --steps 4 --quiet --threads 1)
# value KEY: prints the value of the key in the JSON in ./out
value() { grep -oE "\"$1\":[^,}]*" out | head -1 | cut -d: -f2; }

for i in $(seq 60); do echo "line $i: the quick, brown fox; été"; done > text.txt
for i in $(seq 30); do echo "the line $i: é"; done > other.txt
expect 0 train --text text.txt "${small[@]}" --context 16 --positions learned --out text
kept=$(sha256sum text/*)

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
expect 0 eval text --text other.txt --context 4 --json; ok test "$(value eval_tokens)" == "$characters"
expect 0 eval text --text other.txt --sequences 2 --json; ok test "$(value eval_tokens)" == 32
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
expect 0 train --lines text.txt "${small[@]}" --context 48 --positions rope --out lines
refuses 2 "the held-out lines of this run depend on its context, 48" eval lines --context 64
expect 0 eval lines --lines other.txt --context 14; err_has "21 of 30 lines are longer than 13 tokens"
expect 0 eval lines --text other.txt --context 64; out_has "context 64"

# --- words
expect 0 train --text text.txt --unit word "${small[@]}" --context 16 --out words
head -1 text.txt > first.txt
expect 0 eval words --text first.txt; out_has "perplexity per word"

# --- a prompt: every token after the first is scored, except the separator, which the model never predicts
expect 0 eval text --prompt "the line" --json; is_json_line; out_has '{"position":0,"token":"t","id":'
loss=$(value loss)
close "$(grep -oE '"log_probability":-[^,]*' out | cut -d: -f2 | awk '{ s -= $1 } END { printf "%.17g", s / NR }')" "$loss"
expect 0 eval text --prompt "the line"; out_has "nats per token"; ok grep -qE "^ +7  e  +-[0-9.]+  +[0-9]+$" out
refuses 2 "--prompt 't' is one token, and the first token has no prediction" eval text --prompt t
refuses 2 "--prompt has 17 tokens, and the context of the run is 16" eval text --prompt "the line the line"
refuses 2 "--stride has no effect with --prompt" eval text --prompt the --stride 3
expect 0 train reverse "${small[@]}" --out reverse
expect 0 eval reverse --prompt "abcdefghijklmnop|p" --json
out_has '"token":"|","id":16,"log_probability":null,"rank":null'; out_has '{"position":17,"token":"p","id":15,"log_probability":-'

# --- other settings of the same task must keep the vocabulary
expect 0 train induction "${small[@]}" --out induction
expect 0 eval induction --context 96 --sequences 16; out_has ", context 96"; out_has "best possible"
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

# --- none of these evaluations changed a file of the run
ok test "$(sha256sum text/*)" == "$kept"
end_of_checks
