#!/usr/bin/env bash
# Runs the first block of commands of README.md in order, in an empty folder. Each command must work,
# and its output must be about the right run. Only the number of training steps is reduced.
# Usage: first_contact_test.sh PATH-TO-HEED
root=$(cd -P "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
source "$root/tests/tools/heed/expect.sh" "$1"

# Prints the lines that begin with heed, without their comments. FILE becomes a text file of this folder.
commands() {
  awk '/^    heed / { on = 1; print; next } on { exit }' "$root"/README.md |
    sed 's/^    heed //; s/ *#.*//; s/FILE/notes.txt/'
}
for i in $(seq 200); do echo "note $i"; done > notes.txt
printf '[train]\ntask = "urn"\nsteps = 8\neval-batch = 16\n[sweep]\nscale = ["none", "1/d-head"]\nseed = [1, 2]\n' > scale.toml
count=0
while read -r -a words; do
  count=$((count + 1))
  [[ ${words[0]} == train ]] && words+=(--steps 8 --eval-batch 16 --threads 1)
  [[ ${words[0]} == bench ]] && words+=(--help)  # takes minutes, and its numbers are not needed here
  expect 0 "${words[@]}"
  case ${words[0]} in
    eval | study) [[ "${words[*]}" == *runs/first* ]]; ok [ $? = 0 ] ;;&
    eval) out_has "runs/first (induction)" ;;
    study) out_has "runs/first" ;;
    generate) err_has "runs/first:" ;;
  esac
done < <(commands)
what="README's commands"
ok [ "$count" -ge 10 ]
ok [ -s runs/first/model.safetensors ]
end_of_checks
