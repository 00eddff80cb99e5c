"""heed.Check, and the files that the commands read it from."""

from __future__ import annotations

import inspect
import pathlib
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

from ._check import Report, check_vjp


class Check:
    """A gradient check that has not run yet: the arguments of check_vjp(). `python -m heed.check` runs it.

    >>> import numpy as np
    >>> Check(np.sin, lambda x, dy: np.cos(x) * dy, np.array([0.5, -1.2]), seed=2).run().verdict
    'right'
    """

    def __init__(self, forward: Callable[..., Any], backward: Callable[..., Any], inputs: Any, **options: Any) -> None:
        """Takes the arguments of check_vjp(). Raises TypeError for an option that check_vjp() does not have."""
        inspect.signature(check_vjp).bind(forward, backward, inputs, **options)
        self.forward, self.backward, self.inputs, self.options = forward, backward, inputs, options

    def run(self) -> Report:
        """Returns the report of check_vjp(), and raises its errors."""
        return check_vjp(self.forward, self.backward, self.inputs, **self.options)


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
