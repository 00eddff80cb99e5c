#!/usr/bin/env bash
# Tests tools/size --ceilings in a small repository: each way to exceed or to raise a ceiling is found.
set -euo pipefail
for tool in git python3; do
  command -v $tool > /dev/null || { echo "skipped: $tool is missing"; exit; }
done
size=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/tools/size
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_{AUTHOR,COMMITTER}_NAME=size GIT_{AUTHOR,COMMITTER}_EMAIL=size@example.org

# usage: commit PRODUCT [TESTS [WORDS]]; commits these ceilings, an empty one is left out
commit() {
  printf '%s\n' "# ceilings" ${1:+"product $1"} ${2:+"tests $2"} ${3:+"pages (words) $3"} > tools/size-ceilings.txt
  git add . && git commit -q -m "Set ceilings"
}
# usage: expect MESSAGE; requires that the check fails with it alone
expect() {
  local output
  if output=$("$size" --ceilings); then echo "no failure, expected: $1" >&2; exit 1; fi
  if [[ $(grep '^size: ' <<< "$output") != "size: $1" ]]; then echo "$output" "expected: $1" >&2; exit 1; fi
}

git init -q -b main
mkdir -p autograd tools tests/data
printf '// comment\n/* a\n b */\n\nint a;\nint b;  // two lines of code\n' > autograd/a.cpp
printf '#!/bin/sh\n# comment\necho\n' > tools/script
printf '"""Doc\nstring"""\nx = 1\n' > tests/a.py
echo 'not counted' | tee tests/data/{a,b}.md > /dev/null
echo 'three words here' > README.md
commit 3 1 3
"$size" --ceilings  # 3 lines of product, 1 of tests, 3 words
commit 153 1 3 && expect "the ceiling of product rose from 3 to 153; delete as much as the change adds"
commit 2 1 3 && expect "product is 1 above its ceiling; delete as much as the change adds"
echo 'int c;' >> autograd/a.cpp
commit 3 1 3 && expect "$(printf '%s\n' 'the ceiling of product rose from 2 to 3; delete as much as the change adds' \
  'size: product is 1 above its ceiling; delete as much as the change adds')"

# The highest ceilings, with slack for the cases below.
rm -rf .git && git init -q -b main && printf 'int a;\n' > autograd/a.cpp
commit 152 151 153 && "$size" --ceilings
commit 152 151 && expect "the ceiling of pages (words) is missing in tools/size-ceilings.txt"
commit 152 151 153
git rm -q tools/size-ceilings.txt && git commit -q -m "Remove the file" && mkdir -p tools && printf 'echo\n' > tools/script
commit 152 152 153 && expect "$(printf '%s\n' 'the ceiling of tests rose from 151 to 152; delete as much as the change adds' \
  'size: the ceiling of tests is 151 above the size; lower it to 1')"
commit 152 151 153
# A merge that keeps the higher side.
git checkout -q -b lower && commit 100 151 153
git checkout -q main && echo >> README.md && git commit -q -am "Change a page"
git merge -q --no-commit --no-ff lower && commit 152 151 153
expect "the ceiling of product rose from 100 to 152; delete as much as the change adds"
git clone -q --depth 1 "file://$dir" "$dir/shallow" && cd "$dir/shallow"
expect "needs the whole history: git fetch --unshallow"
