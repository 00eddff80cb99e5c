#!/usr/bin/env bash
# Tests that autograd/check/YOUR_GRADIENT.md shows the output of examples/your_gradient.cpp.
# Usage: your_gradient_test.sh PATH-TO-EXAMPLE
set -euo pipefail
root=$(cd -P "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# Prints stdin in a form that can be compared. Joins all lines, because the page wraps the output. Removes
# what depends on the compiler and libm: the number of digits that agree, and decimals after the sixth.
normalized() { tr -s ' \n' ' ' | sed -E 's/[0-9.]+ digits agree with/N digits agree with/g; s/(\.[0-9]{6})[0-9]+/\1/g'; }

page=$(cd "$root" && normalized < autograd/check/YOUR_GRADIENT.md)
output=$("$1")
while read -r line; do
  [[ $page == *"$(normalized <<< "$line" | sed 's/ $//')"* ]] || {
    echo "FAILED: autograd/check/YOUR_GRADIENT.md does not show this line: $line"
    exit 1
  }
done <<< "$output"
[[ $output == right:*$'\n'wrong:* ]] || { echo "FAILED: unexpected output: $output"; exit 1; }
