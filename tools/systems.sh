# tools/check --systems sources this file. It tests the last commit on a bare Debian 12 and 13, as a new user would:
# the two commands of README.md, the Python package, and the tests with Clang.

# usage: check_systems [12|13|STEP]...; without a number both systems, without a STEP all steps
check_systems() {
  local numbers=() steps=() arg
  for arg in "$@"; do
    case "$arg" in
      12 | 13) numbers+=("$arg") ;;
      demo | test | wheel | clang) steps+=("$arg") ;;
      *)
        echo "check: unknown system or step '$arg' of --systems; see tools/check --help" >&2
        return 2
        ;;
    esac
  done
  if (( !${#numbers[@]} )); then numbers=(12 13); fi
  if (( !${#steps[@]} )); then steps=(demo test wheel clang); fi
  if (( EUID != 0 )) || ! command -v debootstrap > /dev/null; then
    echo "check: --systems needs root and debootstrap; run it as root after: apt-get install debootstrap" >&2
    return 1
  fi
  local systems number name bare build
  systems=$(mktemp -d "${TMPDIR:-/var/tmp}/heed-systems.XXXXXX")
  # shellcheck disable=SC2064
  trap "if [[ -n \${running-} ]]; then kill -KILL \$running; sleep 1; fi; rm -rf --one-file-system '$systems'" EXIT
  logs=$PWD/build/systems commit=$(git rev-parse HEAD) failures=0
  mkdir -p "$logs"
  for number in "${numbers[@]}"; do
    name=bookworm bare=$systems/bare-$number build=$systems/build-$number
    if (( number == 13 )); then name=trixie; fi
    step debootstrap unshare --mount --pid --fork --kill-child --mount-proc bash -c '
      for try in 1 2; do debootstrap --variant=minbase "$@" && exit; done; exit 1' debootstrap "$name" "$bare" || continue
    cp --remove-destination -L /etc/resolv.conf "$bare/etc/resolv.conf"
    cp -a "$bare" "$build"
    git clone -q "$PWD" "$build$PWD"
    git -C "$build$PWD" checkout -q --detach "$commit"
    if [[ -n ${CMAKE_CXX_COMPILER_LAUNCHER-} ]]; then
      step launcher in_system "$build" \
        "apt-get update && apt-get install -y --no-install-recommends ${CMAKE_CXX_COMPILER_LAUNCHER##*/}" || continue
    fi
    for arg in "${steps[@]}"; do run_step "$arg" || true; done  # if a step fails, the others still run
    rm -rf --one-file-system "$bare" "$build"
  done
  if (( failures )); then echo "check: FAILED: systems: $failures steps; logs: $logs" >&2; return 1; fi
  echo "check: systems: nothing found; logs: $logs"
}

# usage: run_step demo|test|wheel|clang; runs the step in the systems of check_systems
run_step() {
  case "$1" in
    demo | test) step "$1" in_system "$build" "./tools/$1" ;;
    wheel)  # built in one system, and installed in the other
      step bdist_wheel in_system "$build" './tools/setup && ./tools/build release heed_python &&
        apt-get install -y --no-install-recommends python3-setuptools python3-wheel && tools/package/wheel'
      mkdir -p "$bare$PWD"
      cp "$build$PWD"/build/release/wheel/*.whl "$bare$PWD"
      if [[ -n ${PIP_CERT-} ]]; then cp -L "$PIP_CERT" "$bare$PWD/pip.pem"; fi  # the certificates of a proxy
      step wheel in_system "$bare" 'apt-get update && apt-get install -y --no-install-recommends python3-venv &&
        python3 -m venv v && v/bin/pip install '"${PIP_CERT:+--cert pip.pem}"' heed-*.whl &&
        v/bin/heed train --out runs/a &&
        v/bin/python -c "
import heed
print(heed.load(\"runs/a\").study(prompt=\"abcab\", of=\"diff:c-d\").sentences[0])"' ;;
    clang)
      step clang in_system "$build" 'clang=$(apt-cache search --names-only "^clang-[0-9]+\$" | cut -d " " -f 1 |
        sort -V | tail -n 1) && apt-get install -y --no-install-recommends $clang && rm -rf build &&
        CXX=${clang/clang/clang++} ./tools/test' ;;
  esac
}

# usage: step NAME COMMAND...; runs COMMAND with its output in a log, and prints one line with the result
step() {
  local title="Debian $number, $1" log=$logs/$number-$1.log start=$SECONDS code=0
  echo "check: $title" >&2
  "${@:2}" > "$log" 2>&1 < /dev/null &
  running=$!
  wait "$running" || code=$?
  running=
  if (( !code )); then echo "check: $title: passed in $((SECONDS - start)) s"; return; fi
  failures=$((failures + 1))
  tail -n 20 "$log" >&2
  echo "check: $title: FAILED with exit code $code after $((SECONDS - start)) s; log: $log"
  return 1
}

# usage: in_system ROOT COMMANDS; replaces this process by a shell that runs COMMANDS in the system ROOT, in the
# checkout. Its processes and its mounts are in namespaces of their own, so the kernel ends them with the shell.
in_system() {
  local variable settings=(PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive)
  for variable in CMAKE_CXX_COMPILER_LAUNCHER http_proxy https_proxy no_proxy "${!CCACHE_@}"; do
    if [[ -n ${!variable-} ]]; then settings+=("$variable=${!variable}"); fi
  done
  mkdir -p "$1${CCACHE_DIR-}"
  exec unshare --mount --pid --fork --kill-child bash -ec '
    for folder in /dev /sys ${CCACHE_DIR-}; do mount --rbind "$folder" "$0$folder"; done
    mount -t proc proc "$0/proc"
    exec chroot "$0" env -i "${@:2}" bash -c "cd \"$PWD\" && $1"' "$1" "$2" "${settings[@]}"
}
