#!/usr/bin/env bash
# Tests that heed rejects options that would have no effect. In a file that heed wrote, heed accepts values
# without effect, because the user did not choose them. Usage: no_effect_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
quick=(reverse "${tiny[@]}" --steps 4 --quiet --threads 1)
for i in $(seq 60); do echo "line $i: the quick brown fox"; done > text.txt

while IFS='|' read -r options need; do
  # shellcheck disable=SC2086
  refuses 2 "$need" train "${quick[@]}" $options --dry-run
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
refuses 2 "--max-words needs --unit word" train --text text.txt --max-words 9
expect 0 train "${quick[@]}" --schedule wsd --decay-steps 2 --min-lr 1e-4 --warmup 4 --optimizer sgd --momentum 0.5 --dry-run

# A configuration file of the user contains only values that the user chose, so heed checks them. The
# config.toml of a run and the output of --print-config contain every key, so heed does not check their values.
printf '[train]\nmomentum = 0.5\noptimizer = "adamw"\n' > mine.toml
refuses 2 "mine.toml:2: momentum needs --optimizer sgd" train "${quick[@]}" --config mine.toml
expect 0 train "${quick[@]}" --config mine.toml --optimizer sgd --dry-run
expect 0 train "${quick[@]}" --out run
expect 0 train --config run/config.toml --optimizer sgd --schedule cosine --dry-run
grep -v '^seed' run/config.toml > shorter.toml
expect 0 train --config shorter.toml --dry-run
refuses 2 "--beta1 needs" train --config run/config.toml --optimizer sgd --beta1 0.5
expect 0 train --text text.txt "${tiny[@]}" --context 8 --steps 4 --quiet --out text-run
expect 0 train --config text-run/config.toml --steps 5 --dry-run
expect 0 train --resume run --steps 5

refuses 2 "--sequences needs 1 to " eval run --sequences 1000000
err_has "the size of the evaluation set, got 1000000"
for two in "--dry-run --overfit-batch" "--dry-run --print-config" "--overfit-batch --print-config"; do
  # shellcheck disable=SC2086
  refuses 2 "; leave out ${two#* }" train $two
done
end_of_checks
