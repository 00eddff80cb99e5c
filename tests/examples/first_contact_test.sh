#!/usr/bin/env bash
# Runs the commands of each page below twice: in an empty directory, and in one directory for all pages. Each command
# must succeed. The output of eval, study and generate must name the run in their arguments. A page must train the
# same weights both times. Options are added so that training takes only a few steps.
# Usage: first_contact_test.sh PATH-TO-HEED
root=$(cd -P "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
source "$root/tests/tools/heed/expect.sh" "$1"
# The pages in the order in which they are read, each with the least number of its commands.
pages=(README.md:6 nn/lab/train/FIRST_MODEL.md:9 tools/heed/study/READ_A_STUDY.md:2
  tools/heed/README.md:12 tools/heed/study/README.md:5)

# commands PAGE: prints the arguments of each command of a page. FILE is a text; other placeholders are left out.
commands() { sed -n 's/^    heed //; T; s/ *#.*//; s/FILE/notes.txt/; /\<A\>\|\<NAME\>/!p' "$root/$1"; }

# cut_short: appends options to the command in the array `words`, so that the command takes seconds.
cut_short() {
  case "${words[*]}" in
    train*--resume*) words+=(--steps 6 --threads 1) ;;
    train*--from*) words+=(--steps 4 --batch 4 --eval-batch 4 --threads 1) ;;
    train*) words+=(--steps 4 --batch 4 --eval-batch 4 --d-model 16 --threads 1) ;;
    study*--prompt*) ;;
    study*) words+=(--samples 5) ;;
    gradcheck*--run*) words+=(--order 1) ;;
  esac
}

# run_page PAGE:LEAST: runs the commands of a page, of which there must be at least LEAST.
run_page() {
  local count=0 words word run file
  for i in $(seq 200); do echo "note $i"; done > notes.txt
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
      eval) out_has "$run (" ;;
      study) out_has "$run" ;;
      generate) err_has "$run:" ;;
    esac
    [[ -z $file ]] || cp out "$file"
  done < <(commands "${1%:*}")
  what="the commands of ${1%:*}"
  ok [ "$count" -ge "${1#*:}" ]
}

mkdir all
k=0
for page in "${pages[@]}"; do
  mkdir "alone-$((++k))" && cd "alone-$k" || exit 1
  run_page "$page"
  cd ../all || exit 1
  run_page "$page"
  cd ..
  for run in "alone-$k"/runs/*; do ok test "$(weights_of "$run")" == "$(weights_of "all/${run#*/}")"; done
done
what="tools/demo, the prompt"; prompt=$(sed -n 's/.*--prompt \([a-zA-F]*\).*/\1/p' "$root/tools/demo")
ok grep -qa "on ^${prompt:-none}" all/runs/first/attention.png  # the sequence that the demo continues
end_of_checks
