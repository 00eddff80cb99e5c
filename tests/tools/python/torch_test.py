#!/usr/bin/env python3
"""Tests of heed.torch: doctests, Functions, modules, inputs and outputs without gradients, random state, errors.

    PYTHONPATH=build/release/python python3 tests/tools/python/torch_test.py
"""
import doctest
import sys
import unittest

try:
    import torch
except ImportError:
    sys.exit(print("skipped: PyTorch is not installed"))

import heed.torch
from heed.torch import check

torch.set_num_threads(1)  # small tensors: several threads would mostly wait for each other


class Softmax(torch.autograd.Function):
    """Softmax over the last axis. With `wrong`, the gradient lacks the sum over the row."""

    wrong = False

    @classmethod
    def forward(cls, ctx, x):
        y = torch.exp(x - x.amax(-1, keepdim=True))
        y = y / y.sum(-1, keepdim=True)
        ctx.save_for_backward(y)
        return y

    @classmethod
    def backward(cls, ctx, dy):
        (y,) = ctx.saved_tensors
        return y * (dy - (0 if cls.wrong else (dy * y).sum(-1, keepdim=True)))


class WrongSoftmax(Softmax):
    wrong = True


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x * x

    @staticmethod
    def backward(ctx, dy):
        return 2 * ctx.saved_tensors[0] * dy


def leaf(*shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*shape, dtype=dtype, generator=generator).requires_grad_()


class Torch(unittest.TestCase):
    def test_functions(self):
        for dtype in (torch.float64, torch.float32):
            x = leaf(2, 3, dtype=dtype)
            self.assertTrue(check(Softmax, x))
            report = check(WrongSoftmax, (x,))
            self.assertEqual(report.verdict, "wrong")
            self.assertEqual(len(report.worst.at), 2)
            self.assertTrue(check(lambda a: Softmax.apply(a).log(), x))
            self.assertIsNone(x.grad)

    def test_strides(self):
        wide, strides = leaf(3, 4).detach(), []

        def f(x):
            strides.append(x.stride())
            return x.exp()

        for x, expected in [(wide.t(), (1, 4)), (wide[:, ::2], (4, 2)), (wide[0].expand(3, 4), (4, 1))]:
            strides.clear()
            self.assertTrue(check(f, x.detach().requires_grad_(), layouts=False))
            self.assertEqual(set(strides), {expected})

    def test_modules(self):
        x = leaf(4, 3)
        module = torch.nn.Sequential(torch.nn.Linear(3, 5, bias=False), torch.nn.BatchNorm1d(5), torch.nn.GELU()).double()
        before = {n: b.clone() for n, b in module.state_dict().items()}
        report = check(module, x)
        self.assertTrue(report, report.text)
        self.assertIn("in 37 of 37 entries", report.text)  # 12 of x and 25 of the parameters
        self.assertIn("1 is parameter 0.weight", report.text)
        for name, value in module.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)

        class Scaled(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = torch.nn.Parameter(torch.tensor(2.0, dtype=torch.float64))

            def forward(self, x):
                return WrongSoftmax.apply(x * self.scale)

        self.assertEqual(check(Scaled(), x.detach()).verdict, "wrong")
        for dtype in (torch.float64, torch.float32):
            report = check(torch.nn.Embedding(5, 3, sparse=True, dtype=dtype), torch.tensor([0, 1, 1]))
            self.assertTrue(report, report.text)

    def test_inference_mode(self):
        with torch.inference_mode():
            x, scale = leaf(3, 4), torch.full((4,), 2.0, dtype=torch.float64)
            for function, verdict in (Softmax, "right"), (WrongSoftmax, "wrong"):
                self.assertEqual(check(lambda x, s: function.apply(x) * s, (x, scale)).verdict, verdict)
            self.assertTrue(heed.torch.check_jvp(torch.nn.Linear(4, 2).double(), x))

    def test_assert_check(self):
        heed.torch.assert_check(Softmax, leaf(3, 4))
        self.assertRaisesRegex(AssertionError, r"^wrong: input 0 at \[\d, \d\]: ", heed.torch.assert_check, WrongSoftmax,
                               leaf(3, 4), seed=2)  # fmt: skip

    def test_inputs_without_a_gradient_are_left_alone(self):
        index, mask, seen = torch.tensor([2, 0]), torch.tensor([True, False, True]), []

        def f(index, x, mask, power, w):
            seen.append((index, mask, power))
            return (x[index] * w).masked_fill(~mask, 0) ** power

        report = check(f, (index, leaf(3, 3), mask, 2, leaf(3)))
        self.assertTrue(report, report.text)
        self.assertIn("inputs: 0 is argument 1, 1 is argument 4", report.text)
        self.assertTrue(all(a is index and b is mask and c == 2 for a, b, c in seen))

    def test_outputs_without_a_gradient_are_named(self):
        report = check(lambda x: (x.argmax(), x * x, x.detach(), "text"), leaf(3))
        self.assertTrue(report)
        self.assertIn("result 0 (torch.int64) requires no gradient: left out", report.text)
        self.assertIn("result 2 (torch.float64) requires no gradient", report.text)
        self.assertIn("result 3 (str)", report.text)
        self.assertIn("outputs: 0 is result 1", report.text)
        self.assertTrue(check(lambda x, unused: x * x, (leaf(3), leaf(2))))  # its gradient is 0

    def test_nested_outputs_and_inputs(self):
        x = leaf(2, 3)
        for f in (lambda x: (x * 2, (WrongSoftmax.apply(x),)), lambda x: {"a": x, "b": [WrongSoftmax.apply(x)]}):
            self.assertEqual(check(f, x).verdict, "wrong")
        lstm = torch.nn.LSTM(3, 2).double()
        report = check(lstm, leaf(4, 3))
        self.assertTrue(report, report.text)
        self.refused(TypeError, "argument 1 is a tuple that contains a tensor that requires a gradient",
                     lambda x, state: x, (x, (x, x)))

    def test_layouts(self):
        seen = []

        class Right(Softmax):
            @staticmethod
            def backward(ctx, dy):
                seen.append((dy.stride(), dy.storage_offset() > 0))
                return Softmax.backward(ctx, dy)

        report = check(Right, leaf(3, 4))
        self.assertTrue(report, report.text)
        self.assertIn("; layouts 5 of 5, repeated 4 of 4; negative strides: not in PyTorch; "
                      "missing gradient: one output; ", report.text)  # fmt: skip
        self.assertEqual(set(seen), {((4, 1), False), ((4, 1), True), ((1, 3), True), ((8, 2), True), ((0, 0), True)})
        self.assertTrue(check(lambda x: x.sum(1), leaf(3, 4)))
        for dtype in (torch.float64, torch.float32):  # a constant dy has a gradient of 0, apart from rounding
            batch_norm = torch.nn.BatchNorm1d(5, affine=False).to(dtype)
            report = check(batch_norm, leaf(4, 5, dtype=dtype))
            self.assertTrue(report, report.text)
            self.assertTrue(check(torch.nn.functional.instance_norm, leaf(2, 3, 7, dtype=dtype)))

        class ViewsDy(Softmax):
            @staticmethod
            def backward(ctx, dy):
                return Softmax.backward(ctx, dy.view(-1).view(dy.shape))

        self.refused(RuntimeError, "view size is not compatible", ViewsDy, leaf(3, 4))

        def rotary(x):  # as Llama's, which needs pairs of numbers that are contiguous
            turns = torch.polar(torch.ones(3, 2, dtype=x.dtype), torch.arange(6, dtype=x.dtype).view(3, 2))
            return torch.view_as_real(torch.view_as_complex(x.reshape(3, 2, 2)) * turns).flatten(-2)

        for order in (1, 2):
            report = check(rotary, leaf(3, 4), order=order)
            self.assertTrue(report, report.text)
            self.assertIn("; every second element: inputs that forward does not accept; ", report.text)
            self.assertIn("; forward raised RuntimeError with an input in another layout: Tensor must ", report.text)
        self.assertEqual(check(lambda x: rotary(WrongSoftmax.apply(x)), leaf(3, 4)).verdict, "wrong")
        self.assertTrue(check(lambda x: torch.view_as_real(torch.fft.fft(x)), leaf(3, 4)))
        self.assertTrue(check(ViewsDy, leaf(3, 4), layouts=False))

    def test_a_missing_gradient(self):
        class Two(torch.autograd.Function):
            wrong = False

            @classmethod
            def forward(cls, ctx, x):
                ctx.save_for_backward(x)
                ctx.set_materialize_grads(False)
                return x * x, x.exp()

            @classmethod
            def backward(cls, ctx, dy, dz):
                (x,) = ctx.saved_tensors
                if dy is None and cls.wrong:
                    return torch.zeros_like(x)
                return sum(g * d for g, d in ((2 * x, dy), (x.exp(), dz)) if d is not None)

        class Wrong(Two):
            wrong = True

        report = check(Two, leaf(3, 4))
        self.assertTrue(report, report.text)
        self.assertIn("; layouts 6 of 6, repeated 4 of 4; negative strides: not in PyTorch; ", report.text)
        report = check(Wrong, leaf(3, 4))
        self.assertIn("wrong: with the gradient of output 0 missing, backward returns 0 ", report.text)

    def test_repeated_calls(self):
        class Kept(Softmax):
            """Keeps y outside of save_for_backward, and changes it in the backward pass."""

            @staticmethod
            def forward(ctx, x):
                ctx.y = torch.softmax(x, -1)
                return ctx.y.clone()

            @staticmethod
            def backward(ctx, dy):
                dx = ctx.y * (dy - (dy * ctx.y).sum(-1, keepdim=True))
                ctx.y.zero_()
                return dx

        self.assertIn("wrong: the second backward after one forward returns ", check(Kept, leaf(3, 4)).text)

        class Freed(Kept):
            @staticmethod
            def backward(ctx, dy):
                if ctx.y is None:
                    raise RuntimeError("backward a second time")
                y, ctx.y = ctx.y, None
                return y * (dy - (dy * y).sum(-1, keepdim=True))

        report = check(Freed, leaf(3, 4))
        self.assertTrue(report, report.text)
        self.assertIn(", repeated 3 of 3; ", report.text)
        self.assertIn("; backward twice: single use; ", report.text)

        buffer = torch.empty(3, 4, dtype=torch.float64)

        class Buffer(Softmax):
            @staticmethod
            def backward(ctx, dy):
                return buffer.copy_(Softmax.backward(ctx, dy)).view(3, 4)

        self.assertIn("wrong: backward changes the gradient of input 0 at [0, 0], which an earlier backward returned",
                      check(Buffer, leaf(3, 4)).text)

        class ChangesDy(Softmax):
            @staticmethod
            def backward(ctx, dy):
                dx = Softmax.backward(ctx, dy)
                dy.mul_(2)
                return dx

        self.assertIn("wrong: backward changes the gradient of output 0 at [0, 0]; it must only read its arguments; ",
                      check(ChangesDy, leaf(3, 4), layouts=False).text)

    def test_changes_in_place(self):
        class Backward(Softmax):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x.exp()

            @staticmethod
            def backward(ctx, dy):
                return ctx.saved_tensors[0].exp_() * dy

        class Output(Softmax):
            @staticmethod
            def backward(ctx, dy):
                return ctx.saved_tensors[0].mul_(dy)

        self.refused(RuntimeError, "the backward pass changes an output in place", Output, leaf(3))
        self.assertRegex(check(Backward, leaf(3)).text, "^wrong: backward changes input 0 at .* only read its arguments; ")

    def test_second_derivative(self):
        class Cube(torch.autograd.Function):
            """x ** 3. With `detaches`, the backward pass loses what depends on x."""

            detaches = False

            @classmethod
            def forward(cls, ctx, x):
                ctx.save_for_backward(x)
                return x**3

            @classmethod
            def backward(cls, ctx, dy):
                (x,) = ctx.saved_tensors
                return 3 * (x.detach() if cls.detaches else x) ** 2 * dy

        class Detaches(Cube):
            detaches = True

        class Once(Cube):
            @staticmethod
            @torch.autograd.function.once_differentiable
            def backward(ctx, dy):
                return Cube.backward(ctx, dy)

        report = check(Cube, leaf(3, 4), order=2)
        self.assertTrue(report, report.text)
        self.assertIn(" with the transposed entries (symmetry) in ", report.text)
        self.assertTrue(check(Detaches, leaf(3, 4)))
        self.assertRegex(check(Detaches, leaf(3, 4), order=2).text,
                         r"wrong: order 2 .*: input 0 at \[\d, \d\]: backward2 returns 0, ")
        attention = torch.nn.functional.scaled_dot_product_attention
        composition = (lambda x: Once.apply(x).exp(), leaf(3))
        for function, x in (Once, leaf(3, 4)), composition, (lambda x: attention(x, x, x), leaf(1, 1, 4, 8)):
            self.assertTrue(check(function, x))
            report = check(function, x, order=2)
            self.assertEqual(report.verdict, "vacuous")
            self.assertIn("order 2: no second derivative; ", report.text)
        self.assertTrue(check(torch.matmul, (leaf(3, 4), leaf(4, 5)), order=2))
        self.assertTrue(check(torch.nn.Linear(3, 2).double(), leaf(4, 3), order=2))
        self.refused(ZeroDivisionError, "", lambda x: x * (1 // 0), leaf(3), order=2)
        for function in torch.cos, torch.sigmoid, lambda x: x.softmax(-1):  # may be undecided
            zeros = torch.zeros(3, dtype=torch.float64, requires_grad=True)
            self.assertNotEqual(check(function, zeros, order=2).verdict, "wrong")
        self.assertTrue(check(torch.abs, leaf(3), order=2))  # its second derivative is a ZeroTensor

    def test_jvp(self):
        class Right(Square):
            factor = 2

            @classmethod
            def jvp(cls, ctx, t):
                return cls.factor * ctx.saved_tensors[0] * t

        class Wrong(Right):
            factor = 3

        report = heed.torch.check_jvp(Right, leaf(3, 4))
        self.assertTrue(report, report.text)
        self.assertIn("digits agree with values of jvp in 12 of 12 entries", report.text)
        self.assertEqual(heed.torch.check_jvp(Wrong, leaf(3, 4)).verdict, "wrong")
        self.assertTrue(heed.torch.check_jvp(torch.matmul, (leaf(3, 4), leaf(4, 5))))

    def test_low_precision(self):
        class InFloat32(Square):
            @staticmethod
            def backward(ctx, dy):
                return (2 * ctx.saved_tensors[0].float() * dy.float()).to(dy.dtype)

        for dtype in (torch.bfloat16, torch.float16):
            x = leaf(6, 8, dtype=dtype)
            for function, inputs, options in [
                (InFloat32, x, {"reference": lambda x: x * x}),
                (torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.Linear(8, 3)).to(dtype), x, {}),
                (torch.matmul, (x, leaf(8, 5, dtype=dtype)), {"plain": lambda a, b: (a.unsqueeze(-1) * b).sum(-2)}),
            ]:
                report = check(function, inputs, **options)
                self.assertTrue(report, report.text)
                self.assertRegex(report.text, r"R = [0-9.e-]+ \(right up to 3\), factor ")
                self.assertEqual("; rounding is not checked" in report.text, not options)
            # Other strides select kernels with other rounding errors.
            attention = torch.nn.functional.scaled_dot_product_attention
            report = check(lambda *qkv: attention(*qkv), [leaf(2, 2, 5, 8, dtype=dtype) for _ in range(3)])
            self.assertTrue(report, report.text)
            report = check(InFloat32, x)
            self.assertEqual(report.verdict, "vacuous")
            self.assertIn("a verdict needs a reference: the same function in float64", report.text)
            # The reference is checked, too.
            self.assertNotEqual(check(lambda x: WrongSoftmax.apply(x), x).verdict, "right")

    def test_random_state(self):
        x = leaf(20)
        torch.manual_seed(5)
        state = torch.get_rng_state()
        self.assertTrue(check(lambda x: torch.nn.functional.dropout(x, 0.5), x))
        self.assertTrue(torch.equal(torch.get_rng_state(), state))

        report = check(torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Dropout(0.5)), leaf(4, 5))
        self.assertTrue(report, report.text)
        self.assertIn("; the function draws random numbers: layouts of its inputs left out", report.text)

        class Dropout(torch.autograd.Function):
            """Draws its mask again in the backward pass, from the same state or, if `resets` is False, from the next."""

            resets = True

            @classmethod
            def forward(cls, ctx, x):
                ctx.state = torch.get_rng_state()
                return x * (torch.rand(x.shape) > 0.5)

            @classmethod
            def backward(cls, ctx, dy):
                with torch.random.fork_rng([]):
                    if cls.resets:
                        torch.set_rng_state(ctx.state)
                    return dy * (torch.rand(dy.shape) > 0.5)

            @classmethod
            def jvp(cls, ctx, t):
                return cls.backward(ctx, t)

        class Next(Dropout):
            resets = False

        for function, verdict in (Dropout, "right"), (Next, "wrong"):
            reports = [check(function, x), check(function, x, order=2), heed.torch.check_jvp(function, x)]
            self.assertEqual([r.verdict for r in reports], [verdict] * 3, reports)

        class NextJvp(Dropout):
            jvp = Next.jvp

        self.assertIn("values of jvp give ", heed.torch.check_jvp(NextJvp, x).text)
        self.assertTrue(torch.equal(torch.get_rng_state(), state))
        generator = torch.Generator().manual_seed(1)
        report = check(lambda x: x * torch.rand(20, generator=generator, dtype=torch.float64), x)
        self.assertIn("a second run of forward returns different bits", report.text)

    def refused(self, error, text, function, inputs, **options):
        with self.assertRaisesRegex(error, text):
            check(function, inputs, **options)

    def test_errors(self):
        x = leaf(3)
        self.refused(ValueError, "no input requires a gradient; call requires_grad_", torch.exp, x.detach())
        self.refused(ValueError, "the outputs are: torch.float64, NoneType", lambda x: (x.detach(), None), x)
        self.refused(TypeError, "function is the class ReLU; pass an instance", torch.nn.ReLU, x)
        self.refused(TypeError, "argument 1 is torch.float32; needs float64, float32, float16 or bfloat16, and the ",
                     torch.add, (x, leaf(3, dtype=torch.float32)))
        self.refused(TypeError, "argument 0 is torch.complex64", torch.exp, leaf(3, dtype=torch.complex64))
        self.refused(TypeError, "output 0 is torch.float32; needs torch.float64", lambda x: x.float(), x)
        self.refused(ValueError, "argument 0 is not finite", torch.exp, torch.tensor([1.0, torch.nan]).requires_grad_())
        self.refused(ValueError, "reference and plain are for float16 and bfloat16; the inputs are torch.float64",
                     torch.exp, x, reference=torch.exp)  # fmt: skip
        self.refused(ValueError, r"outputs of shapes \[\(\)\]; needs .* and \[\(3,\)\], those of the function",
                     torch.exp, leaf(3, dtype=torch.bfloat16), reference=torch.sum)  # fmt: skip
        self.refused(ValueError, "order is 0; needs 1 to 2", torch.exp, x, order=0)
        calls = []

        def grows(x):
            calls.append(0)
            return x[: 1 + len(calls) // 3]

        self.refused(ValueError, r"outputs of shapes \[\(2,\)\]; needs \[\(1,\)\]", grows, x)

        class BadShape(Softmax):
            @staticmethod
            def backward(ctx, dy):
                return dy[:1]

        self.refused(RuntimeError, "invalid gradient", BadShape, x)
        self.refused(RuntimeError, "in-place", lambda x: x.mul_(2), x)
        self.refused(ZeroDivisionError, "", lambda x: x * (1 // 0), x)
        self.assertTrue(check(torch.exp, x))

    def test_doctests(self):
        result = doctest.testmod(heed.torch)
        self.assertEqual(result.failed, 0)
        self.assertGreater(result.attempted, 2)


if __name__ == "__main__":
    unittest.main()
