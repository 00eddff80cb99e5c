#!/usr/bin/env bash
# Builds tests/consumer, a project that uses heed, and runs it.
# usage: consumer_test.sh package BUILD_DIR SCRATCH CXX
#            installs the build in BUILD_DIR into SCRATCH, and tests find_package with and without
#            COMPONENTS, requests that must fail, and pkg-config
#        consumer_test.sh subdirectory HEED_DIR SCRATCH CXX
#            tests add_subdirectory with the sources in HEED_DIR
set -euo pipefail
mode=$1 heed=$2 scratch=$3
export CXX=$4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix="$scratch/a prefix"  # with a space
rm -rf "$scratch"
mkdir -p "$scratch"

# Runs a command and prints its output only if it fails.
quiet() { "$@" > "$scratch/log" 2>&1 || { cat "$scratch/log"; echo "failed: $*"; exit 1; }; }

# configure NAME CMAKE_ARGUMENT...: configures tests/consumer in the build directory $scratch/NAME
configure() {
  cmake -S "$here" -B "$scratch/$1" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" "${@:2}"
}
# build_and_run NAME PROGRAM...: builds the project and runs these programs. Fails if the project builds others
build_and_run() {
  quiet cmake --build "$scratch/$1"
  local program
  for program in gradient model picture; do
    if [[ " ${*:2} " == *" $program "* ]]; then
      "$scratch/$1/$program"
    elif [[ -e $scratch/$1/$program ]]; then
      echo "$1 has $program, too"
      exit 1
    fi
  done
}
# refused NAME TEXT CMAKE_ARGUMENT...: checks that configuring fails with an error that contains TEXT
refused() {
  if configure "$1" "${@:3}" > "$scratch/log" 2>&1; then echo "$1 was not rejected"; exit 1; fi
  grep -qF -- "$2" "$scratch/log" || { cat "$scratch/log"; echo "$1: the error lacks '$2'"; exit 1; }
}

if [[ $mode == subdirectory ]]; then
  quiet configure subdirectory -DHEED_DIR="$heed" -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON
  grep -F "heed's own targets are compiled with -O2" "$scratch/log"  # because no build type is given
  grep -F "heed: only heed::autograd" "$scratch/log"  # fmt is missing
  # An explicit build type and flags replace -O2. This compiles faster.
  quiet configure subdirectory -DHEED_DIR="$heed" -DCMAKE_DISABLE_FIND_PACKAGE_fmt=OFF -DCMAKE_BUILD_TYPE=Debug \
    -DCMAKE_CXX_FLAGS_DEBUG=-O0
  build_and_run subdirectory gradient model
  exit
fi

quiet cmake --install "$heed" --prefix "$prefix"
quiet configure autograd -DHEED_VERSION=0.1 -DHEED_COMPONENTS=autograd \
  -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON  # the component autograd does not need fmt
build_and_run autograd gradient
# The command of autograd/check/YOUR_GRADIENT_C.md, with the installed header and shared library.
quiet cc -std=c11 "$here/../../examples/your_gradient.c" -I"$prefix/include/heed" -L"$prefix/lib" \
  -Wl,-rpath,"$prefix/lib" -lheed_check -lm -o "$scratch/your_gradient_c"
"$scratch/your_gradient_c"
quiet configure check -DHEED_VERSION=0.1 -DHEED_COMPONENTS=check
quiet cmake --build "$scratch/check" --target your_gradient_c
"$scratch/check/your_gradient_c"
quiet configure all -DHEED_VERSION=0.1
build_and_run all gradient model picture
refused version 'requested version "0.9"' -DHEED_VERSION=0.9
refused component "heed has no component 'vision'" -DHEED_VERSION=0.1 -DHEED_COMPONENTS="autograd;vision"

# framework NAME SELECT: builds a user's tests with the test framework NAME. The test of the correct gradient
# must pass. The test of the wrong gradient must fail with an error that names the wrong entry. SELECT followed
# by "right" or "wrong" is the argument that selects one test
framework() {
  local output
  quiet configure "$1" -DHEED_COMPONENTS=autograd -DHEED_FRAMEWORK="$1"
  quiet cmake --build "$scratch/$1" --target "$1_test"
  quiet "$scratch/$1/$1_test" "$2right"
  if output=$("$scratch/$1/$1_test" "$2wrong"); then echo "$1: a wrong gradient passed"; exit 1; fi
  grep -F "input 0 at [1]: backward returns" <<< "$output" || { echo "$output"; exit 1; }
}
framework catch2 ""
if "$CXX" -x c++ -E - <<< "#include <gtest/gtest.h>" > "$scratch/log" 2>&1; then
  framework googletest "--gtest_filter=*."
else
  echo "GoogleTest is not installed (libgtest-dev), and is not tested"
fi

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig:$prefix/lib64/pkgconfig:${PKG_CONFIG_PATH-}
if ! command -v pkg-config > /dev/null; then
  echo "skipped: pkg-config is not installed"
  exit
fi
# compile PROGRAM PACKAGE SOURCE...: pkg-config escapes spaces in paths, so `eval` splits its output into words.
compile() {
  eval '"$CXX" -std=c++20 "${@:3}" -o "$scratch/$1"' "$(pkg-config --cflags --libs "$2")"
  "$scratch/$1"
}
compile gradient heed-autograd "$here/gradient.cpp"
compile model heed "$here/middle.cpp" "$here/model.cpp"
compile picture heed "$here/picture.cpp"
"$prefix/bin/heed" --version
