#!/usr/bin/env bash
# Builds tests/consumer, a project that uses heed by add_subdirectory, and runs it.
# usage: consumer_test.sh HEED_DIR BUILD_DIR CXX_COMPILER
set -euo pipefail
heed=$1 build=$2 compiler=$3
cmake -S "$heed/tests/consumer" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_CXX_COMPILER="$compiler" -DHEED_DIR="$heed" >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }
cmake --build "$build" --target consumer >>"$build.log" 2>&1 || { tail -40 "$build.log"; exit 1; }
"$build/consumer"
