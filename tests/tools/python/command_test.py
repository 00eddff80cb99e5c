#!/usr/bin/env python3
"""Tests of python -m heed.check: exit codes and messages.

    PYTHONPATH=build/release/python python3 tests/tools/python/command_test.py
"""
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy  # noqa: F401 (the files need it)
except ImportError:
    sys.exit(print("skipped: python3-numpy is not installed"))

try:
    import torch
except ImportError:
    torch = None

import heed.check

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(pathlib.Path(heed.__file__).absolute().parents[1])}
FILE = """
import sys
import numpy as np
import heed
from helper import square_backward

def square(x):
    return x * x

def right():
    return heed.Check(square, square_backward, np.array([1.0, -2.0]), seed=3)

def wrong():
    return heed.Check(square, lambda x, dy: x * dy, np.array([1.0, -2.0]))

def undecided():
    return heed.Check(lambda x: 1e20 + x, lambda x, dy: dy, np.array([1.0]))

def raises():
    return heed.Check(lambda x: 1 / 0 * x, square_backward, np.array([1.0]))

def leaves():
    return heed.Check(lambda x: sys.exit(0), square_backward, np.array([1.0]))

def leaves_at_once():
    sys.exit(0)

def integers():
    return heed.Check(square, square_backward, np.array([1, 2]))

def misspelled():
    return heed.Check(square, square_backward, np.array([1.0]), sede=3)

def number():
    return 3

def with_argument(x):
    return right()

constant = 3
"""
FUNCTIONS = """
import torch

class Product(torch.autograd.Function):
    factor = 1

    @staticmethod
    def forward(ctx, x, a):
        ctx.save_for_backward(x, a)
        return x * a

    @classmethod
    def backward(cls, ctx, dy):
        x, a = ctx.saved_tensors
        return cls.factor * dy * a, (dy * x).sum(0)

class Wrong(Product):
    factor = 2

class Raises(Product):
    @staticmethod
    def backward(ctx, dy):
        raise OverflowError("too large")
"""


class Folder(unittest.TestCase):
    """A folder with the files, and the command in it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.write("my.py", FILE)
        self.write("helper.py", "def square_backward(x, dy):\n    return 2 * x * dy\n")
        self.write("functions.py", FUNCTIONS)

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def run_it(self, *arguments, start=("-m", "heed.check")):
        # -W error: the module must not be imported twice.
        command = [sys.executable, "-W", "error::RuntimeWarning", *start, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, env=ENVIRONMENT)
        self.assertNotIn("Traceback", done.stderr)
        return done

    def run_here(self, target, *arguments):
        """Runs the command in this process, which has imported PyTorch already."""
        texts = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(texts[0]), contextlib.redirect_stderr(texts[1]):
            code = heed.check.main([str(self.folder / target), *arguments])
        return subprocess.CompletedProcess(target, code, *(text.getvalue() for text in texts))

    def expect(self, code, text, *arguments, **options):
        done = self.run_it(*arguments, **options)
        self.assertEqual(done.returncode, code, done)
        self.assertRegex(done.stderr if code == 2 or not done.stdout else done.stdout, text)
        self.assertEqual(bool(done.stdout), not done.stderr)  # one message


class Command(Folder):
    def test_verdicts(self):
        self.expect(0, "^right: .*seed 3", "my.py:right")
        self.expect(1, "^wrong: input 0", "my.py:wrong")
        self.expect(1, "^vacuous: ", "my.py:undecided")
        self.expect(0, "^right: ", str(self.folder / "my.py:right"))

    def test_functions_that_raise(self):
        self.expect(1, r"^raises: ZeroDivisionError: division by zero \(my.py, line 20\)\n$", "my.py:raises")
        self.expect(1, r"^leaves: SystemExit: 0", "my.py:leaves")
        self.expect(1, r"^leaves_at_once: SystemExit: 0", "my.py:leaves_at_once")
        self.expect(1, r"^integers: TypeError: inputs\[0\] is int64; needs float64", "my.py:integers")
        self.expect(1, r"^misspelled: TypeError: .*'sede'", "my.py:misspelled")

    def test_usage(self):
        self.expect(2, "nofile.py cannot be read: No such file", "nofile.py:right")
        self.expect(2, "cannot be read: Is a directory", ".:right")
        self.expect(2, "'my.py' does not have the form FILE.py:NAME", "my.py")
        self.expect(2, "my.py has no 'nothing'; needs a function without arguments that returns heed", "my.py:nothing")
        self.expect(2, "'constant' is a int; needs a function without arguments", "my.py:constant")
        self.expect(2, "'number' returns a int; needs heed.Check", "my.py:number")
        self.expect(2, "'with_argument' cannot be called without arguments: .*'x'", "my.py:with_argument")
        self.expect(2, "'right' is not a torch.autograd.Function; remove --inputs", "my.py:right", "--inputs", "f64[2]")
        self.expect(2, "the following arguments are required: FILE.py:NAME")
        self.expect(0, "usage: python -m heed.check", "--help")

    def test_files_that_do_not_load(self):
        for text, message in [
            ("x = (", r"SyntaxError: .*line 1"),
            ("import sys\nsys.exit(0)", r"SystemExit: 0 \(bad.py, line 2\)"),
            ("import no_such_module", r"ModuleNotFoundError: No module named 'no_such_module' \(bad.py, line 1\)"),
            ("open('no_such_file')", r"FileNotFoundError: .*no_such_file.* \(bad.py, line 1\)"),
        ]:
            self.write("bad.py", text)
            self.expect(2, "bad.py cannot be loaded: " + message, "bad.py:f")

    def test_without_torch(self):
        program = "import runpy, sys; sys.modules['torch'] = None; runpy.run_module('heed.check', run_name='__main__')"
        self.expect(2, "functions.py needs PyTorch, which is not installed: pip install torch",
                    "functions.py:Product", "--inputs", "f64[2]", start=("-c", program))

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_torch_functions(self):
        self.run_it = self.run_here
        for inputs in ("f64[4,5] f64[5]", "f32[4, 5]  f32[5]"):
            self.expect(0, "^right: ", "functions.py:Product", "--inputs", inputs)
            self.expect(1, "^wrong: input 0", "functions.py:Wrong", "--inputs", inputs)
        self.expect(1, "^Raises: OverflowError: too large", "functions.py:Raises", "--inputs", "f64[2,2] f64[2]")
        self.expect(2, "'Product' is a torch.autograd.Function; add inputs", "functions.py:Product")
        for inputs, message in [("f64[4,5", r"'f64\[4,5' is not an input"), ("i64[4]", "is not an input"),
                                ("f64[-1]", "is not an input"), ("", "has no input"),
                                ("f64[2] f32[2]", "both f32 and f64"),
                                ("f64[99999999999]", "is too large"), ("f64[1,1,1,1,1,1,1,1,1]", "8 axes")]:
            self.expect(2, message, "functions.py:Product", "--inputs", inputs)


if __name__ == "__main__":
    unittest.main()
