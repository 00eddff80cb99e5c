# Paths and functions for the other scripts, which source this file. It adds the packages of `tools/setup --user` to
# the search paths, finds the Clang that CI uses, and prints progress.
deps=$PWD/build/deps/usr

# usage: append NAME DIR; appends DIR to the variable NAME, a list of directories such as PATH
append() { export "$1=${!1:+${!1}:}$2"; }
if [[ -d $deps ]]; then
  append PATH "$deps/bin"
  append CMAKE_PREFIX_PATH "$deps"
  append LD_LIBRARY_PATH "$(echo "${deps%/usr}"/lib/*-linux-gnu*)"  # the CMake in build/deps needs these libraries
  for deps_lib in "$deps"/lib/*-linux-gnu*; do
    append LD_LIBRARY_PATH "$deps_lib"
    append PKG_CONFIG_PATH "$deps_lib/pkgconfig:$deps/share/pkgconfig"
  done
fi

# Prints the name of the Clang that tools/setup --check installs, if there is one.
checking_clang() {
  local name
  for name in clang++-16 clang++; do
    if command -v "$name" > /dev/null && "$name" -dumpversion | awk -F. '{ exit $1 < 16 }'; then
      echo "$name"
      return
    fi
  done
}

# usage: COMMAND | progress NAME [REGEX]
# Prints the output of COMMAND to stderr. Lines that match REGEX are progress: at most one is printed every
# 3 s. Other lines are printed at once. After 4 s without output, prints a line with the elapsed time. The
# default REGEX matches ninja's [n/N].
progress() {
  local name=$1 status=${2-'^\[[0-9]+/[0-9]+\]'} rest="" line last="" shown=-3 code told=1
  SECONDS=0
  while true; do
    code=0
    IFS= read -r -t 4 line || code=$?
    if (( code > 128 )); then  # no line, or an incomplete one, within 4 s
      rest+=$line
      echo "$name: running for $SECONDS s${last:+; last: $last}" >&2
      shown=$SECONDS
      continue
    fi
    line=$rest$line rest=""
    if [[ $line =~ $status ]]; then
      last=$line told=0
      if (( SECONDS >= shown + 3 )); then
        echo "$line" >&2
        shown=$SECONDS told=1
      fi
    elif [[ -n $line ]]; then
      echo "$line" >&2
    fi
    if (( code )); then
      if (( !told )); then echo "$last" >&2; fi
      return 0
    fi
  done
}
