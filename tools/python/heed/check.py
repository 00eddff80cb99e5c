"""Checks a gradient from a shell and in CI.

    python -m heed.check FILE.py:NAME
    python -m heed.check FILE.py:NAME --inputs 'f64[4,5] f64[5]'

NAME is a function without arguments that returns heed.Check(forward, backward, inputs), or, with --inputs,
a torch.autograd.Function. Prints the report. Exit codes: 0 right, 1 wrong, undecided ("vacuous") or an
exception of the functions, 2 usage.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import math
import pathlib
import re
import sys
import traceback
import types
from collections.abc import Callable, Sequence
from typing import Any

from ._check import Check, Report

MAX_ELEMENTS = 10**7  # of one input
NEEDED = "needs a function without arguments that returns heed.Check, or a torch.autograd.Function"


class UsageError(Exception):
    """A command line or a file that a command cannot use. Its text is the message."""


def load(path: str) -> types.ModuleType:
    """Runs a Python file as a module. Raises UsageError if it is missing or raises an exception."""
    module = types.ModuleType("heed_file")
    module.__file__ = path
    try:
        source = pathlib.Path(path).read_bytes()
    except OSError as e:
        raise UsageError(f"{path} cannot be read: {e.strerror}; give the path of a Python file") from e
    # The file can import files of its folder, as a program can.
    sys.path.insert(0, str(pathlib.Path(path).resolve().parent))
    sys.modules[module.__name__] = module  # dataclasses need it
    try:
        exec(compile(source, path, "exec"), module.__dict__)
    except (Exception, SystemExit) as e:
        if isinstance(e, ModuleNotFoundError) and e.name == "torch":
            raise UsageError(f"{path} needs PyTorch, which is not installed: pip install torch") from e
        raise UsageError(f"{path} cannot be loaded: {describe(e, path)}") from e
    return module


def describe(e: BaseException, path: str) -> str:
    """Returns the type and text of an exception, and the last line of the file `path` that it passed."""
    lines = [frame.lineno for frame in traceback.extract_tb(e.__traceback__) if frame.filename == path]
    return f"{type(e).__name__}: {e}" + (f" ({path}, line {lines[-1]})" if lines else "")


def find(path: str, name: str, inputs: str | None) -> Callable[[], Report]:
    """Returns the check that the command line names. Raises UsageError if there is none."""
    module = load(path)
    value = getattr(module, name, None)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, type) and issubclass(value, torch.autograd.Function):
        if inputs is None:
            raise UsageError(f"'{name}' is a torch.autograd.Function; add inputs, such as --inputs 'f64[4,5] f64[5]'")
        from . import torch as heed_torch

        return functools.partial(heed_torch.check, value, random_inputs(inputs))
    if not callable(value) or isinstance(value, type):
        found = f"'{name}' is a {type(value).__name__}" if hasattr(module, name) else f"{path} has no '{name}'"
        raise UsageError(f"{found}; {NEEDED}")
    if inputs is not None:
        raise UsageError(f"--inputs is given, but '{name}' is not a torch.autograd.Function; remove --inputs")
    try:
        inspect.signature(value).bind()
    except (TypeError, ValueError) as e:
        raise UsageError(f"'{name}' cannot be called without arguments: {e}; {NEEDED}") from e

    def run() -> Report:
        check = value()
        if not isinstance(check, Check):
            raise UsageError(f"'{name}' returns a {type(check).__name__}; needs heed.Check(forward, backward, inputs)")
        return check.run()

    return run


def random_inputs(text: str) -> list[Any]:
    """Returns tensors of normal random numbers, for a text such as "f64[4,5] f64[]"."""
    import torch

    words = re.sub(r"\s*,\s*", ",", text).split()
    shapes = []
    for word in words:
        if not (match := re.fullmatch(r"(f32|f64)\[((?:\d{1,18}(?:,\d{1,18})*)?)\]", word)):
            raise UsageError(f"--inputs: '{word}' is not an input; needs f32 or f64 and the sizes, such as 'f64[4,5]' "
                             "or 'f64[]'")  # fmt: skip
        shapes.append([int(size) for size in match[2].split(",") if size])
        if math.prod(max(n, 1) for n in shapes[-1]) > MAX_ELEMENTS or len(shapes[-1]) > 8:
            raise UsageError(f"--inputs: '{word}' is too large; an input has at most {MAX_ELEMENTS} elements and "
                             "8 axes")  # fmt: skip
    if len(dtypes := {word[:3] for word in words}) != 1:
        raise UsageError(f"--inputs: '{text}' has {'no input' if not dtypes else 'both f32 and f64'}; needs inputs of "
                         "one type, such as 'f64[4,5] f64[5]'")  # fmt: skip
    dtype = torch.float64 if dtypes == {"f64"} else torch.float32
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(s, generator=generator, dtype=dtype).requires_grad_() for s in shapes]


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m heed.check", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("target", metavar="FILE.py:NAME", help="the file, and the name in it")
    parser.add_argument("--inputs", help="types and shapes of the inputs of a torch.autograd.Function")
    arguments = parser.parse_args(words)
    path, colon, name = arguments.target.rpartition(":")
    try:
        if not colon:
            raise UsageError(f"'{arguments.target}' does not have the form FILE.py:NAME")
        check = find(path, name, arguments.inputs)
        try:
            report = check()
        except (UsageError, KeyboardInterrupt):
            raise
        except BaseException as e:  # such as SystemExit, whose code must not become the result
            print(f"{name}: {describe(e, path)}", file=sys.stderr)
            return 1
    except UsageError as e:
        print(f"heed.check: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    print(report)
    return 0 if report else 1


if __name__ == "__main__":
    sys.exit(main())
