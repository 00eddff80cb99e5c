#!/usr/bin/env bash
# Tests of the errors of options: unknown names, invalid values, and options that would have no effect. In a
# file that heed wrote, heed accepts values without effect, because the user did not choose them.
# Usage: refusals_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
quick=(reverse "${tiny[@]}" --steps 4 --quiet --threads 1)
for i in $(seq 12); do echo "line $i: the quick brown fox"; done > text.txt

while IFS='|' read -r options need; do
  # shellcheck disable=SC2086
  refuses 2 "$need" train "${quick[@]}" $options --print-config
  err_has "and has no effect without it; add it, or leave out "
done << 'END'
--momentum 0.9|--momentum needs --optimizer sgd,
--momentum 0|--momentum needs --optimizer sgd,
--beta1 0.8 --optimizer sgd|--beta1 needs --optimizer adamw,
--beta2 0.8 --optimizer sgd|--beta2 needs --optimizer adamw,
--eps 1e-6 --optimizer sgd|--eps needs --optimizer adamw,
--min-lr 1e-4|--min-lr needs --schedule linear, cosine or wsd,
--schedule-steps 3|--schedule-steps needs --schedule linear, cosine or wsd,
--decay-steps 3|--decay-steps needs --schedule wsd,
--decay-steps 3 --schedule cosine|--decay-steps needs --schedule wsd,
END
expect 0 train "${quick[@]}" --schedule wsd --decay-steps 2 --min-lr 1e-4 --warmup 4 --optimizer sgd --momentum 0.5 --print-config

# A configuration file of the user contains only values that the user chose, so heed checks them. The
# config.toml of a run and the output of --print-config contain every key, so heed does not check their values.
printf '[train]\nmomentum = 0.5\noptimizer = "adamw"\n' > mine.toml
refuses 2 "mine.toml:2: momentum needs --optimizer sgd" train "${quick[@]}" --config mine.toml
expect 0 train "${quick[@]}" --config mine.toml --optimizer sgd --print-config
expect 0 train "${quick[@]}" --out runs/reverse-1
expect 0 train --config runs/reverse-1/config.toml --optimizer sgd --schedule cosine --print-config
grep -v '^seed' runs/reverse-1/config.toml > shorter.toml
expect 0 train --config shorter.toml --print-config
refuses 2 "--beta1 needs" train --config runs/reverse-1/config.toml --optimizer sgd --beta1 0.5
expect 0 train --text text.txt "${tiny[@]}" --context 16 --steps 4 --quiet --out text-run
expect 0 train --config text-run/config.toml --steps 5 --print-config
expect 0 train --resume runs/reverse-1 --steps 5

printf '[train]\nnewlines = "lf"\nclip-value = 1\n' > old.toml; refuses 2 "old.toml:3: this run uses clip-value = 1, which heed no longer has" train --config old.toml

# --- each line is "MESSAGE :: ARGUMENTS"
while IFS= read -r row; do
  words=()
  eval "words=(${row#* :: })"
  refuses 2 "${row%% :: *}" "${words[@]}"
done << 'END'
heed train --help has no part 'bogus'; heed train --help all prints everything :: train --help bogus
heed --help has no part '-x'; heed --help all prints everything :: --help=-x
unknown command 'trian'; did you mean heed train? :: trian --help
unknown command 'trian'; did you mean heed train? :: --help trian
unknown command 'sweep': it was removed; train the runs in a loop :: sweep s.toml
unknown option --csv: it was removed; --json prints all numbers :: eval --csv
did you mean 'induction'? :: tasks indution
the task markov does not have this parameter; only induction has it :: train markov --task-periods 3..4
2 to 52, got '1' :: train markov --task-symbols 1
did you mean 'micro'? :: train --preset mikro
did you mean --layers? :: train --layrs 3
did you mean --batch? :: train --overfit-batch 4
unknown option --sink; see heed train --help :: train --sink zero
one argument too many :: train induction more
unknown option -x :: train -x
task is given twice, as 'markov' and 'copy' :: train markov --task copy
its name in heed is --layers :: train --n_layer 4
its name in heed is --heads :: train --n_head 4
its name in heed is --d-model :: train --n_embd 4
its name in heed is --steps :: train --max_iters=4
its name in heed is --lr :: train --learning_rate 4
its name in heed is --context :: train --block_size 4
its name in heed is --batch :: train --batch_size 4
its name in heed is --eval-every :: train --eval_interval 4
write --weight-decay :: train --weight_decay 4
--bias needs true or false, got 'False'; write --bias or --no-bias :: train --bias=False
its name in heed is --warmup :: train --warmup_iters 5
did you mean heed generate? :: sample
did you mean heed train --from? :: finetune runs/a
did you mean heed study or heed gradcheck? :: gradient
did you mean heed gradcheck? :: test
its name in heed is --tokens :: generate --max_new_tokens 4
the nearest is 'softmax' :: gradcheck sofmax
op has no effect with --run; leave out op :: gradcheck softmax --run R
add --run or leave out --weights :: gradcheck add --weights F
--lr needs a value :: train --lr
--steps needs a whole number :: train --steps -4
contradict :: train --mlp --no-mlp
--out needs a value :: train --out --quiet
--text FILE :: train --preset micro
--overwrite needs --out DIR :: train --overwrite
--json has no effect with --print-config :: train --print-config --json
give --eval-every above 0 :: train reverse --eval-every 0 --patience 2
reads no file :: train --unit word
is 0 for every model :: study runs/reverse-1 --of diff:a-a
has no corruptions; give pairs with --pairs :: study runs/reverse-1 --corruption value
'b-c' is not one token that the model predicts; it predicts a-p :: study runs/reverse-1 --of diff:a-b-c
'|' is not one token :: study runs/reverse-1 --of 'logit:|'
--at: needs positions from 0 to :: study runs/reverse-1 --of logit:a --at 99
give only one of them :: study runs/reverse-1 --prompt ab --sample 1
--sample: needs 0 to :: study runs/reverse-1 --sample 99999999
--show: 'path' is not one of all, components, gradient, sets, edges, cells :: study runs/reverse-1 --show path
needs at least 5, because each sequence has 4 donors; got 1 :: study runs/reverse-1 --ablate L0H0 --samples 1
use logprob, or diff:A-B for two named tokens :: study runs/reverse-1 --of margin
--block prevents queries from attending to keys :: study runs/reverse-1 --cut L0H0[1,1]
text has 3 sequences, and a study needs at least 5; use a longer text, or --prompt :: study text-run
so that positions correspond :: study text-run --prompt "quick" --corrupt "qui"
--format: 'pdf' is not one of png or svg :: study runs/reverse-1 --format png,pdf
heed plot needs FILE :: plot
position 3 is given twice :: study runs/reverse-1 --at 3,3
--weights has no effect with --over-time :: study runs/reverse-1 --over-time --weights best.safetensors
END
ok test "$(ls runs)" == reverse-1  # an error creates no run
end_of_checks
