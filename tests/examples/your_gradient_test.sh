#!/usr/bin/env bash
# Tests that the pages autograd/check/YOUR_GRADIENT*.md show the output of examples/your_gradient.cpp and of
# examples/your_gradient.c, and of the programs in Python, if NumPy and PyTorch are installed. Each page has less
# than 130 lines.
# Usage: your_gradient_test.sh EXAMPLE-IN-C++ EXAMPLE-IN-C PYTHON
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/../.."

fail() {
  echo "FAILED: $1"
  exit 1
}

# Prints stdin in a form that can be compared. Joins all lines, because the page wraps the output. Removes
# what depends on the compiler and libm: the number of digits that agree, and decimals after the sixth.
normalized() { tr -s ' \n' ' ' | sed -E 's/[0-9.]+ digits agree with/N digits agree with/g; s/(\.[0-9]{6})[0-9]+/\1/g'; }

# check_line PAGE LINE
check_line() {
  [[ $(normalized < "$1") == *"$(normalized <<< "$2" | sed 's/ $//')"* ]] || fail "$1 does not show this line: $2"
}
for page in autograd/check/YOUR_GRADIENT*.md; do
  (($(wc -l < "$page") < 130)) || fail "$page has 130 lines or more"
done
output=$("$1")
while read -r line; do
  check_line autograd/check/YOUR_GRADIENT_CPP.md "$line"
done <<< "$output"
[[ $output == right:*$'\n'wrong:* ]] || fail "unexpected output: $output"
output=$("$2")
[[ $output == wrong:* ]] || fail "unexpected output: $output"
check_line autograd/check/YOUR_GRADIENT_C.md "$output"

# program MODULE: prints the Python program of the page that imports MODULE
program() {
  awk -v module="import $1" '/^```python/ { text = ""; inside = 1; next }
    /^```/ { if (inside && index(text, module)) printf "%s", text; inside = 0 } inside { text = text $0 "\n" }' \
    autograd/check/YOUR_GRADIENT.md
}
if "$3" -c "import numpy" 2> /dev/null; then
  wrong=$("$3" -c "$(program numpy)")
  right=$("$3" -c "$(program numpy | sed 's/return y \* dy$/return y * (dy - (y * dy).sum())/')")
  [[ $wrong == wrong:* && $right == right:* ]] || fail "unexpected output: $wrong $right"
  check_line autograd/check/YOUR_GRADIENT.md "$wrong"
  check_line autograd/check/YOUR_GRADIENT.md "$right"
else
  echo "skipped: the program in Python, because numpy is not installed"
fi
if "$3" -c "import torch" 2> /dev/null; then
  output=$("$3" -c "$(program torch)" | normalized)
  [[ $output == right:*" wrong: with "*" wrong: order 2 "*" right: R = "* ]] || fail "unexpected output: $output"
  # The page leaves out parts of these lines: "...".
  shown=$(awk '/import heed.torch/ { found = 1 } found && /^    (right|wrong):/ { inside = 1 } inside && !/^    / { exit }
    inside { print }' autograd/check/YOUR_GRADIENT.md | normalized | sed 's/^ //; s/[][()]/\\&/g; s/ *\.\.\. */*/g')
  # shellcheck disable=SC2053 # a pattern
  [[ $output == $shown* ]] || fail "autograd/check/YOUR_GRADIENT.md shows $shown but the output is $output"
else
  echo "skipped: the program in Python, because torch is not installed"
fi
