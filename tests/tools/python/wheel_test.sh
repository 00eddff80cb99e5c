#!/usr/bin/env bash
# Builds the wheel of the Python package, installs it in a virtual environment and runs its tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# usage: wheel_test.sh PYTHON, a Python that has NumPy
python=$1
for module in numpy setuptools wheel ensurepip; do
  "$python" -c "import $module" 2> /dev/null || { echo "skipped: $module of $python is not installed"; exit 0; }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "$1"; exit 1; }
tools/package/wheel "$scratch"
wheel=("$scratch"/heed-*.whl)
[[ ${wheel[0]} == */heed-0.1.0-py3-none-manylinux_2_*_"$(uname -m)".whl ]] || fail "wrong name: ${wheel[0]}"
(( $(stat -c %s "${wheel[0]}") <= 6000000 )) || fail "the wheel is larger than 6 MB"
"$python" -m venv "$scratch/v"
"$python" -c 'import numpy, os; print(os.path.dirname(numpy.__path__[0]))' > "$(echo "$scratch"/v/lib/python3*/site-packages)/numpy.pth"
"$scratch/v/bin/pip" --quiet --disable-pip-version-check install --no-index "${wheel[0]}"
auditwheel=$(command -v auditwheel || true)
export PATH=$scratch/v/bin:/usr/bin:/bin  # without another heed
unset PYTHONPATH
package=$(python -c 'import heed; print(heed.__path__[0])')
[[ $package == "$scratch"/v/* ]] || fail "imported $package"
[[ $(heed --version) == *"heed 0.1.0 "* && $(command -v heed) == "$scratch/v/bin/heed" ]] || fail "no command heed"
for name in heed attention page runs; do python tests/tools/python/${name}_test.py; done
if ! readelf -d "$package/libheed_check.so" | grep -qF 'runpath: [$ORIGIN]' ||
   ! readelf -d "$package/bin/heed" | grep -qF 'runpath: [$ORIGIN/..]'; then
  fail "a binary of the wheel searches other folders than its own"
fi
# The binaries may need only the package and the C and C++ libraries, in versions that the tag permits.
binaries=("$package/bin/heed" "$package"/lib*.so*)
if needed=$(ldd "${binaries[@]}" |
  grep -vE "^/|=> $package/|lib(stdc\+\+|m|gcc_s|c)\.so|linux-vdso|ld-linux"); then
  fail "the wheel needs: $needed"
fi
if [[ -n $auditwheel ]]; then
  platform=${wheel[0]##*-none-}
  "$auditwheel" show "${wheel[0]}" | tr -d '\n' | grep -qF "\"${platform%.whl}\"" || fail "auditwheel permits another tag"
fi
