"""Gradient check of functions of PyTorch's tensors: torch.autograd.Functions, modules, compositions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ._check import Arrays, Report, run

__all__ = ["check"]


def check(
    function: Callable[..., Any] | type[torch.autograd.Function],
    inputs: torch.Tensor | Sequence[Any],
    *,
    seed: int = 1,
    max_entries: int = 1000,
) -> Report:
    """Checks the gradients that PyTorch computes through a function, by differences of its outputs.

    The gradient is compared with respect to each input that requires a gradient and, if `function` is
    a module, to each of its parameters that does. All other inputs are passed on unchanged. Outputs
    that require no gradient, such as indices, are left out, and the report names them.

    Before each call, torch's random state is the same, so that dropout draws the same mask; afterwards,
    it is as before the check. A function that still returns other values in a second call is "wrong".

    Args:
        function: a torch.autograd.Function (the class), a torch.nn.Module, or a function of tensors.
            It returns a tensor, or a tuple or list of tensors.
        inputs: its arguments. Those that require a gradient must all be float64 or all float32, like
            the parameters and outputs.
        seed: as in heed.check_vjp().
        max_entries: as in heed.check_vjp().

    Returns:
        The report. It is true if the gradients are right. In its text, inputs are counted without
        those that require no gradient; the text names them if the numbers differ.

    Raises:
        TypeError: a tensor that requires a gradient, or an output that does, has another type.
        ValueError: no input or no output requires a gradient, or an output has another shape than in
            the first call.

    Exceptions of the function, and PyTorch's own, pass through.

    >>> import torch
    >>> class Cube(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x ** 3
    ...     @staticmethod
    ...     def backward(ctx, dy):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x ** 2 * dy  # wrong: needs 3
    >>> x = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)
    >>> check(Cube, x).verdict
    'wrong'
    >>> check(torch.nn.Linear(2, 3).double(), x).verdict
    'right'
    """
    arguments = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    places = [i for i, x in enumerate(arguments) if isinstance(x, torch.Tensor) and x.requires_grad]
    leaves = [arguments[i] for i in places]
    names = [f"argument {i}" for i in places]
    module = function if isinstance(function, torch.nn.Module) else None
    parameters: dict[str, torch.Tensor] = {}
    if module is not None:
        parameters = {n: p for n, p in module.named_parameters() if p.requires_grad}
        leaves += parameters.values()
        names += [f"parameter {n}" for n in parameters]
    elif isinstance(function, type) and issubclass(function, torch.autograd.Function):
        function = function.apply
    if not leaves:
        raise ValueError("no input requires a gradient; call requires_grad_() on those to check")
    dtype = leaves[0].dtype
    for name, leaf in zip(names, leaves):
        if leaf.dtype not in (torch.float64, torch.float32) or leaf.dtype != dtype:
            raise TypeError(f"{name} is {leaf.dtype}; needs float64 or float32, and the same for all inputs "
                            "that require a gradient")  # fmt: skip
        if not torch.isfinite(leaf).all():
            raise ValueError(f"{name} is not finite; needs finite numbers")

    def call(xs: list[torch.Tensor]) -> list[Any]:
        given = list(arguments)
        for place, x in zip(places, xs):
            given[place] = x
        with torch.random.fork_rng(), torch.enable_grad():
            if module is None:
                result = function(*given)
            else:
                # The buffers are copies, because a module may change its own, as batch norm does.
                state = {n: b.clone() for n, b in module.named_buffers()}
                state.update(zip(parameters, xs[len(places):]))  # fmt: skip
                result = torch.func.functional_call(module, state, tuple(given))
        return list(result) if isinstance(result, (list, tuple)) else [result]

    def at(values: Arrays) -> list[torch.Tensor]:
        # clone() keeps the strides of the given tensors.
        return [leaf.detach().clone().copy_(torch.tensor(x)).requires_grad_() for leaf, x in zip(leaves, values)]

    first = call(at([_to_numpy(x) for x in leaves]))
    checked = [i for i, y in enumerate(first) if isinstance(y, torch.Tensor) and y.requires_grad]
    if not checked:
        raise ValueError("no output requires a gradient, so there is nothing to check")
    for i in checked:
        if first[i].dtype != dtype:
            raise TypeError(f"output {i} is {first[i].dtype}; needs {dtype}, the type of the inputs")
    shapes = [tuple(first[i].shape) for i in checked]

    def outputs(xs: list[torch.Tensor]) -> list[torch.Tensor]:
        result = call(xs)
        ys = [result[i] for i in checked if i < len(result)]
        if (found := [tuple(y.shape) for y in ys]) != shapes:
            raise ValueError(f"the function returned outputs of shapes {found}; needs {shapes}, those of the first call")
        return ys

    def forward(values: Arrays) -> Arrays:
        return [_to_numpy(y) for y in outputs(at(values))]

    def backward(values: Arrays, grad_outputs: Arrays) -> Arrays:
        xs = at(values)
        ys = outputs(xs)
        cotangents = [torch.tensor(v, device=y.device) for v, y in zip(grad_outputs, ys)]
        gradients = torch.autograd.grad(ys, xs, cotangents, allow_unused=True)
        return [np.zeros(x.shape, v.dtype) if g is None else _to_numpy(g) for g, x, v in zip(gradients, xs, values)]

    report = run(forward, backward, [_to_numpy(x) for x in leaves], shapes, seed, max_entries)
    notes = [f"output {i} ({_type_name(y)}) requires no gradient: left out" for i, y in enumerate(first) if i not in checked]
    if names != [f"argument {i}" for i in range(len(names))]:
        notes.append("inputs: " + ", ".join(f"{k} is {name}" for k, name in enumerate(names)))
    return replace(report, text="; ".join([report.text, *notes]))


def _to_numpy(x: torch.Tensor) -> np.ndarray:
    return np.ascontiguousarray(x.detach().cpu().numpy()).reshape(tuple(x.shape))


def _type_name(x: Any) -> str:
    return str(x.dtype) if isinstance(x, torch.Tensor) else type(x).__name__
