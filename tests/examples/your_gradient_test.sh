#!/usr/bin/env bash
# Tests that autograd/check/YOUR_GRADIENT.md shows the output of examples/your_gradient.cpp and of
# examples/your_gradient.c, and of its programs in Python, if NumPy and PyTorch are installed.
# Usage: your_gradient_test.sh EXAMPLE-IN-C++ EXAMPLE-IN-C PYTHON
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/../.."

# Prints stdin in a form that can be compared. Joins all lines, because the page wraps the output. Removes
# what depends on the compiler and libm: the number of digits that agree, and decimals after the sixth.
normalized() { tr -s ' \n' ' ' | sed -E 's/[0-9.]+ digits agree with/N digits agree with/g; s/(\.[0-9]{6})[0-9]+/\1/g'; }

page=$(normalized < autograd/check/YOUR_GRADIENT.md)
output=$("$1")
check_line() {
  [[ $page == *"$(normalized <<< "$1" | sed 's/ $//')"* ]] || {
    echo "FAILED: autograd/check/YOUR_GRADIENT.md does not show this line: $1"
    exit 1
  }
}
while read -r line; do
  check_line "$line"
done <<< "$output"
[[ $output == right:*$'\n'wrong:* ]] || { echo "FAILED: unexpected output: $output"; exit 1; }
output=$("$2")
[[ $output == wrong:* ]] || { echo "FAILED: unexpected output: $output"; exit 1; }
check_line "$output"

# program MODULE: prints the Python program of the page that imports MODULE
program() {
  awk -v module="import $1" '/^```python/ { text = ""; inside = 1; next }
    /^```/ { if (inside && index(text, module)) printf "%s", text; inside = 0 } inside { text = text $0 "\n" }' \
    autograd/check/YOUR_GRADIENT.md
}
for module in numpy torch; do
  "$3" -c "import $module" 2> /dev/null || { echo "skipped: the program in Python, because $module is not installed"; continue; }
  output=$("$3" -c "$(program $module)")
  [[ $output == wrong:* ]] || { echo "FAILED: unexpected output: $output"; exit 1; }
  check_line "$output"
done
