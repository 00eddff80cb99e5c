#!/usr/bin/env bash
# Fails if a sequence of six lines of code occurs twice in autograd, nn or tools. Indentation, comments,
# includes and lines that contain only braces are ignored.
set -euo pipefail
cd "${1-$(dirname "${BASH_SOURCE[0]}")/..}"  # a test of this script passes another directory as $1
find autograd nn tools \( -name '*.cpp' -o -name '*.h' \) -print0 | sort -z | xargs -0 awk '
  FNR == 1 { n = 0; files++ }
  {
    line = $0
    sub(/^[ \t]+/, "", line)
    sub(/[ \t]*\/\/.*$/, "", line)
    if (line ~ /^(#|namespace |using |[{}();,]*$)/) next
    text[n % 6] = line
    position[n % 6] = FILENAME ":" FNR
    if (++n < 6) next
    key = ""
    for (i = n - 6; i < n; ++i) key = key "\n" text[i % 6]
    if (!(key in first)) {
      first[key] = position[(n - 6) % 6]
    } else if (reported < n - 6 || reported_file != FILENAME) {
      print position[(n - 6) % 6] " repeats the code at " first[key] ":" key
      reported = n
      reported_file = FILENAME
      failed = 1
    }
  }
  END {
    if (files < 50) { print "only " files " files found"; failed = 1 }
    exit failed
  }'
