#!/usr/bin/env bash
# Tests of kills, full disks and closed streams. The last save of a run must stay complete, and a resumed run
# must equal an undisturbed run, bit for bit.
# Usage: nothing_lost_test.sh PATH-TO-HEED [KILLS]
source "$(dirname "$0")/expect.sh" "$1"
kills=${2:-10}
quick=("${tiny[@]}" --quiet --threads 1)

# --- a run is killed (kill -9) at random moments and resumed. At the end, it must equal an undisturbed run
RANDOM=9
recipe=(reverse --layers 1 --heads 2 --d-model 32 --batch 4 --eval-batch 8 --eval-every 7 --save-every 10
  --steps $((40 * kills)) --quiet --threads 1)
expect 0 train "${recipe[@]}" --out undisturbed
killed=0
for ((try = 0; killed < kills && try < 4 * kills; try++)); do
  if [[ -e killed/state.safetensors ]]; then command=(--resume killed --quiet); else command=("${recipe[@]}" --out killed); fi
  what="heed train ${command[*]}, try $try"
  "$heed" train "${command[@]}" > out 2> err &
  pid=$!
  sleep "$(printf '0.%03d' $((RANDOM % 300)))"
  kill -KILL $pid 2> /dev/null
  wait $pid 2> /dev/null
  code=$?
  [[ $code == 137 ]] && killed=$((killed + 1))
  ok test $code == 137 -o $code == 0 -o $code == 2
  [[ $code == 2 ]] && { err_has "has done its"; rm -r killed; }  # the run was complete: start a new one
  for file in killed/*.safetensors killed/checkpoints/*.safetensors; do
    [[ -e $file ]] && expect 0 info "$file"
  done
done
ok test $killed == "$kills"
if [[ -e killed/state.safetensors ]]; then
  "$heed" train --resume killed --quiet > out 2> err || { err_has "has done its"; rm -r killed; }
fi
[[ -e killed ]] || expect 0 train "${recipe[@]}" --out killed
same_run killed undisturbed
ok test -z "$(find killed -name '*.tmp*')"
for file in undisturbed/checkpoints/*; do same "$file" "killed/checkpoints/${file##*/}"; done

# --- a full disk: the exit code is 4, the error states the reason, and the last
# save stays
expect 0 train reverse "${quick[@]}" --steps 6 --out start
full_disk() { # full_disk DIR REASON: checks that resuming the run in DIR fails with REASON
  what="heed train --resume $1 ($2)"
  expect 4 train --resume "$1" --steps 60 --save-every 1 --quiet
  err_has "$2"; err_has "cannot write"
  ok test -z "$(find "$1" -name '*.tmp*')"
  ok test "$(saved_step "$1")" -ge 6
  expect 0 eval "$1" --sequences 4
}
mkdir disk full
if mount -t tmpfs -o size=600k tmpfs disk 2> /dev/null; then
  trap 'umount -l "$dir/disk" "$dir/full" 2> /dev/null; rm -rf "$dir"' EXIT
  cp -r start disk/run
  full_disk disk/run "No space left on device"
  rm -rf disk/run/checkpoints
  mount -o remount,ro disk
  cp -r disk/run kept
  expect 4 train --resume disk/run --quiet; err_has "Read-only file system"
  same_run disk/run kept
  expect 0 eval disk/run --sequences 4
  mount -o remount,rw,size=10M disk
  expect 0 train --resume disk/run --save-every 0 --quiet
  expect 0 train reverse "${quick[@]}" --steps 60 --out unhindered
  for file in model.safetensors metrics.csv; do same unhindered/$file disk/run/$file; done
  # If heed fails before the first save, it removes the run directory, unless the directory existed before.
  mount -t tmpfs -o size=8k tmpfs full
  (cd full && refuses 4 "No space left on device" train "${recipe[@]:0:1}" "${quick[@]}")
  ok test -z "$(ls full/runs)"
  refuses 4 "No space left on device" train reverse "${quick[@]}" --out full/run; ok test ! -e full/run
  mkdir full/mine
  refuses 4 "No space left on device" train reverse "${quick[@]}" --out full/mine; ok test -d full/mine
  umount full
  umount disk
else
  echo "skipped: a full disk, because a tmpfs cannot be mounted; run_folder_test.cpp has a limit of file sizes"
fi
# --- a run directory that is moved or removed, also while the run writes its files, and while another run takes its
# path: exit 4. The other run is not changed
expect 0 train reverse "${quick[@]}" --seed 5 --steps 8 --out second
slow=(train reverse "${tiny[@]}" --steps 1000000 --eval-every 0 --save-every 1 --threads 1)
for try in {1..6}; do
  what="heed train, whose run directory was moved or removed, try $try"
  "$heed" "${slow[@]}" --quiet --out gone > out 2> err &
  pid=$!
  wait_until $pid test -e gone/checkpoints/000003.safetensors
  if ((try % 2)); then while [[ -e gone ]]; do rm -rf gone 2> /dev/null; done
  else kill -STOP $pid; mv gone away; cp -r second gone; kill -CONT $pid; fi
  wait $pid; code=$?
  ok test $code == 4; ok test "$(wc -l < err)" == 1
  if ((try % 2)); then err_has "gone"; ok test ! -e gone; continue; fi
  err_has "gone: was moved or removed during training; continue a moved run from its new path with --resume"
  ok diff -r gone second; expect 0 eval away --sequences 4; rm -r gone away
done
# The directory is removed during the final evaluation, and the run is stopped then.
what="heed train, whose run directory was removed during its final evaluation"
code=0
while [[ $code == 0 ]]; do  # if the run ended before the signal arrived, it is repeated
  rm -rf last
  "$heed" train reverse --layers 2 --heads 4 --d-model 96 --batch 1 --eval-batch 4 --steps 4 --quiet --threads 1 --out last > out 2> err &
  pid=$!
  wait_until $pid grep -qs '^4,.*,.*,.*,.*,' last/metrics.csv
  kill -STOP $pid; rm -r last; kill -INT $pid; kill -CONT $pid
  wait $pid; code=$?
done
ok test $code == 4; err_has "last: was moved or removed during training"

# --- a run is saved at least once a minute (tested only if KILLS is at least 200, because this takes 75 s)
if ((kills >= 200)); then
  "$heed" train reverse "${tiny[@]}" --steps 100000000 --eval-every 0 --quiet --out minute > out 2> err &
  pid=$!
  sleep 75
  kill -KILL $pid
  wait $pid 2> /dev/null
  what="heed train, killed after 75 s"; ok test "$(saved_step minute)" -gt 0
fi

# --- stdout or stderr has no reader: training continues. If results cannot be written, the exit code is 4
expect 0 train reverse "${quick[@]}" --steps 8 --out whole-8
# check_run NAME CODE: checks that $code is CODE, and that the run NAME equals the run whole-8
check_run() {
  what="heed train, $1"
  ok test "$code" == "$2"
  same_run "$1" whole-8
}
not_quiet=(train reverse "${tiny[@]}" --steps 8 --threads 1)
"$heed" "${not_quiet[@]}" --out full-stderr > out 2> /dev/full; code=$?; : > err; check_run full-stderr 0; out_has "best possible"
"$heed" "${not_quiet[@]}" --out no-stderr > out 2>&-; code=$?; check_run no-stderr 0; out_has "best possible"
"$heed" "${not_quiet[@]}" --out head 2>&1 | head -n 1 > out; code=${PIPESTATUS[0]}; check_run head 4
{ "$heed" "${not_quiet[@]}" --out no-reader 2> err; echo $? > code; } | true; code=$(cat code); check_run no-reader 4
"$heed" "${not_quiet[@]}" --out full-stdout > /dev/full 2> err; code=$?; check_run full-stdout 4; err_has "cannot write the results"
"$heed" "${not_quiet[@]}" --out no-stdout >&- 2> err; code=$?; check_run no-stdout 4; err_has "cannot write the results"
"$heed" "${not_quiet[@]}" --out nothing >&- 2>&- <&-; code=$?; check_run nothing 4
for run in full-stderr no-stderr; do refuses 2 "has done its 8 steps" train --resume $run; done
"$heed" train --help 2> err | head -n 1 > out; what="heed train --help | head -1"; ok test ! -s err

# --- weights with NaN or infinity do not replace the last save
expect 0 train reverse "${quick[@]}" --lr 10 --weight-decay 10 --warmup 0 --clip 0 --steps 1 --eval-every 0 --out wild
expect 3 train --resume wild --steps 400 --quiet; err_has "wild contains the save of step"
expect 0 eval wild --sequences 4
step=$(saved_step wild)
ok test "$step" -gt 0
expect 3 train --resume wild --quiet; err_has "wild contains the save of step $step"
ok test "$(saved_step wild)" == "$step"

end_of_checks
