# Functions for shell tests of the program. A test sources this file with the path of heed, works in a
# temporary directory, and calls end_of_checks at its end.
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

# expect CODE ARGUMENTS...: runs heed, checks the exit code, and writes ./out and ./err
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
# help_has TEXT: as out_has, but a line break in stdout matches a blank, because help is wrapped
help_has() { checks=$((checks + 1)); tr -s ' \n' ' ' < out | grep -qF -- "$1" || fail "$what: stdout lacks '$1'"; }
err_has() { checks=$((checks + 1)); grep -qF -- "$1" err || fail "$what: stderr lacks '$1'"; }
# refuses CODE TEXT ARGUMENTS...: checks that heed rejects the input: exit code CODE, one line on
# stderr that contains TEXT, and nothing on stdout
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
same() { checks=$((checks + 1)); cmp -s "$1" "$2" || fail "$1 and $2 differ"; }
# same_run DIR DIR: checks that weights and metrics of two runs are the same, byte for byte
same_run() { for file in model.safetensors best.safetensors metrics.csv; do same "$1/$file" "$2/$file"; done; }
saved_step() { "$heed" info "$1/state.safetensors" | sed -n 's/^ *step  *//p'; }
tiny=(--layers 1 --heads 1 --d-model 16 --batch 4 --eval-batch 8 --eval-every 4)
ok() { checks=$((checks + 1)); "$@" || fail "$what: $*"; }
# under "ulimit -v 1000" CHECK...: runs a check in a shell with that limit
under() {
  local limit=$1 before=$failures
  shift
  ($limit; "$@"; [[ $failures == "$before" ]]) || fail "under $limit: $*"
}
end_of_checks() {
  echo "$checks checks, $failures failed"
  [[ $failures == 0 ]]
}
