#!/usr/bin/env bash
# Tests of the progress lines of heed train. metrics_test.cpp tests the rows of metrics.csv during training.
# Usage: progress_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
reverse=(train reverse "${tiny[@]}" --threads 1)

expect 0 "${reverse[@]}" --steps 200 --eval-every 100 --out not-quiet
ok grep -qE '^  evaluated on the first 8 of 1,024 evaluation sequences, at the end on all$' err
ok grep -qE '^  best possible loss on them 0\.0000$' err
ok grep -qE '^step  200/200  eval_loss .*  0\.0s left' err
ok [ "$(awk 'length($0) > 80' err | wc -l)" = 0 ]

# --- a task with held-out data is evaluated on training sequences, too, which changes no weight
modadd=(train modadd --layers 1 --heads 1 --d-model 16 --batch 4096 --steps 60 --threads 1)
expect 0 "${modadd[@]}" --eval-every 20 --lr 0.03 --json --out both
err_has "  train_loss is the loss on 512 training sequences, drawn with a fixed seed"
ok grep -qE '^step   20/60  eval_loss [0-9.]+  train_loss [0-9.]+  held-out sums right [0-9.]+ %' err
train_loss=$(grep -oE '"train_loss":[0-9.]+' out | cut -d: -f2)
close "$(tail -1 both/metrics.csv | cut -d, -f9)" "$train_loss"
# The batches are the whole training set, of which the 512 sequences are a sample.
ok awk -F, 'NR > 1 && $1 > 0 && $9 != "" { n++; if (!($9 < 4 && $10 >= 0 && $10 <= 1)) bad = 1 } END { exit !(n == 3 && !bad) }' both/metrics.csv
expect 0 "${modadd[@]}" --eval-every 20 --lr 0.03 --eval-train 0 --json --out without
out_has '"train_loss":null,"train_accuracy":null'
ok [ "$(grep -c train_loss: err)" = 0 ]
ok test "$(weights_of both)" == "$(weights_of without)"
expect 0 train --resume without --steps 80 --eval-train 7 --quiet
ok [ -n "$(tail -1 without/metrics.csv | cut -d, -f9)" ]

end_of_checks
