#!/usr/bin/env bash
# Tests that control characters in names, values and generated text are escaped if stdout or stderr is a terminal, and
# written as they are to a file or a pipe, except in errors. `script` (util-linux) provides the terminal and runs $SHELL. Also tests
# that errors cut long values. Usage: terminal_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
# at_terminal COMMAND: runs a command of the shell at a terminal, and stores what the terminal receives in ./out
at_terminal() {
  what=$1
  TERM=dumb SHELL=$BASH heed=$heed script -qE never -c "stty -onlcr; $1" /dev/null < /dev/null > out 2>&1
  checks=$((checks + 1))
  if LC_ALL=C grep -qP '[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]' out; then fail "$what: a control character at the terminal"; fi
}
script -qE never -c true /dev/null < /dev/null > out 2>&1 ||
  { echo "skipped: script (util-linux), which provides a terminal, does not work here"; exit 0; }

# --- a name of a file that is not valid UTF-8, and values of a configuration file. The bytes c2 9b are U+009B, which a
# terminal may execute like ESC [
at_terminal '"$heed" info $'\''a\e[31m\x9b1m\xc2\x9b\x7f.safetensors'\'
out_has 'a\x1b[31m\x9b1m\x9b\x7f.safetensors'
printf '%s\n' '[train]' 'task = "x\u001b[2J\u0007"' > bad.toml
at_terminal '"$heed" train --config bad.toml'; out_has "unknown task 'x\\x1b[2J\\x07'"
printf '%s\n' '[train]' '"\u001b]0;x\u0007" = 3' > bad.toml
at_terminal '"$heed" train --config bad.toml'; out_has 'no key '\''\x1b]0;x\x07'\'

# --- the name of a run is escaped in results and in progress, and so is generated text
for i in $(seq 60); do printf 'a\e[1m\t\xc2\x9b\x7f\n%s' "$i"; done > text.txt
run=$'r\e[1m'
expect 0 train --text text.txt "${tiny[@]}" --context 16 --steps 4 --quiet --out "$run"
ok grep -qF "$run" out  # a file gets the bytes of the name
at_terminal '"$heed" train --resume $'\''r\e[1m'\'' --steps 5'; out_has 'text: resuming at step 4 of 5 in r\x1b[1m'
at_terminal '"$heed" info .'; out_has 'r\x1b[1m'
at_terminal '"$heed" info . --json'; out_has '"task":"text"'
generate="generate $run --prompt a --tokens 400 --temperature 9 --seed 2"
# shellcheck disable=SC2086
expect 0 $generate; cp out raw; cp err raw.err
for byte in $'\e' $'\t' $'\x7f' $'\xc2\x9b'; do ok grep -qF "$byte" raw; done
escaped() { sed 's/\x1b/\\x1b/g; s/\xc2\x9b/\\x9b/g; s/\x7f/\\x7f/g' "$1"; }
at_terminal '"$heed" '"${generate/$run/\$\'r\\e[1m\'}"' 2> raw.err'
escaped raw > expected; same expected out; ok grep -qF "$run" raw.err
at_terminal '"$heed" '"${generate/$run/\$\'r\\e[1m\'}"' > piped'
same piped raw; out_has 'r\x1b[1m: 400 tokens in '

end_of_checks
