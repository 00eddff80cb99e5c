#!/usr/bin/env bash
# Tests of training on files of the user (lines, and texts whose tokens are words), and of `heed generate`.
# Usage: data_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
small=("${tiny[@]}" --steps 4 --quiet --threads 1)

# --- the task `lines`: eval, generate, study and resume read its options from the run
for a in $(seq 0 9); do for b in $(seq 0 9); do echo "$a+$b=$((a + b))"; done; done > sums.txt
expect 0 train --lines sums.txt --answer-after = "${small[@]}" --context 8 --out sums
out_has "2-gram"; out_has "whole answers right"
ok grep -q 'answer-after = "="' sums/config.toml
expect 0 eval sums --json; is_json_line; out_has '"2-gram":'; out_has '"eval_sequences":10,'
mv sums.txt moved.txt
expect 0 generate sums --prompt 3+4= --greedy --json; is_json_line; out_has '"prompt":"\n3+4="'
for seed in 1 2 3 4; do  # all tokens have nearly equal probabilities, even the newline that ends a line
  expect 0 generate sums --prompt 3 --temperature 1000 --seed $seed --json; cat out >> texts
done
ok grep -q '"stopped":true' texts
ok [ "$(grep -o '"text":"[^"]*"' texts | grep -c '\\n[^"]')" = 0 ]
expect 0 study sums --prompt 3+4= --of diff:7-8
refuses 4 "if it was moved, resume the run once with --lines set to its new path" eval sums
refuses 4 "if it was moved, resume the run once with --lines set to its new path" study sums
mv moved.txt sums.txt
expect 0 study sums; out_has "pictured sequence: 6 tokens"  # the context has 8 tokens, but 2 of them are padding
expect 0 study sums --sample 3; out_has "pictured sequence: 7 tokens"
expect 0 train --resume sums --steps 8 --quiet
refuses 2 "one file" train --text sums.txt --lines sums.txt
refuses 2 "for the task lines" train markov --lines sums.txt
expect 0 train --lines sums.txt --context 6 "${small[@]}" --out short
err_has "lines are longer than 5 tokens"
refuses 2 "sequences of lines end at different positions; give --at" study short --samples 5 --of logit:1

# --- tokens that are words
for i in $(seq 60); do echo "line $i: the quick  brown fox"; done > words.txt
expect 0 train --text words.txt --unit word "${small[@]}" --context 16 --out words
expect 0 generate words --prompt "line" --tokens 3 --json; out_has '"prompt":"line"'
refuses 2 "'zebra' (word 1" generate words --prompt zebra
err_has "prompt: 'zebra'"
refuses 2 "it is with a space before it: write ' brown'" generate words --prompt brown
refuses 2 "it is without the space before it: write 'line'" generate words --prompt " line"
expect 0 eval words; out_has "words right"

# --- pipes and devices are rejected at once, because reading them might never end. inputs_test.py tests all inputs
refuses 4 "is a pipe or a device" train --text <(cat words.txt)

# --- generate
expect 0 train reverse "${small[@]}" --out reverse
prompt=(generate reverse --prompt abcdefghijklmnop --seed 5)
expect 0 "${prompt[@]}" --threads 1 --json; text=$(sed 's/.*"text":"\([^"]*\)".*/\1/' out)
expect 0 "${prompt[@]}" --threads 3; out_has "|$text"
expect 0 "${prompt[@]}" --stop "${text:4:1}"; out_has "|${text%%"${text:4:1}"*}${text:4:1}"
ok [ "$(tail -c 2 out)" = "${text:4:1}" ]
err_has "; stopped"
expect 0 "${prompt[@]}" --stop "${text:4:1}" --json; out_has '"stopped":true'
refuses 2 "stop: '!'" "${prompt[@]}" --stop '!'
refuses 2 "give --prompt " generate reverse
# --- a state that is damaged or has a size of 1 TB
cp -r reverse bad; flip_bit bad/state.safetensors
for try in 1 2; do
  for words in "info bad" "eval bad" "study bad" "generate bad --prompt a" "train --resume bad --steps 9" \
    "export bad --names torch --out y.safetensors"; do refuses 4 "cannot read bad/state.safetensors" $words; done
  truncate -s 1T bad/state.safetensors
done
for task in text lines; do
  expect 0 tasks $task; out_has "heed train --$task FILE"
  expect 0 tasks $task --json; is_json_line; out_has "\"task\":\"$task\""
done
refuses 2 "--tied: the model reads 17 tokens and predicts 16" train reverse --tied "${small[@]}"
err_has "leave out --tied"
expect 0 train reverse "${small[@]}" --out trein
sed -i 's/\[train\]/[trein]/' trein/config.toml; rm trein/state.safetensors
refuses 4 "unknown section [trein]; the section of a run is [train]" eval trein
end_of_checks
