#!/usr/bin/env bash
# Tests of `heed train` with 1, 2 and 4 processes that OpenMPI starts. The results must equal those of one
# process, bit for bit, even after a stop, a kill or a resume.
# Usage: mpi_test.sh PATH-TO-HEED [KILLS]
source "$(dirname "$0")/expect.sh" "$1"
kills=${2:-3}
if ! command -v mpirun > /dev/null || [[ ! -e $(dirname "$heed")/libheed_mpi.so ]]; then
  echo "skipped: no mpirun here, or heed was built without MPI (tools/setup --mpi)"
  exit
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# ranks N CODE ARGUMENTS...: runs heed as N processes, and checks that the exit code is CODE. Stores stdout in
# ./out and stderr in ./err
ranks() {
  local n=$1 code=$2 got
  shift 2
  what="mpirun -n $n heed $*"
  timeout 300 mpirun --oversubscribe -n "$n" "$heed" "$@" > out 2> err < /dev/null
  got=$?
  checks=$((checks + 1))
  [[ $got == "$code" ]] || fail "$what: exit code $got, expected $code"
}
one_message() { ok test "$(grep -c '^heed: ' err)" == 1; err_has "$1"; ok test ! -s out; }
recipe=(reverse --layers 1 --heads 2 --d-model 32 --batch 8 --shards 4 --dropout 0.1 --eval-batch 8
  --eval-every 7 --schedule constant)

# --- heed does not need MPI to run as one process
what="ldd heed"
ldd "$heed" > out; ok test "$(grep -ci mpi out)" == 0
mkdir hidden && cp "$heed" hidden/
for command in "train ${recipe[*]} --steps 4 --out hidden/run" "train --resume hidden/run --steps 5"; do
  # shellcheck disable=SC2086
  hidden/heed $command --quiet > out 2> err; ok test $? == 0
done
heed=$dir/hidden/heed ranks 2 2 train "${recipe[@]}" --out none; one_message "tools/setup --mpi"

# --- runs of 1, 2 and 4 processes have equal bits; a run of 2 processes is resumed by 4 processes, then by 1
expect 0 train "${recipe[@]}" --steps 40 --quiet --out plain
for n in 1 2 4; do
  ranks $n 0 train "${recipe[@]}" --steps 40 --out "of-$n"; same_run "of-$n" plain
  out_has "reverse: 40 steps"; ok test "$(grep -c 'reverse: 40 steps' out)" == 1
  ((n == 1)) || err_has "$n processes, each computes $((4 / n)) of the 4 shards"
done
threads=$(($(nproc) / 4)); err_has "$((threads > 0 ? threads : 1)) thread"
ranks 2 0 train "${recipe[@]}" --steps 17 --threads 2 --out longer; err_has "2 threads"
ranks 4 0 train --resume longer --steps 30
expect 0 train --resume longer --steps 40 --quiet; same_run longer plain
ranks 2 0 train "${recipe[@]}" --steps 4 --json; is_json_line; out_has '"ranks":2'
expect 0 train "${recipe[@]}" --steps 4 --json --quiet; out_has '"ranks":1'

# --- if training ends early, all processes end after the same step
early=(--steps 4000 --target-loss 2.75)
expect 0 train "${recipe[@]}" "${early[@]}" --quiet --out early
ranks 4 0 train "${recipe[@]}" "${early[@]}" --quiet --out early-4; same_run early-4 early; out_has "target-loss: the eval_loss"
ranks 2 2 train --resume early-4; one_message "ended early"

# --- usage errors: the exit code is 2, and only one process prints the error
ranks 3 2 train "${recipe[@]}" --out none; one_message "3 processes cannot share the shards of a batch"
ranks 8 2 train "${recipe[@]}" --out none; one_message "8 processes cannot share 4 shards"
ranks 2 2 train reverse --shards 1 --out none; one_message "2 processes cannot share 1 shard;"
ranks 2 2 eval plain; one_message "is for one process"
ranks 2 2 train "${recipe[@]}" --print-config; one_message "train --print-config is for one process"
ranks 2 2 train reverse --lr x; one_message "--lr needs a number"
ranks 2 2 train "${recipe[@]}" --out plain; one_message "holds a run already"
ranks 2 2 train --resume plain; one_message "has done its 40 steps"
ranks 8 2 train --resume plain --steps 44; one_message "8 processes cannot share"
ranks 2 4 train --resume nowhere; one_message "found no run or file"
ok test ! -e none
# unlike TEXT ONE OTHER: starts a process with the command ONE and a process with the command OTHER. Both
# commands run heed with different environments or arguments, and the error must contain TEXT
unlike() {
  what="mpirun, $2 beside $3"
  # The form `mpirun ... : ...` is not used, because OpenMPI 5.0.7 crashes on it.
  # shellcheck disable=SC2016
  timeout 60 mpirun --oversubscribe -n 2 bash -c \
    'if ((OMPI_COMM_WORLD_RANK == 0)); then exec env $1; else exec env $2; fi' unlike "$2" "$3" > out 2> err < /dev/null
  ok test $? == 2; one_message "$1"
}
unlike "have different SIMD targets or different builds" "$heed train ${recipe[*]} --out none" "HEED_SIMD=scalar $heed train ${recipe[*]} --out none"
printf 'to be or not to be %s\n' {1..300} > a.txt; tr e i < a.txt > b.txt
ok test ! -e none
text=(--layers 1 --heads 1 --d-model 16 --batch 4 --shards 2 --context 8)
unlike "the processes have different runs" "$heed train --text a.txt ${text[*]} --out texts" "$heed train --text b.txt ${text[*]} --out texts"

# --- a NaN ends all processes at the same step, with the error message of a run with one process
wild=(reverse --layers 1 --heads 2 --d-model 32 --batch 8 --shards 4 --lr 10 --weight-decay 10 --warmup 0
  --clip 0 --steps 400 --eval-every 0 --quiet)
expect 3 train "${wild[@]}" --out wild; sed 's/wild/RUN/g' err > message
ranks 4 3 train "${wild[@]}" --out wild-4; grep '^heed: ' err | sed 's/wild-4/RUN/g' > message-4
same message message-4; ok test "$(saved_step wild)" == "$(saved_step wild-4)"

# --- an error of rank 0 ends all processes
timeout 60 mpirun --oversubscribe -n 2 "$heed" train "${recipe[@]}" --steps 1000000 --save-every 20 --quiet --out gone > out 2> err &
pid=$!
for _ in $(seq 500); do [[ -e gone/checkpoints/000020.safetensors ]] && break; sleep 0.05; done
while [[ -e gone ]]; do rm -rf gone 2> /dev/null; done; wait $pid; code=$?
what="mpirun, whose run was removed"; ok test $code == 4; err_has "gone"

# --- SIGTERM to mpirun or to any rank stops all processes after a step, and the run is saved
expect 0 train "${recipe[@]}" --steps 12000 --quiet --out long
export OMPI_MCA_odls_base_sigkill_timeout=2  # mpirun sends TERM after 2 s, and KILL after 2 s more
for at in mpirun 0 1; do
  what="mpirun -n 2 heed train, TERM at $at"
  mpirun --oversubscribe -n 2 "$heed" train "${recipe[@]}" --steps 12000 --quiet --out "term-$at" > out 2> err < /dev/null &
  pid=$!
  for _ in $(seq 500); do [[ $(wc -l 2> /dev/null < "term-$at/metrics.csv") -gt 20 ]] && break; sleep 0.05; done
  if [[ $at == mpirun ]]; then kill -TERM $pid; else kill -TERM "$(pgrep -P $pid | sed -n $((at + 1))p)"; fi
  wait $pid; code=$?
  ok test $code != 0
  [[ $at == mpirun ]] || err_has "stopped after step"  # after a TERM, OpenMPI 5 drops the output
  step=$(saved_step "term-$at"); ok test "$step" -gt 0 -a "$step" -lt 12000
  # The columns of evaluations are not compared. If the stop interrupts an evaluation, only a resume repeats it.
  cut -d, -f1-4,8 long/metrics.csv | head -n $((step + 2)) > beginning
  cut -d, -f1-4,8 "term-$at/metrics.csv" > ended; same beginning ended
done
unset OMPI_MCA_odls_base_sigkill_timeout

# --- a rank is killed (kill -9) at random moments, and the run is resumed with a random number of ranks. At the
# end, the run must equal a run without kills, bit for bit
RANDOM=${SEED:-12}
steps=$((300 * kills + 1500))
expect 0 train "${recipe[@]}" --steps $steps --quiet --out undisturbed
killed=0
for ((try = 0; killed < kills && try < 4 * kills; try++)); do
  if [[ -e killed/state.safetensors ]]; then command=(--resume killed); else command=("${recipe[@]}" --save-every 100 --steps $steps --out killed); fi
  n=$((2 << (RANDOM % 2)))
  what="mpirun -n $n heed train ${command[*]}, try $try"
  mpirun --oversubscribe -n $n "$heed" train "${command[@]}" --quiet > out 2> err < /dev/null &
  pid=$!
  sleep "$((RANDOM % 2)).$((RANDOM % 900 + 100))"
  victim=$(pgrep -P $pid | sed -n $((RANDOM % n + 1))p)
  [[ -n $victim ]] && kill -KILL "$victim" 2> /dev/null && killed=$((killed + 1))
  wait $pid 2> /dev/null
  grep -q "has done its" err && rm -r killed  # the run was complete: start a new one
  for file in killed/*.safetensors killed/checkpoints/*.safetensors; do
    [[ -e $file ]] && expect 0 info "$file"
  done
done
ok test $killed == "$kills"
if [[ -e killed/state.safetensors ]]; then
  expect 0 info killed
  timeout 300 mpirun --oversubscribe -n 4 "$heed" train --resume killed --quiet > out 2> err < /dev/null || err_has "has done its"
else
  ranks 4 0 train "${recipe[@]}" --steps $steps --out killed --quiet
fi
same_run killed undisturbed; ok test -z "$(find killed -name '*.tmp*')"

end_of_checks
