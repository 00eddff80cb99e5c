#!/usr/bin/env python3
"""Tests heed.torch.check with right and wrong gradients in bfloat16 and float16, of inputs of a wide range.

    PYTHONPATH=build/release/python python3 tests/tools/python/low_precision_test.py [NUMBER]

NUMBER random cases are checked, by default 40. Each operation is rounded.
"""
import sys

try:
    import torch
except ImportError:
    sys.exit(print("skipped: PyTorch is not installed"))

import heed.torch

torch.set_num_threads(1)
sigmoid, tanh = torch.sigmoid, torch.tanh


def over_rows(x):
    return x.reshape(-1, x.shape[-1]).sum(0)


def softmax(x):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def root(x):
    return torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)


def rms_norm_backward(x, w, dy):
    n = x * root(x)
    return root(x) * (dy * w - n * (dy * w * n).mean(-1, keepdim=True)), over_rows(dy * n)


FUNCTIONS = {  # name: forward, its backward pass
    "silu": (lambda x: x * sigmoid(x), lambda x, dy: dy * (sigmoid(x) * (1 + x * (1 - sigmoid(x))))),
    "swiglu": (lambda x, w: x * sigmoid(x) * w,
               lambda x, w, dy: (dy * w * (sigmoid(x) * (1 + x * (1 - sigmoid(x)))),
                                 over_rows(dy * (x * sigmoid(x))))),
    "rms norm": (lambda x, w: x * root(x) * w, rms_norm_backward),
    "softmax": (softmax, lambda x, dy: softmax(x) * (dy - (dy * softmax(x)).sum(-1, keepdim=True))),
    "tanh": (lambda x: tanh(x), lambda x, dy: dy * (1 - tanh(x) * tanh(x))),
    "gauss": (lambda x: torch.exp(-x * x), lambda x, dy: dy * (-2 * x * torch.exp(-x * x))),
    "squared relu": (lambda x: torch.relu(x) * torch.relu(x), lambda x, dy: dy * 2 * torch.relu(x)),
    "cube": (lambda x: x * x * x, lambda x, dy: dy * (3 * x * x)),
    "softplus": (lambda x: x.clamp(min=0) + torch.log1p(torch.exp(-x.abs())), lambda x, dy: dy * sigmoid(x)),
}
RANGES = {
    "normal": torch.randn,
    "small": lambda *shape, generator: torch.randn(shape, generator=generator) / 16,
    "large": lambda *shape, generator: torch.randn(shape, generator=generator) * 3,
    "narrow": lambda *shape, generator: 1.3 + torch.rand(shape, generator=generator) / 8,
    "equal": lambda *shape, generator: torch.full(shape, 0.3) + torch.rand(1, generator=generator),
    "wide": lambda *shape, generator: torch.randn(shape, generator=generator) * torch.logspace(-1.5, 0.5, shape[-1]),
}
SHAPES = [(16, 64), (4, 8), (3,), (2, 100)]


def function(forward, backward, factor):
    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            ctx.save_for_backward(*inputs)
            return forward(*inputs)

        @staticmethod
        def backward(ctx, dy):
            gradients = backward(*ctx.saved_tensors, dy)
            gradients = gradients if isinstance(gradients, tuple) else [gradients]
            return (gradients[0] * factor, *gradients[1:])

    return Function


def main():
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    counts = {(verdict, factor): 0 for verdict in ("right", "wrong", "vacuous") for factor in (1, 1.02)}
    for case in [*range(number), 376, 597]:  # the last two: softmaxes that read their rounded outputs near 1
        generator = torch.Generator().manual_seed(case)
        name, values, shape, dtype = (list(options)[torch.randint(len(options), (), generator=generator)] for options in
                                      (FUNCTIONS, RANGES, SHAPES, (torch.bfloat16, torch.float16)))  # fmt: skip
        forward, backward = FUNCTIONS[name]
        shapes = [shape, shape[-1:]][: forward.__code__.co_argcount]
        inputs = [RANGES[values](*s, generator=generator).to(dtype).requires_grad_() for s in shapes]
        gradients = backward(*inputs, torch.randn(shape, generator=generator).to(dtype))
        is_zero = not (gradients[0] if isinstance(gradients, tuple) else gradients).any()  # then 1.02 times it, too
        for factor in (1,) if is_zero else (1, 1.02):
            report = heed.torch.check(function(forward, backward, factor), inputs, reference=forward, seed=case + 1)
            counts[report.verdict, factor] += 1
            if report.verdict == ("wrong" if factor == 1 else "right"):
                print(f"case {case}: {name}, {values} {shape} {dtype}, factor {factor}: {report}")
    print(", ".join(f"{verdict} with factor {factor}: {n}" for (verdict, factor), n in counts.items()))
    assert counts["wrong", 1] == counts["right", 1.02] == 0 and counts["vacuous", 1] <= number / 20


if __name__ == "__main__":
    main()
