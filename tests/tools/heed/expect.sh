# Functions for shell tests of heed. A test sources this file with the path of heed as the argument. This file
# changes to a temporary directory. At its end, the test calls end_of_checks.
# shellcheck shell=bash
set -u
heed=$(readlink -f "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
unset NO_COLOR HEED_SIMD
export LC_ALL=C.UTF-8
failures=0
checks=0

fail() {
  failures=$((failures + 1))
  echo "FAILED: $*"
  echo "  stdout: $(head -c 400 out)"
  echo "  stderr: $(head -c 400 err)"
}

# expect CODE ARGUMENTS...: runs heed and checks the exit code. Stores stdout in ./out and stderr in ./err
expect() {
  local code=$1
  shift
  what="heed $*"
  "$heed" "$@" > out 2> err < /dev/null
  local got=$?
  checks=$((checks + 1))
  [[ $got == "$code" ]] || fail "$what: exit code $got, expected $code"
}
out_has() { checks=$((checks + 1)); grep -qF -- "$1" out || fail "$what: stdout lacks '$1'"; }
# help_has TEXT: checks that stdout contains TEXT. Because help is wrapped, a space in TEXT also matches a
# line break
help_has() { checks=$((checks + 1)); tr -s ' \n' ' ' < out | grep -qF -- "$1" || fail "$what: stdout lacks '$1'"; }
err_has() { checks=$((checks + 1)); grep -qF -- "$1" err || fail "$what: stderr lacks '$1'"; }
# refuses CODE TEXT ARGUMENTS...: checks that heed rejects the arguments. The exit code must be CODE, stderr
# must be one line that contains TEXT, and stdout must be empty
refuses() {
  local code=$1 text=$2
  shift 2
  expect "$code" "$@"
  err_has "$text"
  checks=$((checks + 1))
  [[ $(wc -l < err) == 1 && ! -s out ]] || fail "$what: more than one line of error"
}
is_json_line() {
  checks=$((checks + 1))
  [[ $(wc -l < out) == 1 && $(head -c 1 out) == "{" && $(tail -c 2 out) == "}" ]] ||
    fail "$what: stdout is not one JSON line"
}
has_file() { checks=$((checks + 1)); [[ -s $1 ]] || fail "$what: no file $1"; }
# close A B: checks that two expressions of awk are equal, to 1e-12 relative. Compare numbers with this function, because
# two programs, or JSON and CSV, may write the same number as two texts
close() { checks=$((checks + 1)); awk "BEGIN { d = ($1) - ($2); exit !(d * d <= 1e-24 * ($2) * ($2)) }" || fail "$what: $1 is not $2"; }
same() { checks=$((checks + 1)); cmp -s "$1" "$2" || fail "$1 and $2 differ"; }
# same_run DIR DIR: checks that the weights and metrics of two runs are equal, byte for byte
same_run() { for file in model.safetensors best.safetensors metrics.csv; do same "$1/$file" "$2/$file"; done; }
# header FILE JSON N: writes a safetensors file with the header JSON and N bytes of data, which are all 0
header() {
  { printf "$(printf '\\x%02x' $((${#2} & 255)) $((${#2} >> 8 & 255)) $((${#2} >> 16 & 255)) 0 0 0 0 0)"; printf '%s' "$2"; } > "$1"
  truncate -s +"$3" "$1"
}
# flip_bit FILE: changes one bit in the middle of a file
flip_bit() {
  local at=$(($(stat -c %s "$1") / 2))
  printf "\\x$(printf %x $((0x$(od -An -tx1 -j $at -N 1 "$1" | tr -d ' ') ^ 1)))" | dd of="$1" bs=1 seek=$at conv=notrunc status=none
}
saved_step() { "$heed" info "$1/state.safetensors" | sed -n 's/^ *step  *//p'; }
# weights_of RUN: prints the checksum of the weights of a run
weights_of() { "$heed" info "$1" --json | grep -o '"weights":"[^"]*"'; }
tiny=(--layers 1 --heads 1 --d-model 16 --batch 4 --eval-batch 8 --eval-every 4)
ok() { checks=$((checks + 1)); "$@" || fail "$what: $*"; }
# wait_until PID CONDITION...: waits until the command CONDITION succeeds, or until the process PID has ended
wait_until() {
  local process=$1
  shift
  until "$@" || ! kill -0 "$process" 2> /dev/null; do sleep 0.02; done
}
# has_lines N FILE: succeeds if FILE has more than N lines
has_lines() { [[ -e $2 && $(wc -l < "$2") -gt $1 ]]; }
# under LIMIT CHECK...: runs the command LIMIT, such as "ulimit -v 1000", and then a check, in a subshell
under() {
  local limit=$1 before=$failures
  shift
  ($limit; "$@"; [[ $failures == "$before" ]]) || fail "under $limit: $*"
}
end_of_checks() {
  echo "$checks checks, $failures failed"
  [[ $failures == 0 ]]
}
# without_checksum FILE: removes the checksum of a safetensors file
without_checksum() { LC_ALL=C sed -i "s/\"heed_checksum\":\"crc32c:........\",/$(printf '%34s' '')/" "$1"; }
# edit_state DIR FROM TO: replaces a text in the header of a run's state by one of equal length, and removes the checksum
edit_state() { without_checksum "$1/state.safetensors" && LC_ALL=C sed -i "s/$2/$3/" "$1/state.safetensors"; }
# unfinish DIR: makes a finished run one that is not finished
unfinish() { edit_state "$1" '"finished":"yes"' '"_inished":"yes"'; }
