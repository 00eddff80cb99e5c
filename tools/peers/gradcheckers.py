#!/usr/bin/env python3
"""Compares gradient checkers on wrong gradients, and on correct gradients that are difficult to check. The
checkers are torch.autograd.gradcheck, jax.test_util.check_grads, Ceres' GradientChecker and heed's check_vjp
from C++ and from Python, each with its default options. All check the same C++ functions (gradchecker_cases.cpp). Prints the Markdown
table of autograd/check/README.md.

    cmake --build build/release --target heed_gradcheckers heed_python
    python tools/peers/gradcheckers.py
"""
import argparse
import ctypes
import json
import pathlib
import statistics
import subprocess
import sys
import time
import warnings

import numpy as np


class Case:
    """A function and its backward pass, loaded from the shared library."""

    def __init__(self, library, which, index):
        self.library, self.key = library, (which, index)
        library.peer_case_text.restype = ctypes.c_char_p
        self.op, self.what, *numbers = library.peer_case_text(*self.key).decode().split("|")
        self.wrong, self.single, self.transposed, self.outputs, *self.sizes = map(int, numbers)
        self.dtype = np.float32 if self.single else np.float64
        flat = np.empty(sum(self.sizes))
        library.peer_case_x(*self.key, pointer(flat))
        self.x = self.split(flat)

    def split(self, flat):
        return [a.astype(self.dtype) for a in np.split(flat, np.cumsum(self.sizes)[:-1])]

    def forward(self, *xs):
        flat, y = join(xs), np.empty(self.outputs)
        self.library.peer_case_forward(*self.key, pointer(flat), pointer(y))
        return y.astype(self.dtype)

    def backward(self, xs, cotangent):
        flat, v, g = join(xs), join([cotangent]), np.empty(sum(self.sizes))
        self.library.peer_case_backward(*self.key, pointer(flat), pointer(v), pointer(g))
        return self.split(g)


def pointer(array):
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


def join(arrays):
    return np.ascontiguousarray(np.concatenate([np.asarray(a, np.float64).ravel() for a in arrays]))


def check_torch(case):
    import torch

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *xs):
            ctx.save_for_backward(*xs)
            return torch.from_numpy(case.forward(*[memory(x) for x in xs]))

        @staticmethod
        def backward(ctx, cotangent):
            gradients = case.backward([memory(x) for x in ctx.saved_tensors], cotangent.numpy())
            return tuple(like(torch.from_numpy(g), x) for g, x in zip(gradients, ctx.saved_tensors))

    # If the case is transposed, x is a view [3, 4] of memory [4, 3]. The C++ function reads the memory.
    def memory(x):
        return (x.detach().t() if x.dim() == 2 else x.detach()).contiguous().numpy()

    def like(g, x):
        return g.view(x.shape[1], x.shape[0]).t() if x.dim() == 2 else g

    xs = [torch.from_numpy(a.copy()) for a in case.x]
    if case.transposed:
        xs[0] = xs[0].view(4, 3).t()
    xs = [x.requires_grad_() for x in xs]
    return torch.autograd.gradcheck(Function.apply, tuple(xs), raise_exception=False)


def check_jax(case):
    import jax

    result = jax.ShapeDtypeStruct((case.outputs,), case.dtype)
    gradients = [jax.ShapeDtypeStruct((n,), case.dtype) for n in case.sizes]

    @jax.custom_vjp
    def function(*xs):
        return jax.pure_callback(case.forward, result, *xs)

    def backward(xs, cotangent):
        call = lambda v, *at: case.backward(at, v)
        return tuple(jax.pure_callback(call, gradients, cotangent, *xs))

    function.defvjp(lambda *xs: (function(*xs), xs), backward)
    try:
        jax.test_util.check_grads(function, tuple(map(jax.numpy.asarray, case.x)), order=1, modes=["rev"])
    except AssertionError:
        return False
    return True


def check_heed(case):
    import heed

    return heed.check_vjp(case.forward, lambda *a: case.backward(a[:-1], a[-1]), case.x)


def overhead(case):
    """CPU time of a check by the Python package, divided by that of as many calls of the case's functions."""
    start = time.process_time()
    calls = json.loads(check_heed(case).json)
    middle = time.process_time()
    y = case.forward(*case.x)
    for _ in range(calls["forward_calls"]):
        case.forward(*case.x)
    for _ in range(calls["backward_calls"]):
        case.backward(case.x, y)
    return (middle - start) / (time.process_time() - middle)


def run_python(check, cases):
    answers, took = [], 0
    check(cases[0][0])  # a warm-up, so that imports and the first call are not timed
    for which in cases:
        answers.append([])
        for case in which:
            start = time.perf_counter()
            answers[-1].append(bool(check(case)))
            took += (time.perf_counter() - start) * (which is cases[0])
    return {"right": answers, "seconds": took}


def run_program(program):
    """Runs heed's checker. If the program was built with Ceres, also runs Ceres' checker."""
    checkers = {}
    for line in subprocess.run([program], check=True, capture_output=True, text=True).stdout.split():
        name, which, _, right, _, milliseconds = line.split("|")
        checker = checkers.setdefault(name, {"right": [[], []], "seconds": 0})
        checker["right"][int(which)].append(right == "1")
        checker["seconds"] += float(milliseconds) / 1000 * (which == "0")
    return checkers


def summary(cases, checker):
    """Returns the column of one checker: wrong gradients found, correct gradients rejected, digits, seconds."""
    right, resolution = checker["right"]
    caught = sum(c.wrong and not r for c, r in zip(cases, right))
    alarms = sum(not c.wrong and not r for c, r in zip(cases, right))
    return [f"{caught} of {sum(c.wrong for c in cases)}",
            f"{alarms} of {sum(not c.wrong for c in cases)}",
            str(next((d for d, r in enumerate(resolution) if r), len(resolution))),
            f"{checker['seconds']:.3f}"]


def table(cases, checkers, every):
    print("| | " + " | ".join(checkers) + " |\n| --- |" + " --- |" * len(checkers))
    results = [summary(cases, c) for c in checkers.values()]
    for name, cells in zip(["wrong gradients found", "right ones refused", "digits: softmax times 1 + 10^-d found",
                            "seconds for all"], zip(*results)):
        print(f"| {name} | " + " | ".join(cells) + " |")
    agreed = 0
    for i, case in enumerate(cases):
        passed = [c["right"][0][i] for c in checkers.values()]
        if not every and all(p != case.wrong for p in passed):
            agreed += 1
            continue
        words = ["**passes**" if p else "found" for p in passed] if case.wrong else [
            "passes" if p else "**refused**" for p in passed]
        print(f"| {'wrong' if case.wrong else 'right'}: {case.op}, {case.what} | " + " | ".join(words) + " |")
    if agreed:
        print(f"\nAll of them judge the other {agreed} rightly (`--all` lists them).")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release/tools/peers", type=pathlib.Path)
    parser.add_argument("--all", action="store_true", help="print a row for every case")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # PyTorch warns about float32
    library = ctypes.CDLL(str(arguments.build.resolve() / "libheed_gradchecker_cases.so"))
    cases = [[Case(library, which, i) for i in range(library.peer_case_count(which))] for which in (0, 1)]
    checkers = {}
    try:
        import torch

        torch.manual_seed(1)
        checkers[f"torch {torch.__version__.split('+')[0]} gradcheck"] = run_python(check_torch, cases)
    except ImportError:
        print("PyTorch is not installed: left out")
    try:
        import jax
        import jax.test_util

        jax.config.update("jax_enable_x64", True)
        checkers[f"JAX {jax.__version__} check_grads"] = run_python(check_jax, cases)
    except ImportError:
        print("JAX is not installed: left out")
    programs = run_program(arguments.build / "heed_gradcheckers")
    if "Ceres" in programs:
        checkers["Ceres GradientChecker"] = programs["Ceres"]
    else:
        print("built without Ceres (libceres-dev): left out")
    checkers["heed check_vjp"] = programs["heed"]
    sys.path.insert(0, str(arguments.build.resolve().parents[1] / "python"))
    checkers["heed, Python"] = run_python(check_heed, cases)
    ratios = [statistics.median(overhead(c) for _ in range(9)) for c in cases[0] if not c.wrong]
    print("heed, Python: time of a check / time of the same calls, for the right gradients: "
          + ", ".join(f"{r:.1f}" for r in ratios) + "\n")
    table(cases[0], checkers, arguments.all)


if __name__ == "__main__":
    main()
