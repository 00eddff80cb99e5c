#!/usr/bin/env bash
# Tests the command line: exit codes, texts, streams and files. Usage: cli_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"

# --- help and version
expect 0; out_has "heed train"; out_has "heed generate"; out_has "heed gradcheck"
expect 0 --help; out_has "Exit codes"
cp out help; expect 0 help; same out help
expect 0 train --help; cp out help
for words in "help train" "--help train" "train -h" "train --steps 3 --help"; do
  expect 0 $words; same out help
done
expect 0 train --help all; cp out help; out_has "--layers N"; expect 0 help train all; same out help
expect 0 train --help=all; same out help
expect 0 --version; out_has "threads"
expect 0 gradcheck --help; out_has "Usage: heed gradcheck [OPTIONS] [OP...]"
expect 0 tasks; out_has "induction"; out_has "0.951870"; out_has "about 2 s on 2 cores"
expect 0 tasks dyck; out_has "1.234668"; out_has "--task-depth N"; out_has "arXiv 2010.07515"; out_has "counted  "
expect 0 tasks dyck --json; is_json_line; out_has '"option":"--task-types","default":"4"'
expect 0 tasks micro; out_has "heed train --preset micro --text FILE"; out_has "d-model       32"; out_has "schedule      cosine"
expect 0 tasks modadd-paper --json; is_json_line; out_has '{"key":"task-modulus","value":"113"}'
expect 0 tasks --json; is_json_line; out_has '"expected_seconds":2'

# --- commands that need a run fail if no run exists
refuses 4 "heed train creates one" eval
refuses 4 "heed train creates one" generate

# --- unknown names: the error states the nearest name, or heed's name of an option of another program
expect 0 train --task markov --print-config; out_has 'task = "markov"'; ok grep -Eq '^# [0-9,]+ parameters, [0-9.]+ k FLOP per token, at least [0-9.]+ kB of memory$' out

# --- invalid numbers and unavailable values
HEED_SIMD=avx9 refuses 2 "'avx9' is not available on this machine; choose one of " info
HEED_SIMD=scalar expect 0 --version; out_has "SIMD target SCALAR"

# --- missing values; options_test.cpp tests invalid values of every option in the form --OPTION=VALUE
for command in eval generate info; do refuses 2 "run needs a value" $command ""; done

# --- missing, invalid and empty files, and other errors of usage
printf 'caf\xe9 au lait' > latin1.txt
refuses 4 "byte 3" train --text latin1.txt
mkdir full && touch full/precious
refuses 2 "is not a run directory" train --out full --overwrite
for words in bench "bench train --help"; do refuses 2 "heed bench is the program heed-bench" $words; done

# --- config files
while IFS='|' read -r content text; do
  printf '%b' "$content" > bad.toml
  refuses 2 "$text" train --config bad.toml
done <<'BAD'
steps = 3\n|put it under [train]
[trian]\nsteps = 3\n|the nearest is [train]
[generate]\nlr = 3\n|unknown section [generate]; the nearest is
BAD
printf '[train]\ntask = "reverse"\nsteps = 7\nwarmup = 0\nlr = 0.5\nmlp = false\n' > good.toml
expect 0 train --config good.toml --lr 0.25 --print-config
out_has 'steps = 7'; out_has 'lr = 0.25'
checks=$((checks + 1)); [[ ! -e runs ]] || fail "--print-config created runs/"

# --- a run: its output and its files
expect 0 train reverse "${tiny[@]}" --steps 8 --save-every 4
out_has "runs/reverse-1"; out_has "best possible"; err_has "step    4/8"
for file in config.toml model.safetensors best.safetensors state.safetensors metrics.csv loss.png \
            attention.png checkpoints/000000.safetensors checkpoints/000004.safetensors \
            checkpoints/000008.safetensors; do
  has_file "runs/reverse-1/$file"
done
ok test -z "$(find runs -name '*tmp*')"
expect 0 train reverse "${tiny[@]}" --steps 8 --quiet --json --threads 1
is_json_line
out_has "runs/reverse-2"
checks=$((checks + 1)); [[ ! -s err ]] || fail "--quiet is not quiet"

# --- a directory that contains only config.toml is not a run directory
mkdir -p runs/unsaved && cp runs/reverse-1/config.toml runs/unsaved
refuses 4 "'runs/unsaved' is not a run directory (no state.safetensors, and no config.toml with model.safetensors)" train --resume runs/unsaved
refuses 2 "runs/unsaved is not empty and is not a run directory" train reverse --out runs/unsaved
expect 0 info; out_has "runs/reverse-"
rm -r runs/unsaved

# --- a directory with weights and a configuration
cp -r runs/reverse-1 weights; rm weights/{state,best}.safetensors
for command in "eval weights --sequences 4" "generate weights --prompt abcdefghijklmnop --tokens 2" "info weights" \
  "export weights --names transformerlens --out exported.safetensors" \
  "train --from weights --steps 1 --quiet --out from-weights" "study weights --samples 5 --out new/study"; do
  # shellcheck disable=SC2086
  expect 0 $command; ok test ! -s err -o "$(grep -c checksum err)" == 0
done
expect 0 eval weights --sequences 4; out_has "model.safetensors, step 8"; expect 0 eval runs/reverse-1; out_has "state.safetensors, step 8"
expect 0 info . --json; out_has '"run":"./weights","task":"reverse","step":8,"steps":null,"loss":null'
expect 0 train reverse "${tiny[@]}" --scale none --steps 2 --quiet --out other
expect 0 compare other weights --out new/compare; ok grep -q "^0  *-  *-  *-  *-  " out
refuses 4 "weights: holds only weights, without a history or a state" train --resume weights
refuses 2 "holds a run already; replace it with --overwrite" train reverse --out weights
rm -r weights from-weights other exported.safetensors

# faults_test.sh and out_folder_test.sh test the files that a kill leaves.
mkdir -p mine2/checkpoints && touch mine2/checkpoints/000000.safetensors
refuses 2 "is not a run directory" train reverse --out mine2

# --- the configuration that results from options, file and preset
expect 0 train markov --preset micro --lr 0.25 --config good.toml --print-config
for line in 'task = "markov"' 'steps = 7' 'lr = 0.25' 'mlp = false' 'beta2 = 0.95'; do out_has "$line"; done
expect 0 train reverse "${tiny[@]}" --steps 8 --save-every 4 --print-config
cp out printed.toml
expect 0 train --config printed.toml --out printed --quiet
same runs/reverse-1/model.safetensors printed/model.safetensors
same runs/reverse-1/metrics.csv printed/metrics.csv

# --- a run has the same bits with any number of threads. mpi_test.sh tests this for any number of processes
several=(train induction --steps 4 --eval-every 2 --eval-batch 16 --mlp --dropout 0.1 --quiet)
for s in 1 4; do  # in 4 shards, threads compute whole shards
  for n in 1 2 3 8; do expect 0 "${several[@]}" --shards $s --threads $n --out "threads-$s-$n"; same_run "threads-$s-$n" "threads-$s-1"; done
done
expect 0 "${several[@]}" --shards 4 --accumulate 2 --out turns; same turns/model.safetensors threads-4-1/model.safetensors

# --- if training ends early, the output states the reason. The loss starts at 0.7 and is below 0.66 after some steps
expect 0 train markov "${tiny[@]}" --steps 400 --target-loss 0.66 --lr 0.01 --out early --json
is_json_line; out_has '"stopped":"target-loss: the eval_loss 0.'
refuses 2 "--resume early --target-loss 0" train --resume early
expect 0 train --resume early --target-loss 0 --quiet; out_has "markov: 400 steps, the last "
expect 0 train reverse "${tiny[@]}" --steps 400 --lr 3 --clip 0 --patience 2 --out early2 --quiet
out_has "stopped   patience: 2 evaluations without a loss below "; out_has ", that of step "
expect 0 train reverse "${tiny[@]}" --steps 4 --accumulate 2 --optimizer sgd --momentum 0.9 \
  --schedule wsd --decay-steps 2 --dropout 0.1 --out options --quiet
ok test "$(wc -l < options/metrics.csv)" == 6  # a header and a row for each step

# --- if a picture cannot be drawn, the result is printed anyway
expect 0 train reverse "${tiny[@]}" --heads 1024 --d-head 1 --context 2 --positions none --steps 1 --out wide
out_has "best possible"; err_has "warning: no attention.png"; has_file wide/loss.png

# --- resume
refuses 2 "task has no effect with --resume" train reverse --resume runs/reverse-1

expect 0 train --resume runs/reverse-2 --steps 17
err_has "reverse: resuming at step 8 of 17 in runs/reverse-2; Ctrl-C"

# --- Ctrl-C and a closed terminal. nothing_lost_test.sh kills runs
# train_into DIR: starts a long training in the background, and returns after its first save and its first step
train_into() {
  "$heed" train reverse "${tiny[@]}" --steps 1000000 --eval-every 0 --out "$1" > "$1.out" 2> "${stderr-$1.err}" &
  pid=$!
  what="heed train --out $1"
  wait_until $pid has_lines 2 "$1/metrics.csv"
}
ends_with() {
  wait $pid
  local got=$?
  checks=$((checks + 1)); [[ $got == "$1" ]] || fail "$what: exit code $got, expected $1"
}
train_into stopped
kill -INT $pid
what="heed train, Ctrl-C"
ends_with 130
cp stopped.err err; err_has "heed train --resume stopped"
refuses 2 "--steps 1 is less than the 1000000 steps of" train --resume stopped --steps 1
err_has "heed train --resume stopped"
has_file stopped/model.safetensors
expect 0 eval stopped --sequences 8
stderr=/dev/full train_into hung  # writing to stderr fails, as after the terminal was closed
for _ in $(seq 2000); do kill -HUP $pid 2> /dev/null || break; done
ends_with 130
ok test "$(saved_step hung)" != 0  # on SIGHUP, heed saves the run
trap '' HUP; train_into nohup; trap - HUP
kill -HUP $pid; wait_until $pid has_lines $(($(wc -l < nohup/metrics.csv) + 20)) nohup/metrics.csv
checks=$((checks + 1)); kill -TERM $pid 2> /dev/null || fail "$what: SIGHUP ends it under nohup"
ends_with 130
cp nohup.err err; err_has "heed train --resume nohup"

# --- eval, generate, info
expect 0 eval runs/reverse-1 --sequences 64; out_has "best possible"; out_has "loss by position"
expect 0 eval runs/reverse-1 --sequences 64 --weights best.safetensors --json; is_json_line
step=$("$heed" info runs/reverse-1/best.safetensors | sed -n 's/^ *step  *//p')
out_has "\"steps\":$step,"
expect 0 eval runs/reverse-1 --sequences 8 --weights checkpoints/000004.safetensors --json
out_has '"steps":4,'
refuses 4 "is not a run directory" eval full
expect 0 generate runs/reverse-1 --prompt abcdefghijklmnop --greedy --tokens 4; mv out first
out_check=$(head -c 17 first)
checks=$((checks + 1)); [[ $out_check == "abcdefghijklmnop|" ]] || { mv first out; fail "$what: prompt"; }
err_has "tokens/s"
expect 0 generate runs/reverse-1 --prompt abcdefghijklmnop --seed 5 --top-k 3 --threads 1; mv out first
refuses 2 "leave out --top-k" generate runs/reverse-1 --greedy --top-k 3
expect 0 generate runs/reverse-1 --prompt abcdefghijklmnop --seed 5 --top-k 3 --samples 3
out_has "--- sample 1 of 3"; out_has "--- sample 3 of 3"; err_has "3 samples"
# Sample 1 equals the text that `heed generate` prints without --samples.
sed -n 2p out > second_line; mv second_line out; same out first
expect 0 generate runs/reverse-1 --prompt abcdefghijklmnop --samples 2 --json; is_json_line
out_has '"samples":[{"text":'
refuses 2 "all samples would be equal" generate runs/reverse-1 --greedy --samples 2
expect 0 info runs/reverse-1; out_has "blocks.0.qkv.weight"; out_has "FLOP per token"
expect 0 info runs/reverse-1/model.safetensors; out_has "tok.weight"; out_has "float32"
expect 0 info runs/reverse-1 --json; is_json_line
out_has '"config":{"task":"reverse",'; out_has '"saved_step":8,"result":{"steps":8,'; out_has '"vocabulary":["a","b",'; out_has '"ids":null'
expect 0 info runs/reverse-1 --prompt abcdefghijklmnop --json; out_has '"ids":[0,1,2,3,'
refuses 2 "--prompt has no effect" info runs/reverse-1/model.safetensors --prompt ab

# --- a run that trains on a text
for i in $(seq 60); do echo "line $i: the quick brown fox, naïve café"; done > text.txt
expect 0 train --text text.txt "${tiny[@]}" --context 16 --steps 4 --out text-run --quiet
out_has "characters right"
expect 0 generate text-run --prompt "naïve" --tokens 20; out_has "naïve"
expect 0 study text-run --prompt "naï" --of "diff:ï-n"; out_has "diff:ï-n"  # --prompt does not need the text file
mkdir -p 'a #"\b'
cp text.txt 'a #"\b/text.txt'
expect 0 train --text 'a #"\b/text.txt' "${tiny[@]}" --context 16 --steps 4 --out odd-path --quiet
expect 0 eval odd-path --sequences 4
expect 0 train --config odd-path/config.toml --out odd-again --quiet
same odd-path/model.safetensors odd-again/model.safetensors
expect 0 eval text-run; out_has "2-gram"
# --- heed train --from: the text of the source is the default. source_test.cpp tests the weights
expect 0 train --from text-run --steps 2 --quiet --out tuned
expect 0 info tuned --json; out_has 'text-run/state.safetensors"'
expect 0 train --config tuned/config.toml --out tuned-again --quiet; same tuned/model.safetensors tuned-again/model.safetensors
expect 0 train --config tuned/config.toml --from tuned --steps 1 --quiet --out third; ok grep -q "step 2" third/config.toml
refuses 2 "is inside --out" train --from text-run --out text-run --overwrite
mv text.txt moved.txt  # resume_test.sh tests --resume with a moved text
expect 0 info text-run; out_has "tok.weight"
mv moved.txt text.txt

# --- a resume warns of a config.toml that differs from the state
cp -r runs/reverse-1 damaged; echo "# mine" >> damaged/config.toml
expect 0 train --resume damaged --steps 9 --quiet; err_has "warning: damaged/config.toml: differs from state.safetensors; it is ignored"
rm -r damaged

# --- heed export, which writes weights with the names of other libraries
expect 0 train recall "${tiny[@]}" --steps 1 --positions learned --mlp --mlp-act gelu-tanh --bias --tied --out gpt2 --quiet
expect 0 export gpt2 --names gpt2 --out gpt2.safetensors --json; is_json_line
out_has '{"run":"gpt2","names":"gpt2","tensors":17,"numbers":'; out_has '"files":["gpt2.safetensors"]}'
expect 0 info gpt2.safetensors; out_has "transformer.h.0.attn.c_attn.weight  float32  [16, 48]"
expect 0 export gpt2 --names torch --out torch.safetensors; out_has "names and layouts of torch"
expect 0 info torch.safetensors; out_has "blocks.0.attn.in_proj_weight"
refuses 2 "--mlp-act of the model is gelu-tanh, but nanogpt has gelu; choose" export gpt2 --names nanogpt --out n.safetensors
ok test ! -e n.safetensors
refuses 2 "heed export needs --names NAME" export gpt2
mkdir gpt2/checkpoints
for inside in model.safetensors checkpoints/000001.safetensors; do
  refuses 2 "--out gpt2/$inside is inside the run directory" export gpt2 --names gpt2 --out gpt2/$inside
done
refuses 2 "--out needs a file whose name ends in .safetensors, got 'notes.txt'" export gpt2 --names gpt2 --out notes.txt
expect 0 export gpt2 --names gpt2 --out best.safetensors --weights best.safetensors
refuses 4 "gpt2 has no absent.safetensors; it has model.safetensors and best.safetensors" export gpt2 --names gpt2 --out n.safetensors --weights absent.safetensors
refuses 4 "cannot write" export gpt2 --names gpt2 --out absent/gpt2.safetensors
# --- heed import, the way back, and heed train --from an exported file
expect 0 train recall "${tiny[@]}" --steps 1 --positions learned --mlp --bias --tied --out nano --quiet
for pair in "gpt2 gpt2" "nano nanogpt" "runs/reverse-1 torch" "runs/reverse-1 transformerlens"; do
  read -r run names <<< "$pair"
  expect 0 export "$run" --names "$names" --out x.safetensors
  expect 0 import x.safetensors --out imported --overwrite; ok test ! -s err; out_has "layouts of $names"
  same <(grep -v '^#' "$run/config.toml" | grep .) imported/config.toml
  ok test "$(weights_of "$run")" == "$(weights_of imported)"
  expect 0 eval "$run"; grep -v model out > first
  expect 0 eval imported; ok test "$(grep 'nats per token' -A 4 first)" == "$(grep 'nats per token' -A 4 out)"
done
expect 0 train --from gpt2.safetensors --steps 1 --quiet --out from-gpt2
printf '[train]\nd-model = 8\n' > narrow.toml
refuses 4 "its tensors show d-model 16, but the configuration has 8" import gpt2.safetensors --config narrow.toml --out never
refuses 2 "--out imported holds a run already; replace it with --overwrite" import gpt2.safetensors --out imported
refuses 2 "python -m heed.torch ckpt.pt" import text.txt --out never
refuses 4 "the token embedding has shape [17, 16], but the task recall has" import runs/reverse-1/model.safetensors --like gpt2 --out never
ok test ! -e never
# Weights with a NaN, as another program may write them, without a checksum, are an error of each command that computes
# with them. source_test.cpp tests train --from
cp gpt2/model.safetensors gpt2/nan.safetensors; without_checksum gpt2/nan.safetensors
printf '\x00\x00\xc0\x7f' | dd of=gpt2/nan.safetensors bs=1 seek=$(($(stat -c %s gpt2/nan.safetensors) - 4)) conv=notrunc status=none
nan=(--weights nan.safetensors)
expect 3 gradcheck --run gpt2 "${nan[@]}"; err_has "ln.bias is nan at [15] in nan.safetensors"
expect 3 export gpt2 --names gpt2 --out n.safetensors "${nan[@]}"
err_has "transformer.ln_f.bias is nan at [15] in nan.safetensors"; ok test ! -e n.safetensors
expect 3 eval gpt2 "${nan[@]}"; err_has "float32 is nan at [0, "
rm -r gpt2 gpt2.safetensors torch.safetensors

# --- heed info DIR lists the runs in a directory
mkdir -p runs/broken runs/notes && head -c 100 runs/reverse-1/state.safetensors > runs/broken/state.safetensors
expect 0 info runs; ok grep -q "^reverse  *8  *8 .* runs/reverse-1$" out; out_has "runs/broken cannot be read: "
ok test "$(grep -c runs/notes out)" = 0
cp -r runs/reverse-1 runs/odd; edit_state runs/odd eval_tokens eval_tokenz
expect 0 info runs/odd; err_has "runs/odd/state.safetensors: its result lacks the key"; out_has "step 8 of 8"; rm -r runs/odd
cp -r runs/reverse-1 runs/stopped; unfinish runs/stopped
expect 0 info runs --json; is_json_line; out_has '"run":"runs/stopped","task":"reverse","step":8,"steps":8,"loss":null,"above_optimum":null,"eval_loss":'
rm runs/stopped/metrics.csv; mkdir runs/stopped/metrics.csv  # the state has the history, too, so the run can be read
expect 0 info runs; ok test "$(grep -c "cannot be read" out)" == 1
refuses 4 "found no run or file 'absent'; heed info DIR lists the runs in DIR" info absent
refuses 4 "'runs/notes' is not a run directory and contains no run" info runs/notes
refuses 2 "--prompt has no effect with" info runs --prompt a
rm -r runs/broken runs/notes runs/stopped

# --- help works even if HEED_SIMD is invalid
HEED_SIMD=abacus expect 0 --help; out_has "Exit codes"
HEED_SIMD=abacus expect 0; out_has "heed generate"

# --- numeric errors. The norm of a vector with one element is constant, so no gradient passes through it.
# 16 layers without norms overflow float32 after a step with lr 10, for any input and any initial weights.
# nothing_lost_test.sh tests a step that is not finite.
refuses 3 "blocks.0.ln1.weight" train --text text.txt "${tiny[@]}" --d-model 1 --context 8 \
  --strict --steps 4 --out severed --quiet
diverges=(--text text.txt --layers 16 --heads 1 --d-model 16 --mlp --context 8 --norm none --clip 0
  --lr 10 --weight-decay 0 --warmup 0 --dtype float32 --quiet)
expect 3 train "${diverges[@]}" --steps 1 --eval-every 0 --out diverged-1  # the only evaluation is at the end
err_has "the evaluation after step 1 is"; err_has "not finite: blocks."; err_has "diverged-1 contains the save of step 0"
has_file diverged-1/state.safetensors
expect 0 generate diverged-1 --tokens 3 --greedy

# --- heed gradcheck
expect 0 gradcheck softmax matmul; out_has "softmax"; out_has "matmul"; out_has "0 failed"
# --- gradcheck --run checks a run in float64, and prints the error of float32 with the same weights
for dtype in float32 float64; do
  expect 0 train copy "${tiny[@]}" --steps 2 --dtype $dtype --out checked-$dtype --quiet
  expect 0 gradcheck --run checked-$dtype --order 1 --json; is_json_line
  out_has '"failed":0'; out_has '"name":"tok.weight"'
  if [[ $dtype == float64 ]]; then out_has '"float32":null'; fi
done
expect 0 gradcheck --run checked-float32 --order 1
out_has " tensors failed"; out_has "in float32 on "; out_has "errors up to 0."

end_of_checks
