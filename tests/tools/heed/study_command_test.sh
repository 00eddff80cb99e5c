#!/usr/bin/env bash
# Tests of the commands `heed study` and `heed plot`. Usage: study_command_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
expect 0 train reverse "${tiny[@]}" --steps 8 --save-every 4 --quiet
expect 0 train reverse "${tiny[@]}" --steps 2 --out again --quiet
for i in $(seq 200); do echo "line $i: the quick brown fox"; done > text.txt
expect 0 train --text text.txt "${tiny[@]}" --context 16 --steps 2 --out text-run --quiet

# --- studies of one sequence, and errors of usage
expect 0 study runs/reverse-1; out_has "arrays.safetensors"; help_has "32 tokens, the log probability = "
help_has "L is the log probability of the right tokens, mean over those that the accuracy counts: -2.778 nats on 256 sequences of reverse"
help_has "predicts no better than token frequencies"; ok [ "$(wc -l < out)" -le 35 ]
expect 0 study runs/reverse-1 --prompt abcdefghijklmnop --of logit:a --out once; out_has "logit:a at 16 = "
for file in weights.png dA.png dS.png arrays.safetensors; do has_file "runs/reverse-1/study/$file"; done
expect 0 info runs/reverse-1/study/arrays.safetensors; out_has "blocks.0.attn.hook_attn_scores_grad"
expect 0 study runs/reverse-1 --sample 2 --of diff:a-b --at 1 --out looked; out_has "diff:a-b at 1"; has_file looked/dS.png
expect 0 study runs/reverse-1 --out default --json; is_json_line; out_has '"objective":"the log probability"'
expect 0 study runs/reverse-1 --at 18 --ablate all --samples 16 --out at-18
out_has "the log probability at 18"; ok grep -q "L0MLP" at-18/report.html; out_has "Effects of heads and MLPs"
expect 0 info at-18/arrays.safetensors; help_has "the log probability of the right tokens, at position 18"
printf 'abcdefghijklmnop\tbacdefghijklmnop\nabcdefghijklmnop\tabcdefghijklmnoo\tp\to\n' > pairs.txt
expect 0 study runs/reverse-1 --pairs pairs.txt; help_has "2 pairs of pairs.txt"; out_has "noise: necessary"
printf 'abcdefghijklmnop\n' > bad.txt; refuses 2 "bad.txt, line 1: needs 2 or 4 parts, got 1; write clean TAB corrupt" study runs/reverse-1 --pairs bad.txt
printf 'abcdefghijklmnop\tabcdefghijklmnop|a\n' > bad.txt; refuses 2 "bad.txt, line 1: a prompt of 18 tokens, but the first prompt of the file has 17" study runs/reverse-1 --pairs bad.txt
printf 'abcdefghijklmnop\tbacdefghijklmnop\tab\tc\n' > bad.txt; refuses 2 "'ab' is not one token that the model predicts" study runs/reverse-1 --pairs bad.txt
: > bad.txt; refuses 2 "has no pair; write clean TAB corrupt" study runs/reverse-1 --pairs bad.txt
refuses 2 "give one of them" study runs/reverse-1 --pairs pairs.txt --corruption value
expect 0 study runs/reverse-1 --of loss --json; is_json_line; out_has '"objective":"the loss"'
expect 0 study runs/reverse-1 --of logprob:a --json; is_json_line; out_has '"objective":"logprob:a at '
expect 0 study text-run --out text-study; out_has "16 tokens, the log probability = -"
help_has "L is the log probability of the right tokens, mean over those that the accuracy counts"
expect 0 study text-run --of loss --samples 5 --ablate all; out_has "16 tokens, the loss = "
expect 0 study text-run --prompt "the quick"; out_has "9 tokens, logprob:"
for of in diff:a none; do refuses 2 "loss, logprob, logprob:C, logit:C or diff:A-B" study runs/reverse-1 --of $of; done
expect 0 study runs/reverse-1 --sample 2 --at 18,19; help_has "the log probability at 18 and 19"
refuses 4 "cannot make the directory" study runs/reverse-1 --out out/x
expect 0 study runs/reverse-1 --ablate L0H0 --samples 8 --ablation zero --show sets; out_has "Sets of heads"; help_has "Without L0H0, L changes by"
expect 0 study text-run --prompt "the quick" --keep L0H0; help_has "With only L0H0, L changes by 0, on the sequence shown"

# --- --over-time with other sequences and another L than the default
expect 0 study runs/reverse-1 --over-time --prompt abcdefghijklmnop --of diff:a-b --out ot; help_has "checkpoints on the sequence shown"; help_has "the logit of a minus that of b"
expect 0 study runs/reverse-1 --over-time --of loss --samples 8; help_has "L is the loss"; help_has "on 8 sequences"
expect 0 study runs/reverse-1 --show patching,sets --out none
err_has "--show patching: this section was not computed; add --corrupt, --pairs or --corruption"; err_has "add --ablate or --keep"
ok [ "$(grep -c warning err)" = 2 ]

# --- sets, edges and cells
expect 0 study runs/reverse-1 --ablate L0MLP,L0H0 --keep L0MLP --out cuts; out_has "Without L0MLP and L0H0,"; out_has "With only L0MLP,"
expect 0 study runs/reverse-1 --edge embed:Q:L0H0,embed:L0MLP --prompt abcdefghijklmnop
help_has "With embed:Q:L0H0, embed:L0MLP replaced together, L changes by"; help_has "on the sequence shown"
mv text.txt elsewhere.txt  # a prompt can be studied without the text
expect 0 study text-run --prompt "the quick"; help_has "the sequences of the run are not available"
refuses 2 "Use --ablation zero" study text-run --prompt "the quick" --ablate L0H0
expect 0 study text-run --prompt "the quick" --ablate L0H0 --ablation zero
mv elsewhere.txt text.txt
expect 0 study runs/reverse-1 --prompt abcdefghijklmnop --corrupt ponmlkjihgfedcba --of diff:a-b --out patched
for words in "Activation patching" "the sequence and a corrupt prompt" patching_heads.png "denoise: sufficient"; do out_has "$words"; done
for file in patched/patching.png patched/report.html; do has_file $file; done
# picture_has FILE TEXT...: checks that the description or the metadata of a PNG file contain each text
picture_has() { for text in "${@:2}"; do what="$1, $text"; ok grep -aqF -- "$text" "$1"; done; }
picture_has patched/patching.png "Activation patching" "Color range"
expect 0 study runs/reverse-1 --block "L0H0[5,3],L0H0[*,0]" --out cells; out_has "Blocked cells"; out_has "33 cells"
expect 0 study runs/reverse-1 --samples 8 --show components --out over-sequences; out_has "on 8 sequences"

weights=$("$heed" info runs/reverse-1 | sed -n 's/^weights  *//p')
picture_has cells/dA.png "$weights" "heed study runs/reverse-1 --block" "Color range" Software
picture_has runs/reverse-1/loss.png "heed train" "$weights"
refuses 4 "'cells/dS.png' is not a run or a safetensors file" info cells/dS.png; ok test "$(grep -c load_ err)" == 0

# --- pictures as SVG, in every mode that draws
xml() {  # checks that a file is well-formed XML
  command -v python3 > /dev/null || return
  ok python3 -c 'import sys, xml.dom.minidom as d; d.parse(sys.argv[1])' "$1"
}
expect 0 study runs/reverse-1 --prompt abcdefghijklmnop --corrupt ponmlkjihgfedcba --of diff:a-b \
  --samples 8 --format png,svg --out svg; out_has "patching.svg"
for name in weights dA dS patching; do
  has_file "svg/$name.png"; has_file "svg/$name.svg"
  xml "svg/$name.svg"
done
ok grep -q '<text xmlns="urn:heed:metadata" keyword="Command line">heed study runs/reverse-1 --prompt' svg/dS.svg
ok grep -q '<desc>dL/dS.* Run reverse-1, task reverse' svg/dS.svg
expect 0 study runs/reverse-1 --format svg --out vector --json; is_json_line; out_has 'vector/dS.svg'
has_file vector/dS.svg; ok test ! -e vector/dS.png

# --- a study that leaves out the heads, because they would take more than 30 seconds, also prints this to stderr
for i in $(seq 1000); do echo "line $i: the quick brown fox"; done > long.txt
expect 0 train --text long.txt --layers 12 --heads 32 --d-model 64 --d-head 8 --context 512 --batch 1 --steps 1 \
  --eval-batch 1 --eval-every 0 --eval-train 0 --quiet --out slow
expect 0 study slow --prompt line --json --threads 1; err_has "The effects of the 384 heads were not measured, because this would take"

# --- `heed plot`
header words.safetensors '{"words":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}' 0
printf '\0\0\x80\x3f\0\0\0\x3f\xcd\xcc\x4c\x3e\0\0\x80\x3f' >> words.safetensors  # 1 0.5 0.2 1
expect 0 plot words.safetensors --x-labels the,cat --y-labels die,Katze --title 'Who reads whom'
picture_has words.png "Who reads whom. A matrix of 2 rows and 2 columns" "'Who reads whom'" "0 to 1"
expect 0 plot words.safetensors --out drawn.svg --json; is_json_line; out_has '"files":["drawn.svg"]'
ok grep -q "words.safetensors: words" drawn.svg
expect 0 plot runs/reverse-1 --out loss.svg --json; is_json_line; ok grep -qF "Loss while training: reverse" loss.svg
cp -r runs/reverse-1 runs/lr0.1
for run in runs/lr0.1 runs/lr0.1/ runs/lr0.1/.; do
  expect 0 plot "$run"; has_file runs/lr0.1.png; ok rm runs/lr0.1.png
done
ok rm -r runs/lr0.1
refuses 2 "--name has no effect" plot runs/reverse-1 --name tok.weight
refuses 2 "--out: needs a FILE.png or FILE.svg, got 'drawn.pdf'" plot words.safetensors --out drawn.pdf
printf 'der\nHund\n' > lines; expect 0 plot words.safetensors --x-labels lines --out other.png --json; is_json_line
expect 0 plot cells/arrays.safetensors --name blocks.0.attn.hook_pattern --out weights.png; has_file weights.png
expect 0 plot cells/arrays.safetensors --name blocks.0.attn.hook_q --out q.png  # the tensor has four dimensions
expect 0 plot cells/arrays.safetensors --name 'blocks.0.attn.hook_pattern[0,0]' --out head.png --json; out_has '"panels":1'
for index in 1 -1 x ''; do
  refuses 2 "--name: [0,$index] does not fit shape [1, 1, " plot cells/arrays.safetensors --name "blocks.0.attn.hook_pattern[0,$index]"
done
refuses 2 "choose one, as --name" plot cells/arrays.safetensors
refuses 2 "the nearest is 'blocks.0.attn.hook_z'" plot cells/arrays.safetensors --name blocks.0.attn.hook_zz
refuses 2 "draws a tensor of a FILE.safetensors, got 'runs/reverse-1/metrics.csv'; heed compare draws the curves of runs" \
  plot runs/reverse-1/metrics.csv
header wide.safetensors '{"m":{"dtype":"F32","shape":[1,20000],"data_offsets":[0,80000]}}' 80000
refuses 2 "up to 16384 rows and columns" plot wide.safetensors
header large.safetensors '{"m":{"dtype":"F64","shape":[1,1],"data_offsets":[0,8]}}' 0
printf '\x1d\x4a\x9c\xf4\x87\x82\x07\x48' >> large.safetensors
refuses 2 "1e+39 is out of range for float32" plot large.safetensors

# --- a study goes into a new directory. hostile_test.py tests links, and faults_test.sh kills
has_file runs/reverse-1/study-2/arrays.safetensors
refuses 2 "unknown option --overwrite: it was removed; each result has a new directory" study again --overwrite
mkdir -p target && ln -sfn target link  # a link to an empty directory
expect 0 study runs/reverse-1 --out link; has_file link/dS.png

# --- a study over a run's checkpoints
expect 0 study runs/reverse-1 --over-time; out_has "3 checkpoints on 32 sequences"
out_has "accuracy"
for file in over_time.png report.html; do has_file "runs/reverse-1/over-time/$file"; done
expect 0 study runs/reverse-1 --over-time --json --format svg; is_json_line; out_has '"steps":[0,4,8]'
has_file runs/reverse-1/over-time-3/over_time.svg
refuses 4 "has no checkpoints; train with --save-every" study again --over-time
cp -r runs/reverse-1 cut && truncate -s 1000 cut/checkpoints/000004.safetensors
refuses 4 "cut/checkpoints/000004.safetensors" study cut --over-time
rm cut/model.safetensors; expect 0 study cut  # a copy
refuses 4 "cut has no model.safetensors; it has " study cut --weights model.safetensors; err_has "checkpoints/000008.safetensors, for --weights"
expect 0 study cut --weights checkpoints/000008.safetensors
cp -r cut bare && rm -rf bare/checkpoints bare/best.safetensors
refuses 4 "bare has no best.safetensors; leave out --weights" study bare --weights best.safetensors
expect 0 study bare

end_of_checks
