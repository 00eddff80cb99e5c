#!/usr/bin/env bash
# Tests that a kill does not lose a result. heed train, study and compare replace an earlier result, and are
# killed (SIGKILL) just before a call that changes the file system. The test repeats this for every EVERYth
# such call. After the kill and the next command, the output directory must contain all files of the user, and
# either the complete old result or the complete new result. The output directory is a plain directory, a
# mount point, the current directory, a symbolic link, or a directory whose parent is not writable (KINDS).
# Usage: [KINDS="plain link"] kills_test.sh PATH-TO-HEED PATH-TO-failing_calls.so [EVERY]
[[ -w /dev/shm ]] && export TMPDIR=/dev/shm  # fsync is fast there
calls_library=$(readlink -f "$2")
source "$(dirname "$0")/expect.sh" "$1"
cp "$heed" heed; cp "$calls_library" failing_calls.so; heed=$dir/heed  # another user can read the copies
chmod -R a+rX "$dir"
every=${3:-1}
other_user=65534
kills=0
trap 'umount "$dir/mount/DIR" 2> /dev/null; rm -rf "$dir"' EXIT

# --- the commands that write the old and the new result of each test, without --out
learn=(train reverse "${tiny[@]}" --steps 4 --quiet --threads 1)
expect 0 "${learn[@]}" --save-every 2 --out a
expect 0 "${learn[@]}" --scale none --save-every 2 --out b
none=()
train_old=("${learn[@]}" --save-every 2)
train_new=("${learn[@]}" --seed 2 --save-every 4)
study_old=(study "$dir/a" --head L0H0 --export csv --threads 1)
study_new=(study "$dir/a" --prompt abcdefghijklmnop --of logit:a --threads 1)
compare_old=(compare "$dir/a" "$dir/b" --of previous_token --target 0.5 --against scale)
compare_new=(compare "$dir/a" "$dir/b")

# run ARGUMENTS...: runs heed in the directory $from, as the user that this kind of output directory needs
run() { (cd "$from" && "${as[@]}" "$heed" "$@" > "$dir/out" 2> "$dir/err" < /dev/null); }
# Prints the checksums of all files in $place, without heed's own directories and the names in $skip, and result.json
# without the time.
contents() {
  (cd "$place" 2> /dev/null && find . \( -path ./.staging -o -path ./.publish \) -prune -o ! -type d \
    ! -name "${skip[0]}" ! -name "${skip[1]}" ! -name result.json -print0 | sort -z | xargs -0r md5sum
    [[ ! -e result.json ]] || sed 's/"seconds":[^,]*/"seconds":null/' result.json)
}
# restore FOLDER: makes $place a copy of FOLDER. If FOLDER is "nothing", it empties or removes $place
restore() {
  if [[ $kind == plain ]]; then rm -rf "$place"; [[ $1 == nothing ]] && return; mkdir "$place"; fi
  find "$place/" -mindepth 1 -delete
  [[ $1 == nothing ]] || cp -r "$1/." "$place"
  if [[ $kind == readonly ]]; then chown -R "$other_user" "$place"; fi
}
same_contents() { checks=$((checks + 1)); [[ $1 == "$2" ]] || fail "$what: $3: $(diff <(echo "$1") <(echo "$2"))"; }

# one_kill COMMAND N: kills COMMAND before its Nth call, runs another command, and then repeats COMMAND
one_kill() {
  local -n new=${1%_first}_new
  local command=("${new[@]}" --out "$out" "${overwrite[@]}")
  what="$kind, heed ${new[*]}, killed before call $2"
  restore "$old"
  { (cd "$from" && "${as[@]}" env HEED_KILL_AT="$2" LD_PRELOAD="$dir/failing_calls.so" "$heed" "${command[@]}" > "$dir/out" 2> "$dir/err"); } 2> /dev/null
  ok test $? == 137
  kills=$((kills + 1))
  if [[ -s $place/.publish/heed-journal ]]; then committed=yes; else committed=no; fi
  [[ $1 != train* && $committed == no ]] && { now=$(contents); [[ $now == "$after" ]] || same_contents "$now" "$before" "not committed"; }
  case $1 in  # the other command reads $place, or tries to write there and is rejected
    train*) run info "$out" ;;
    *) run study "$dir/a" --out "$out"; ok test $? == 2; ok grep -q "already contains a study" "$dir/err" ;;
  esac
  now=$(contents)
  if [[ $now == "$before" ]]; then
    ok test $committed == no
    run "${command[@]}"; ok test $? == 0
  elif [[ $1 == train* ]]; then  # the directory contains the new run as of its last save
    ok grep -q "seed = 2" "$place/config.toml"
    run train --resume "$out" --quiet --threads 1 || ok grep -q "has done its" "$dir/err"
  fi
  same_contents "$(contents)" "$after" "at the end"
  ok test -z "$(find "$place/" -name .staging -o -name .publish -o -name '*.tmp*')"
}

# all_kills COMMAND: replaces a result in $place once without a kill, and then once for every EVERYth call, with
# a kill before this call
all_kills() {
  local -n replaced=${1}_old
  local -n new=${1%_first}_new
  old=nothing overwrite=() skip=("" "")
  [[ $1 == train* ]] && skip=("*.png" "state.safetensors")  # a kill and a resume may change these files
  what="$kind, $1"
  rm -rf nothing; mkdir nothing
  restore nothing
  if [[ $1 != train_first ]]; then
    run "${replaced[@]}" --out "$out"; ok test $? == 0
    echo mine | tee "$place/mine.png" "$place/.mine" > "$place/weights.old"
    [[ -d $place/checkpoints ]] && echo mine > "$place/checkpoints/mine"
    rm -rf old; mkdir old; cp -r "$place/." old; old=old
    [[ $1 == compare ]] || overwrite=(--overwrite)
  fi
  restore "$old"; before=$(contents 2> /dev/null)
  touch count; chmod a+w count
  (cd "$from" && "${as[@]}" env HEED_CALL_COUNT="$dir/count" LD_PRELOAD="$dir/failing_calls.so" "$heed" "${new[@]}" --out "$out" "${overwrite[@]}" > "$dir/out" 2> "$dir/err")
  ok test $? == 0
  after=$(contents)
  local calls n
  calls=$(cat count)
  ok test "$calls" -gt 30
  for ((n = 1 + offset++ * 7 % every; n <= calls; n += every)); do one_kill "$1" "$n"; done
  echo "$kind: heed $1: a kill at every ${every}th of $calls calls; $kills kills so far, $failures failures"
}

offset=0
for kind in ${KINDS:-plain mount current link readonly}; do
  mkdir $kind && place=$dir/$kind/DIR && out=$place && from=$dir && as=()
  [[ $kind == plain ]] || mkdir "$place"
  case $kind in
    mount)
      mkdir backing
      mount --bind backing "$place" 2> /dev/null || { echo "skipped: a mount point as DIR: this machine cannot mount"; continue; } ;;
    current) from=$place out=. ;;
    link) mv "$place" link/real && ln -s real "$place" ;;
    readonly)
      if [[ $EUID == 0 ]]; then
        as=(setpriv --reuid $other_user --regid $other_user --clear-groups)
        "${as[@]}" true 2> /dev/null || { echo "skipped: a parent that is not writable: root can write everywhere, and no other user can run"; continue; }
        chown $other_user "$place"
      else other_user=$EUID; fi
      chmod 555 readonly; "${as[@]}" mkdir readonly/other 2> /dev/null && fail "readonly/ is writable" ;;
  esac
  train_first_old=() train_first_new=()
  for command in train_first train study compare; do all_kills $command; done
done
# --- a sweep, killed before a call. Its runs are killed before the same call, too. The next start finishes all
# runs and leaves no temporary file
printf '%s\n' "[train]" 'task = "reverse"' "steps = 2" "layers = 1" "heads = 1" "d-model = 16" "batch = 4" \
  "eval-batch = 8" "[sweep]" "seed = [1, 2]" > sweep.toml
expect 0 sweep sweep.toml --out whole --quiet --jobs 2
for ((n = 1; n <= 30; n += 1 + every / 40)); do
  rm -rf swept; what="heed sweep, killed before call $n"
  HEED_KILL_AT=$n LD_PRELOAD=$dir/failing_calls.so "$heed" sweep sweep.toml --out swept --quiet --jobs 2 > out 2> err
  ok test $? != 0
  kills=$((kills + 1))
  expect 0 sweep sweep.toml --out swept --quiet --jobs 2
  for seed in 1 2; do same_run whole/seed=$seed swept/seed=$seed; done
  ok test -z "$(find swept -name '*.tmp*')"
done 2> killed
# --- a file system without locks: files that are not committed may belong to another process, so heed does not
# change them. If the journal is committed, heed completes the moves that it lists
no_flock=ENOLCK
nolock() { HEED_NO_FLOCK=$no_flock LD_PRELOAD=$dir/failing_calls.so expect "$@"; }
warns() { err_has "warning: this file system has no flock; a second process that writes to '$1' is not detected"; }
for no_flock in ENOTSUP ENOSYS ENOLCK; do nolock 0 "${learn[@]}" --out "free-$no_flock"; warns "free-$no_flock"; done
mv free-ENOLCK free; nolock 0 "${learn[@]}" --out free --overwrite; warns free
no_flock=EIO nolock 4 "${learn[@]}" --out free --overwrite; err_has "cannot lock free: Input/output error"
nolock 0 study a --out free
mkdir free/.staging && touch free/.staging/heed-journal
nolock 2 study a --out free --overwrite; err_has "free/.staging may be in use by another process"
nolock 4 train --resume free --steps 5; err_has "free/.staging may be in use by another process"
mkdir free/.publish && printf -- '- dA.png\n' > free/.publish/heed-journal
nolock 0 eval free --sequences 4; ok test ! -e free/dA.png; ok test ! -e free/.publish
rm -r free/.staging; nolock 0 train --resume free --steps 5 --quiet; warns free

echo "$kills kills"
end_of_checks
