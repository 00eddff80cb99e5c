"""Exercises: five backward passes in NumPy, checked by check_vjp.

    python -m heed.exercises            # writes heed_exercises.py, a file with five blanks
    python -m heed.exercises FILE.py    # checks each backward pass of the file

Exit codes: 0 all right (or written), 1 a backward pass is blank or not right, 2 usage.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import types

import numpy as np

from . import _exercises as given
from ._problem import Check, UsageError, describe, load

NAMES = ("softmax", "cross_entropy", "layer_norm", "attention", "block")
NEW_FILE = "heed_exercises.py"


def checks(module: types.ModuleType) -> dict[str, Check]:
    """Returns the check of each backward pass of a file. The forward passes are those of the package."""
    random = np.random.default_rng(1).standard_normal
    targets = np.array([1, 4, 0])
    inputs = {"softmax": [(3, 5)], "cross_entropy": [(3, 5)], "layer_norm": [(3, 5), 5, 5],
              "attention": [(5, 4)] * 3, "block": [(5, 4), 4, 4, *[(4, 4)] * 4]}  # fmt: skip
    forward = {**vars(given), "cross_entropy": lambda x: given.cross_entropy(x, targets)}
    backward = {name: getattr(module, f"{name}_backward") for name in NAMES}
    backward["cross_entropy"] = lambda x, dy: module.cross_entropy_backward(x, targets, dy)
    return {name: Check(forward[name], backward[name], list(map(random, inputs[name]))) for name in NAMES}


def check_file(path: str) -> int:
    module = load(path)
    if missing := [name for name in NAMES if not callable(getattr(module, f"{name}_backward", None))]:
        raise UsageError(f"{path} has no function {missing[0]}_backward; a file with all functions is written by "
                         "python -m heed.exercises")  # fmt: skip
    results = []
    for name, check in checks(module).items():
        try:
            report = check.run()
            results.append(bool(report))
            print(f"{name}: {report}")
        except NotImplementedError:
            print(f"{name}: blank")
        except (Exception, SystemExit) as e:
            print(f"{name}: {describe(e, path)}")
    return 0 if results == [True] * len(NAMES) else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m heed.exercises", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("file", nargs="?", metavar="FILE.py", help="the file to check")
    path = parser.parse_args().file
    try:
        if path is not None:
            return check_file(path)
        with open(NEW_FILE, "x") as file:
            file.write(pathlib.Path(given.__file__).read_text())
    except UsageError as e:
        print(f"heed.exercises: {e}", file=sys.stderr)
        return 2
    except OSError as e:
        advice = f"; check it with python -m heed.exercises {NEW_FILE}" if isinstance(e, FileExistsError) else ""
        print(f"heed.exercises: {NEW_FILE} cannot be written: {e.strerror}{advice}", file=sys.stderr)
        return 2
    print(f"Wrote {NEW_FILE}. Fill in its five blanks, then run: python -m heed.exercises {NEW_FILE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
