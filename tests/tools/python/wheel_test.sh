#!/usr/bin/env bash
# Builds the wheel of the Python package, unpacks it and runs its tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# usage: wheel_test.sh PYTHON, a Python that has NumPy
python=$1
for module in numpy setuptools wheel; do
  "$python" -c "import $module" 2> /dev/null || { echo "skipped: python3-$module is not installed"; exit 0; }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tools/package/wheel "$scratch"
wheel=("$scratch"/heed-*.whl)
[[ ${wheel[0]} == */heed-0.1.0-py3-none-manylinux_2_*_"$(uname -m)".whl ]] || { echo "wrong name: ${wheel[0]}"; exit 1; }
"$python" -m zipfile -e "${wheel[0]}" "$scratch/site"
for name in heed command attention page; do PYTHONPATH=$scratch/site "$python" tests/tools/python/${name}_test.py; done
if ! readelf -d "$scratch/site/heed/libheed_check.so" | grep -qF 'runpath: [$ORIGIN]'; then
  echo "the library of the wheel searches other folders than its own"
  exit 1
fi
# The library may need only its own folder and the C and C++ libraries.
if needed=$(ldd "$scratch/site/heed/libheed_check.so" |
  grep -vE "libhwy.* => $scratch/site/heed/|lib(stdc\+\+|m|gcc_s|c)\.so|linux-vdso|ld-linux"); then
  echo "the library of the wheel needs: $needed"
  exit 1
fi
