#!/usr/bin/env bash
# Runs the commands of three pages: the first block of commands in README.md, the first block in
# tools/heed/README.md, and all commands in nn/train/FIRST_MODEL.md. The commands of a page run in order in an
# empty directory. Each command must succeed, and its output must be about the run that the command names.
# Options are added so that training and checks of gradients take only a few steps.
# Usage: first_contact_test.sh PATH-TO-HEED
root=$(cd -P "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
source "$root/tests/tools/heed/expect.sh" "$1"

# first_block PAGE prints the first block of indented lines that begin with heed, all_commands PAGE all of them.
first_block() { awk '/^    heed / { on = 1; print; next } on { exit }' "$root/$1"; }
all_commands() { grep '^    heed ' "$root/$1"; }
# arguments: reads commands, removes "heed" and comments from them, and replaces FILE by the name of a text.
arguments() { sed 's/^    heed //; s/ *#.*//; s/FILE/notes.txt/'; }

# cut_short: appends options to the command in the array `words`, so that the command takes seconds.
cut_short() {
  case "${words[*]}" in
    *--overfit-batch*) words+=(--threads 1) ;;  # it needs all steps to learn the batch
    train*--resume*) words+=(--steps 12 --threads 1) ;;
    train*) words+=(--steps 8 --eval-batch 16 --threads 1) ;;
    gradcheck*--run*) words+=(--order 1 --seconds 1) ;;
  esac
}

# run_page LEAST: runs the commands that it reads from stdin. There must be at least LEAST commands.
run_page() {
  local count=0 words word run file
  for i in $(seq 200); do echo "note $i"; done > notes.txt
  printf '[train]\ntask = "urn"\nsteps = 8\neval-batch = 16\n[sweep]\nscale = ["none", "1/d-head"]\nseed = [1, 2]\n' > scale.toml
  while read -r -a words; do
    count=$((count + 1))
    file='' run=''
    if [[ "${words[*]}" == *' > '* ]]; then
      file=${words[-1]}
      words=("${words[@]:0:${#words[@]}-2}")
    fi
    for word in "${words[@]}"; do [[ $word == runs/* ]] && run=$word; done
    cut_short
    expect 0 "${words[@]}"
    case ${words[0]} in
      eval | study) ok test -n "$run" ;;&
      eval) out_has "$run (" ;;
      study) out_has "$run" ;;
      generate) err_has "$run:" ;;
    esac
    [[ -z $file ]] || cp out "$file"
  done
  what="the commands of the page"
  ok [ "$count" -ge "$1" ]
  ok [ -s runs/first/model.safetensors ]
}

# in_directory NAME LEAST: calls run_page LEAST in the new directory NAME.
in_directory() {
  mkdir "$1" && cd "$1" || exit 1
  run_page "$2"
  cd ..
}
in_directory readme 6 < <(first_block README.md | arguments)
what="tools/demo, the prompt"; prompt=$(sed -n 's/.*--prompt \([a-zA-F]*\).*/\1/p' "$root/tools/demo")
ok grep -qa "on ^${prompt:-none}" readme/runs/first/attention.png  # the sequence that the demo continues
in_directory program 12 < <(first_block tools/heed/README.md | arguments)
in_directory guide 10 < <(all_commands nn/train/FIRST_MODEL.md | arguments)
end_of_checks
