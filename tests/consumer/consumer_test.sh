#!/usr/bin/env bash
# Builds tests/consumer, a project that uses heed, and runs it.
# usage: consumer_test.sh package BUILD_DIR SCRATCH CXX     BUILD_DIR installed to a prefix of its own:
#            find_package with COMPONENTS and without, pkg-config, and what is refused
#        consumer_test.sh subdirectory HEED_DIR SCRATCH CXX     by add_subdirectory
set -euo pipefail
mode=$1 heed=$2 scratch=$3
export CXX=$4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=$scratch/prefix
rm -rf "$scratch"
mkdir -p "$scratch"

# Runs a command quietly; its output is shown when it fails.
quiet() { "$@" > "$scratch/log" 2>&1 || { cat "$scratch/log"; echo "failed: $*"; exit 1; }; }

# usage: configure NAME CMAKE_ARGUMENT...; configures tests/consumer into $scratch/NAME
configure() {
  cmake -S "$here" -B "$scratch/$1" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" "${@:2}"
}
# usage: build_and_run NAME PROGRAM...; exactly these programs must be there
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
# usage: refused NAME TEXT CMAKE_ARGUMENT...; configuring fails and says TEXT
refused() {
  if configure "$1" "${@:3}" > "$scratch/log" 2>&1; then echo "$1 was not refused"; exit 1; fi
  grep -qF -- "$2" "$scratch/log" || { cat "$scratch/log"; echo "$1: does not say '$2'"; exit 1; }
}

if [[ $mode == subdirectory ]]; then
  configure subdirectory -DHEED_DIR="$heed" -DCMAKE_UNITY_BUILD=ON > "$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
  grep -F "heed's own targets are compiled with -O2" "$scratch/log"  # no build type was given
  # Once told to, it is compiled faster.
  quiet configure subdirectory -DHEED_DIR="$heed" -DCMAKE_UNITY_BUILD=ON -DCMAKE_BUILD_TYPE=Debug \
    -DCMAKE_CXX_FLAGS_DEBUG=-O0
  build_and_run subdirectory gradient model
  exit
fi

quiet cmake --install "$heed" --prefix "$prefix"
for file in man/man1/heed.1 bash-completion/completions/heed.bash zsh/vendor-completions/_heed \
  fish/vendor_completions.d/heed.fish; do
  grep -q heed "$prefix/share/$file" || { echo "share/$file is missing or empty"; exit 1; }
done
quiet configure autograd -DHEED_VERSION=0.1 -DHEED_COMPONENTS=autograd \
  -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON  # that one needs no fmt
build_and_run autograd gradient
quiet configure all -DHEED_VERSION=0.1
build_and_run all gradient model picture
refused version 'requested version "0.9"' -DHEED_VERSION=0.9
refused component "heed has no component 'vision'" -DHEED_VERSION=0.1 -DHEED_COMPONENTS="autograd;vision"

# A test of one's own by each framework that is here: the right gradient passes, the wrong one does
# not and its entry is named.
# usage: framework NAME CHOOSE; CHOOSE is the option that runs one test
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
  echo "GoogleTest is not installed (libgtest-dev): RightGradient is not tested"
fi

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig:$prefix/lib64/pkgconfig:${PKG_CONFIG_PATH-}
if ! command -v pkg-config > /dev/null; then
  echo "skipped: pkg-config is not installed"
  exit
fi
# Without quotes below: flags, and words to split.
"$CXX" -std=c++20 "$here/gradient.cpp" -o "$scratch/gradient" $(pkg-config --cflags --libs heed-autograd)
"$scratch/gradient"
"$CXX" -std=c++20 "$here/middle.cpp" "$here/model.cpp" -o "$scratch/model" $(pkg-config --cflags --libs heed)
"$scratch/model"
"$CXX" -std=c++20 "$here/picture.cpp" -o "$scratch/picture" $(pkg-config --cflags --libs heed)
"$scratch/picture"
"$prefix/bin/heed" --version
