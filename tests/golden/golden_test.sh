#!/usr/bin/env bash
# Tests the comparison in golden.cpp. The comparison must accept correct numbers. It must reject each kind of
# wrong number and name the number. $1 is the path of the program of notebook 1, linked with golden.cpp.
set -u
program=$1
file=$(mktemp)
trap 'rm -f "$file"' EXIT
failed=0

# entry ID VERIFIED EXPECTED: prints an entry as JSON. If ID begins with "in4", the entry's cell is "In [4]".
entry() {
  local cell=${1/#in4/In [4]}
  printf '{"id": "s1.%s", "cell": "%s", "seed": 1, "verified": %s, "expected": {%s}},' \
    "$1" "${cell%%.*}" "$2" "$3"
}

# compares EXIT TEXT ENTRY...: writes these entries to the file of expected numbers and runs the program. Its
# exit code must be EXIT, and its output must contain TEXT. The program shows four cells, and each needs an
# entry, so the file also contains an unverified entry for each cell. $last is the ID of the fourth entry.
last=derived.small
compares() {
  local expected=$1 text=$2 output code known=
  for id in in4.none derived.rand derived.formula "$last"; do
    known+=$(entry "$id" null '')
  done
  shift 2
  local entries="$known$*"
  echo "{\"entries\": [${entries%,}]}" > "$file"
  output=$(HEED_NOTEBOOK_NUMBERS=$file "$program")
  code=$?
  if [[ $code != "$expected" || $output != *"$text"* ]]; then
    printf 'FAILED: exit %s, needs %s, and "%s", for %s\n%s\n' "$code" "$expected" "$text" "$*" \
      "$(tail -n 3 <<< "$output")"
    failed=1
  fi
}

data='[1, "-inf", "-inf", 4, 5, "-inf", 7, 8, 9]'
masked() {  # masked SHAPE DATA TOL_ABS REFERENCE: prints the expected value "masked"
  printf '"masked": {"shape": %s, "data": %s, "tol_abs": %s, "reference": %s}' "$@"
}
causal() { entry in4.causal true "$(masked "$@")"; }
steps='["q", [1, 4, 2, 2]], ["attn_pattern", [1, 2, 4, 4]], ["z", [1, 4, 2, 2]]'

compares 0 '1 verified entries' "$(causal '[3, 3]' "$data" 0 "$data")"
compares 0 ', 0 differences' "$(causal '[3, 3]' "${data/4/4.001}" 0.002 "$data")"
compares 1 's1.in4.causal:masked: data[3] is 4, not 4.001' \
  "$(causal '[3, 3]' "${data/4/4.001}" 0.0005 "$data")"
compares 1 's1.in4.causal:masked: data[8] is 9, not nan' \
  "$(causal '[3, 3]' "${data/9/\"nan\"}" 1 "$data")"
compares 1 's1.in4.causal:masked: data[1] is -inf, not 0' \
  "$(causal '[3, 3]' "${data/\"-inf\"/0}" 1 "$data")"
compares 1 's1.in4.causal:masked: reference[3] is 4, not 4.00' \
  "$(causal '[3, 3]' "$data" 1 "${data/4/4.0001}")"
compares 1 's1.in4.causal:masked: shape [3, 3], not [9]' "$(causal '[9]' "$data" 0 "$data")"
compares 1 's1.in4.causal:other: the program does not show it' "$(entry in4.causal true \
  '"other": {"shape": []}')"
compares 1 's1.in5:masked: the program does not show it' "$(entry in5 true '"masked": {}')"
compares 0 ', 0 differences' "$(entry in4.error true '"text": "TypeError"')"
compares 0 ', 0 differences' "$(entry derived.small true "\"sizes\": [$steps, [\"attn_out\", [1, 4, 3]]]")"
compares 1 's1.derived.small:sizes: is ' "$(entry derived.small true "\"sizes\": [$steps]")"
compares 1 'no verified entry' "$(entry in4.causal false "$(masked '[7]' '[]' 0 '[]')")"
last=derived.large
compares 1 'derived.small: no such entry' "$(causal '[3, 3]' "$data" 0 "$data")"

rm "$file"
HEED_NOTEBOOK_NUMBERS=$file "$program" > /dev/null 2>&1
[[ $? == 4 ]] || { echo 'FAILED: without the file, exit 4'; failed=1; }
exit $failed
