#!/usr/bin/env python3
"""Tests of the Python package heed: the doctests, verdicts, wrong uses, signals and threads.

    PYTHONPATH=build/release/python python3 tests/tools/python/heed_test.py
"""
import concurrent.futures
import doctest
import gc
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import traceback
import unittest
import warnings
import weakref

try:
    import numpy as np
except ImportError:
    sys.exit(print("skipped: python3-numpy is not installed"))

import heed
from heed import assert_vjp, check_jvp, check_vjp


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax_backward(x, dy):
    y = softmax(x)
    return y * (dy - (dy * y).sum(-1, keepdims=True))


def square(x):
    return x * x


def square_backward(x, dy):
    return 2 * x * dy


ROOT = pathlib.Path(__file__).resolve().parents[3]
X = np.array([[0.5, -1.25, 0.25], [2.0, 0.75, -0.5]])


class Verdicts(unittest.TestCase):
    def test_right_and_wrong(self):
        for dtype in (np.float64, np.float32):
            self.assertTrue(check_vjp(softmax, softmax_backward, X.astype(dtype)))
            report = check_vjp(softmax, lambda x, dy: softmax(x) * dy, [X.astype(dtype)])
            self.assertFalse(report)
            self.assertEqual(report.verdict, "wrong")
            self.assertEqual(len(report.worst.at), 2)
            self.assertIn(f"input 0 at {list(report.worst.at)}", report.text)
            self.assertRegex(report.text, r"for output \[\d, \d\]")
            self.assertGreater(abs(report.worst.backward - report.worst.differences), report.worst.tolerance)
            self.assertEqual(json.loads(report.json)["verdict"], "wrong")
            self.assertEqual((str(report), repr(report)), (report.text, report.text))

    def test_several_inputs_and_outputs(self):
        def forward(x, a):
            return softmax(x) * a, (x * x).sum()

        def backward(x, a, dy, dz):
            return softmax_backward(x, a * dy) + 2 * x * dz, (softmax(x) * dy).sum()

        def wrong(x, a, dy, dz):
            return backward(x, a, dy, dz)[0], a * 0

        inputs = (X, np.array(1.5))
        self.assertTrue(check_vjp(forward, backward, inputs))
        report = check_vjp(forward, wrong, inputs)
        self.assertEqual((report.worst.input, report.worst.at), (1, ()))
        self.assertRegex(report.text, r"input 1 at \[\]: .* for output 0 at \[\d, \d\]")

    def test_diagnosis(self):
        found = json.loads(check_vjp(softmax, lambda x, dy: -softmax_backward(x, dy), X).json)["diagnosis"]
        text = "likely mistake: constant factor; input 0: 6 of 6 entries are -1 times the right values"
        self.assertEqual(found, {"kind": "constant factor", "factor": -1, "input": 0, "agree": 6, "of": 6, "text": text})
        report = check_vjp(lambda a, b: a - b, lambda a, b, dy: (-dy, dy), [X, X / 3])
        self.assertIn("; possible: constant factor, two inputs exchanged; input 0: 0 of 6 entries are right;", report.text)
        self.assertIsNone(json.loads(report.json)["diagnosis"])
        report = check_vjp(square, lambda x, dy: 2 * x, X)
        self.assertIn("wrong: backward is not linear in dy, the gradient of the output: for dy = 0 it returns 1 for ",
                      report.text)  # fmt: skip
        self.assertEqual(json.loads(report.json)["diagnosis"]["kind"], "not multiplied by dy")

    def test_vacuous(self):
        report = check_vjp(lambda x: 1e20 + x, lambda x, dy: dy, np.array([1.0]))
        self.assertEqual(report.verdict, "vacuous")
        self.assertFalse(report)
        self.assertRaisesRegex(AssertionError, "vacuous", assert_vjp, lambda x: 1e20 + x, lambda x, dy: dy, np.array([1.0]))

    def test_staircases(self):
        for dtype in (np.float64, np.float32):
            x = np.array([0.3, 1.2, -0.7], dtype)
            # Zero, not in jumps: outside of the range of clip, and an input that is not used.
            report = check_vjp(lambda x, unused: np.clip(x, -9, -8), lambda x, unused, dy: (0 * x, 0 * x), [x, x])
            self.assertEqual(report.verdict, "right", report.text)
            self.assertIn("; all 12 wrong versions of the gradient equal the right one there; ", report.text)
            report = check_vjp(lambda x: 0 * x, lambda x, dy: dy, x)  # constant
            self.assertEqual((report.verdict, report.diagnosis), ("wrong", None))

    def test_exceptions_at_the_edge_of_the_domain(self):
        def arcsin_backward(x, dy):
            return dy / np.sqrt(1 - x * x)

        x, y = np.array([0.999]), np.array([1e-3, 2.0])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            reports = [check_vjp(np.arcsin, arcsin_backward, x), check_vjp(np.arcsin, lambda x, dy: dy, x)]
        with np.errstate(all="raise"):
            reports += [check_vjp(np.arcsin, arcsin_backward, x), check_vjp(np.arcsin, lambda x, dy: dy, x),
                        check_vjp(np.log, lambda x, dy: dy / x, y, order=2,
                                  backward2=lambda x, dy, t: (-t * dy / x**2, t / x))]  # fmt: skip
        cholesky = (lambda x: np.linalg.cholesky(np.diag(x))), (lambda x, dy: np.diag(dy) / np.sqrt(4 * x))
        reports.append(check_vjp(*cholesky, y))
        for report, error in zip(reports, ["RuntimeWarning"] * 2 + ["FloatingPointError"] * 3 + ["LinAlgError"]):
            self.assertIn(f"; forward raised {error} at other points than x (not finite there): ", report.text)
        self.assertEqual([bool(r) for r in reports], [True, False, True, False, True, True])

    def test_without_elements(self):
        self.assertEqual(check_vjp(square, square_backward, np.zeros((0, 3))).verdict, "vacuous")
        self.assertEqual(check_vjp(lambda: X, lambda dy: (), []).verdict, "vacuous")
        self.assertTrue(check_vjp(lambda x, e: x * x, lambda x, e, dy: (2 * x * dy, e), [X, np.zeros((2, 0))]))

    def test_options(self):
        reports = [check_vjp(softmax, softmax_backward, X, seed=s) for s in (1, 2, 2)]
        self.assertIn("seed 2", reports[1].text)
        self.assertEqual(reports[1], reports[2])
        big = np.linspace(0, 1, 5000)
        self.assertIn("in 100 of 5000 entries", check_vjp(square, square_backward, big, max_entries=100).text)
        for options in ({"seed": -1}, {"seed": 2**64}, {"max_entries": 0}):
            self.assertRaisesRegex(ValueError, next(iter(options)), check_vjp, square, square_backward, X, **options)
        self.assertRaises(TypeError, check_vjp, square, square_backward, X, seed=1.5)


class Arrays(unittest.TestCase):
    def test_arguments_cannot_be_written(self):
        def forward(x):
            x *= x
            return x

        def backward(x, dy):
            dy *= 2 * x
            return dy

        self.assertRaisesRegex(ValueError, "read-only", check_vjp, forward, square_backward, X)
        self.assertRaisesRegex(ValueError, "read-only", check_vjp, square, backward, X)

    def refused(self, error, text, forward=square, backward=square_backward, inputs=X):
        with self.assertRaisesRegex(error, text):
            check_vjp(forward, backward, inputs)

    def test_wrong_inputs(self):
        self.refused(TypeError, r"inputs\[0\] is int64; needs float64 or float32", inputs=[np.arange(3)])
        self.refused(TypeError, r"inputs\[1\] is float32, but another one is float64", inputs=[X, X.astype(np.float32)])
        self.refused(TypeError, r"inputs\[0\] is float16", inputs=X.astype(np.float16))
        self.refused(TypeError, r"inputs\[0\] is complex128", inputs=X * 1j)
        self.refused(TypeError, "inputs is of type float", inputs=1.0)
        self.refused(ValueError, r"inputs\[0\] is nan at \[1, 2\]", inputs=[np.where(X == -0.5, np.nan, X)])
        self.refused(ValueError, r"inputs\[1\] is inf at \[0\]", lambda x, y: x, inputs=[X, np.array([np.inf])])
        self.refused(ValueError, "input 0 has 9 axes, at most 8", inputs=np.ones((1,) * 9))

    def test_inputs_of_whole_numbers_and_bool(self):
        index, mask = np.array([1, 0, 1]), np.array([True, False, True])

        def forward(index, x, mask, w):
            return (x[index] * w)[mask]

        def backward(index, x, mask, w, dy, factor=1):
            dx, dz = np.zeros(x.shape), np.zeros((3, 3))
            dz[mask] = dy
            np.add.at(dx, index, dz * w)
            return dx * factor, (dz * x[index]).sum(0)

        report = check_vjp(forward, backward, [index, X, mask, X[0]])
        self.assertTrue(report, report.text)
        self.assertIn("9 of 9 entries; ", report.text)
        self.assertTrue(report.text.endswith("; inputs: 0 is argument 1, 1 is argument 3"))
        self.assertFalse(check_vjp(forward, lambda *a: backward(*a, 2), [index, X, mask, X[0]]))
        jvp = check_jvp(lambda i, x: x[i], lambda i, x, t: t[i], [index, X])
        self.assertTrue(jvp, jvp.text)
        self.assertTrue(index.flags.writeable)

    def test_wrong_outputs(self):
        self.refused(TypeError, "forward returned int64 as output 0; needs float64", lambda x: x.argmax())
        self.refused(TypeError, "forward returned float32 as output 1", lambda x: (x, x.astype(np.float32)))
        self.refused(TypeError, "forward returned None as output 0", lambda x: None)
        calls = []

        def grows(x):
            calls.append(0)
            return np.ones(1 + len(calls) // 2)

        self.refused(ValueError, r"forward returned an array of shape \(2,\) as output 0; needs \(1,\)", grows)

        def more(x):
            calls.append(0)
            return (x,) * (1 + len(calls) // 3)

        calls.clear()
        self.refused(ValueError, "forward returned 2 outputs; needs 1, as many as in the first call", more)

    def test_wrong_gradients(self):
        for backward, error, text in [
            (lambda x, dy: dy[0], ValueError, r"backward returned an array of shape \(3,\) as gradient 0; needs \(2, 3\)"),
            (lambda x, dy: (dy, dy), ValueError, "backward returned 2 gradients; needs 1, one for each input"),
            (lambda x, dy: None, TypeError, "backward returned None as gradient 0"),
            (lambda x, dy: dy.astype(np.float32), TypeError, "backward returned float32 as gradient 0"),
            (lambda x: x, TypeError, "positional argument"),
        ]:
            self.refused(error, text, backward=backward)


def matmul_backward(a, b, dy):
    return dy @ b.T, a.T @ dy


class Derivatives(unittest.TestCase):
    """Second derivatives and jvps."""

    def test_second_derivative(self):
        def backward2(x, dy, t):
            return 2 * dy * t, 2 * x * t

        report = check_vjp(square, square_backward, X, backward2=backward2, order=2)
        self.assertTrue(report, report.text)
        self.assertIn("; 16 digits agree with the transposed entries (symmetry) in ", report.text)
        self.assertIn("; order 2, seed 1", report.text)
        report = check_vjp(square, square_backward, X, order=2)
        self.assertEqual(report.verdict, "vacuous")
        self.assertIn("vacuous: order 2: no second derivative; ", report.text)
        self.assertEqual(check_vjp(square, lambda x, dy: x * dy, X, order=2, backward2=backward2).verdict, "wrong")
        self.assertRaisesRegex(ValueError, "order is 3; needs 1 to 2", check_vjp, square, square_backward, X, order=3)
        text = "backward2 returned 1 second gradients; needs 2, one for each input and then for each dy"
        self.assertRaisesRegex(ValueError, text, check_vjp, square, square_backward, X, order=2,
                               backward2=lambda x, dy, t: x)  # fmt: skip

    def test_jvp(self):
        def jvp(a, b, s, t):
            return s @ b + a @ t

        a, b = X, X.T + 1
        self.assertTrue(check_jvp(np.matmul, jvp, [a, b]))
        self.assertTrue(check_jvp(np.matmul, jvp, [a, b], backward=lambda a, b, dy: (dy @ b.T, a.T @ dy)))
        self.assertIn("jvp returns ", check_jvp(np.matmul, lambda a, b, s, t: s @ b, [a, b]).text)
        report = check_jvp(np.matmul, jvp, [a, b], backward=lambda a, b, dy: (dy @ b.T, -a.T @ dy))
        self.assertEqual(report.verdict, "wrong")
        text = r"array of shape \(2, 3\) as tangent 0; needs \(2, 2\), that of its output"
        with self.assertRaisesRegex(ValueError, text):
            check_jvp(np.matmul, lambda a, b, s, t: a, [a, b])


class Calls(unittest.TestCase):
    """Memory layouts of the arguments, and repeated calls."""

    inputs = [np.linspace(-1, 2, 12).reshape(3, 4) ** 2, np.linspace(1, -2, 20).reshape(4, 5)]

    def check(self, backward, **options):
        return check_vjp(np.matmul, backward, self.inputs, **options)

    def test_right(self):
        seen = []

        def backward(a, b, dy):
            seen.extend((x.shape, x.strides) for x in (a, b, dy))
            self.assertFalse(any(x.flags.writeable for x in (a, b, dy)))
            return matmul_backward(a, b, dy)

        report = self.check(backward)
        self.assertTrue(report, report.text)
        self.assertIn("; layouts 6 of 6, repeated 4 of 4; missing gradient: not in NumPy; ", report.text)
        self.assertEqual(report.layouts, {"passed": 6, "of": 6, "not_applicable": ["missing gradient: not in NumPy"]})
        self.assertEqual((report.repeated["passed"], report.repeated["of"], report.diagnosis), (4, 4, None))
        for x in [((3, 5), (8, 24)), ((3, 5), (80, 16)), ((3, 5), (40, -8)), ((3, 5), (0, 0)), ((4, 5), (8, 32))]:
            self.assertIn(x, seen)
        seen.clear()
        report = self.check(backward, layouts=False)
        self.assertIn("; layouts: not applicable, repeated 4 of 4; ", report.text)
        self.assertEqual(set(seen), {((3, 4), (32, 8)), ((4, 5), (40, 8)), ((3, 5), (40, 8))})

    def test_wrong_strides(self):
        def as_if_contiguous(x):
            return np.lib.stride_tricks.as_strided(x, x.shape, (8 * x.shape[1], 8))

        report = self.check(lambda a, b, dy: matmul_backward(a, b, as_if_contiguous(dy)))
        self.assertIn("wrong: with the gradient of output 0 transposed in memory, backward returns ", report.text)
        self.assertIn("; layouts 2 of 6, repeated 4 of 4; ", report.text)
        self.assertIn("wrong: with input 0 transposed in memory, backward returns ",
                      self.check(lambda a, b, dy: matmul_backward(as_if_contiguous(a), b, dy)).text)

    def test_changed_arguments(self):
        def writes(x):
            x.flags.writeable = True  # as a compiled function that ignores the flag
            x[0, 0] += 1

        def change_dy(a, b, dy):
            gradients = matmul_backward(a, b, dy)
            writes(dy)
            return gradients

        self.assertIn("wrong: backward changes the gradient of output 0 at [0, 0]; it must only read its arguments; ",
                      self.check(change_dy).text)

    def test_a_mask_that_forward_keeps(self):
        kept = {}

        def forward(x):
            kept["mask"] = x > 0
            return x * kept["mask"]

        def maximum(x):
            kept["mask"] = x == x.max()
            return x.max(keepdims=True)

        for function, x in (forward, X), (forward, X[:1, :1]), (maximum, np.exp(X[:1])):
            self.assertEqual(check_vjp(function, lambda x, dy: dy * kept["mask"], x).verdict, "wrong")
        self.assertEqual(check_vjp(forward, lambda x, dy: dy * (x > 0), X).verdict, "right")

        def keeps_first(x):
            kept.setdefault(x.shape, x > 0)
            return np.maximum(x, 0)

        kept.clear()
        report = check_vjp(keeps_first, lambda x, dy: dy * kept[x.shape], X)
        self.assertIn("wrong: at another point, with each input in reversed order, backward returns ", report.text)
        ascending = np.array([0.1, 0.5, 2.0])  # as a grid, whose order the function needs
        self.assertTrue(check_vjp(square, lambda x, dy: 2 * np.sort(x) * dy, ascending))

    def test_threads_and_a_result_in_an_array_that_is_used_again(self):
        def verdict(backward):
            kept = np.empty_like(X)
            return check_vjp(lambda x: np.multiply(x, x, out=kept), backward, X).verdict

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            verdicts = list(pool.map(verdict, [square_backward, lambda x, dy: x * dy] * 15))
        self.assertEqual(verdicts, ["right", "wrong"] * 15)

    def test_a_result_that_drifts(self):
        calls = []

        def backward(x, dy):
            calls.append(dy)
            return 2 * x * dy * (1 + 3e-6 * (len(calls) % 2))

        self.assertEqual(heed.check_vjp(lambda x: x * x, backward, np.array([0.5, -1.2])).verdict, "wrong")

    def test_a_sample_of_inputs_of_different_sizes(self):
        x, y = np.linspace(1, 2, 16), np.linspace(2, 3, 1000)
        report = heed.check_vjp(lambda x, y: x * 3 + y.sum(),
                                lambda x, y, dy: (2 * dy, np.full(1000, dy.sum())), [x, y], max_entries=1)  # fmt: skip
        self.assertEqual(report.verdict, "wrong", report.text)

    def test_a_function_that_only_accepts_contiguous_arrays(self):
        def backward(a, b, dy):
            if not dy.flags.c_contiguous:
                raise ValueError("dy is not contiguous")
            return matmul_backward(a, b, dy)

        with self.assertRaisesRegex(ValueError, "dy is not contiguous") as caught:
            self.check(backward)
        if sys.version_info >= (3, 11):
            self.assertIn("pass layouts=False", caught.exception.__notes__[0])
        self.assertTrue(self.check(backward, layouts=False))


class Interruptions(unittest.TestCase):
    def test_exceptions_pass_through_or_are_named_at_every_call(self):
        class Stop(Exception):
            pass

        calls = 0
        fails_at = 0

        def counted(x):
            nonlocal calls
            calls += 1
            if calls == fails_at:
                raise Stop(fails_at)
            return square(x)

        def counted_backward(x, dy):
            return 2 * x * dy + 0 * counted(x)

        check_vjp(counted, counted_backward, X)
        for fails_at in range(1, calls + 1):
            calls = 0
            try:
                report = check_vjp(counted, counted_backward, X)
                self.assertRegex(report.text, f"ward raised Stop (at other|with an input) .*: {fails_at}$")
            except Stop as e:
                self.assertEqual(traceback.extract_tb(e.__traceback__)[-1].name, "counted")
                self.assertEqual(calls, fails_at)
        self.assertTrue(check_vjp(square, square_backward, X))

    def test_ctrl_c_at_any_moment(self):
        x = np.linspace(0, 1, 300)
        interrupted = 0
        for i in range(40):
            timer = threading.Timer(0.0005 + 0.0007 * i, os.kill, (os.getpid(), signal.SIGINT))
            try:
                timer.start()
                self.assertTrue(check_vjp(square, square_backward, x))
                while timer.is_alive():
                    time.sleep(0.001)
                time.sleep(0.001)
            except KeyboardInterrupt:
                interrupted += 1
            timer.join()
        self.assertEqual(interrupted, 40)
        self.assertTrue(check_vjp(square, square_backward, x))

    def test_other_handlers(self):
        class Timeout(Exception):
            pass

        def expire(number, frame):
            raise Timeout

        x = np.linspace(0, 1, 300)
        before = signal.signal(signal.SIGALRM, expire)
        try:
            for i in range(30):
                signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.0005 * i)
                with self.assertRaises(Timeout):
                    while True:
                        check_vjp(square, square_backward, x)
            self.assertIs(signal.getsignal(signal.SIGALRM), expire)
        finally:
            signal.signal(signal.SIGALRM, before)

        def installs(x):
            signal.signal(signal.SIGALRM, expire)
            return x

        check_vjp(installs, lambda x, dy: dy, X)
        self.assertIs(signal.signal(signal.SIGALRM, before), expire)

    def test_the_interpreter_ends_while_a_thread_checks(self):
        program = ("import heed, numpy as np, threading, time, sys\n"
                   "x = np.linspace(0, 1, 3000)\n"
                   "work = lambda: [heed.check_vjp(np.exp, lambda x, dy: np.exp(x) * dy, x) for _ in range(99)]\n"
                   "threading.Thread(target=work, daemon=True).start()\n"
                   "time.sleep(0.3)\n")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_nothing_is_kept(self):
        class Callable:
            def __call__(self, x):
                raise ValueError("no")

        for forward in (square, Callable()):
            f = (lambda g: lambda x: g(x))(forward)
            reference = weakref.ref(f)
            try:
                check_vjp(f, square_backward, X)
            except ValueError:
                pass
            del f
            gc.collect()
            self.assertIsNone(reference())


class Package(unittest.TestCase):
    def test_doctests(self):
        for module in (heed, heed._check):
            result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
            self.assertEqual(result.failed, 0)
            self.assertGreater(result.attempted, 1)

    def test_version(self):
        if (cmake := ROOT / "CMakeLists.txt").exists():
            self.assertIn(f"project(heed VERSION {heed.__version__} ", cmake.read_text())
            self.assertIn(f'version = "{heed.__version__}"', (ROOT / "tools/python/pyproject.toml").read_text())


if __name__ == "__main__":
    unittest.main()
