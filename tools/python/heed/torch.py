"""Gradient check of functions of PyTorch's tensors: torch.autograd.Functions, modules, compositions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ._check import Arrays, Report, run

__all__ = ["check", "check_attention", "check_causality"]


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
    that require no gradient, such as indices, are left out, and the report names them. Outputs in nested
    tuples, lists and dicts are counted one after the other. Needs PyTorch 2.0 or later.

    In each call, torch's random state is at first the same, so that dropout draws the same mask; after
    the check, it is as before. A function that still returns other values in a second call is "wrong".

    Args:
        function: a torch.autograd.Function (the class), a torch.nn.Module, or a function of tensors.
            It returns a tensor, or tensors in tuples, lists and dicts. The parameters of a module are
            checked only if `function` is the module itself.
        inputs: its arguments. Those that require a gradient must all be float64 or all float32, like
            the parameters and outputs. The function gets tensors with their strides (those of an expanded
            tensor are contiguous).
        seed: as in heed.check_vjp().
        max_entries: as in heed.check_vjp().

    Returns:
        The report. It is true if the gradients are right. In its text, inputs are counted without
        those that require no gradient; the text names them if the numbers differ.

    Raises:
        TypeError: a tensor that requires a gradient, or an output that does, has another type, or such a
            tensor is inside a list, tuple or dict.
        RuntimeError: the function changes a tensor in place.
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
    apply: Callable[..., Any] = function
    if isinstance(function, type):
        if not issubclass(function, torch.autograd.Function):
            raise TypeError(f"function is the class {function.__name__}; pass an instance, or a function of tensors")
        apply = function.apply
    arguments: list[Any] = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    for i, x in enumerate(arguments):
        if not isinstance(x, torch.Tensor) and any(map(_requires_grad, _flat(x))):
            raise TypeError(f"argument {i} is a {type(x).__name__} that contains a tensor that requires a gradient; "
                            "pass a function whose arguments are tensors")  # fmt: skip
    places = [i for i, x in enumerate(arguments) if _requires_grad(x)]
    leaves: list[torch.Tensor] = [arguments[i] for i in places]
    names = [f"argument {i}" for i in places]
    module = function if isinstance(function, torch.nn.Module) else None
    parameters: dict[str, torch.Tensor] = {}
    if module is not None:
        parameters = {n: p for n, p in module.named_parameters() if p.requires_grad}
        leaves += parameters.values()
        names += [f"parameter {n}" for n in parameters]
    if not leaves:
        raise ValueError("no input requires a gradient; call requires_grad_() on the tensors to check")
    dtype = leaves[0].dtype
    for name, leaf in zip(names, leaves):
        if leaf.dtype not in (torch.float64, torch.float32) or leaf.dtype != dtype:
            raise TypeError(f"{name} is {leaf.dtype}; needs float64 or float32, and the same for all inputs "
                            "that require a gradient")  # fmt: skip
        if not torch.isfinite(leaf).all():
            raise ValueError(f"{name} is not finite; needs finite numbers")
    devices = sorted({leaf.device.index for leaf in leaves if leaf.device.type == "cuda"})

    def at(values: Arrays) -> list[torch.Tensor]:
        return [_like(leaf, x) for leaf, x in zip(leaves, values)]

    def call(xs: list[torch.Tensor]) -> list[Any]:
        given = list(arguments)
        for place, x in zip(places, xs):
            given[place] = x
        versions = [x._version for x in xs]
        if module is None:
            result = apply(*given)
        else:
            # The buffers are copies, because a module may change its own, as batch norm does.
            state = {n: b.clone() for n, b in module.named_buffers()}
            state.update(zip(parameters, xs[len(places) :]))
            result = torch.func.functional_call(module, state, tuple(given))
        for name, x, version in zip(names, xs, versions):
            if x._version != version:
                raise RuntimeError(f"the forward pass changes {name} in place, so that it cannot be repeated")
        return _flat(result)

    def repeatable() -> contextlib.AbstractContextManager[Any]:
        """Within it, torch's random state is that of the caller. Afterwards, it is as before."""
        return torch.random.fork_rng(devices)

    with repeatable(), torch.enable_grad():
        first = call(at([_to_numpy(x) for x in leaves]))
    checked = [i for i, y in enumerate(first) if _requires_grad(y)]
    if not checked:
        raise ValueError("no output requires a gradient, so there is nothing to check; the outputs are: "
                         + ", ".join(map(_type_name, first)))  # fmt: skip
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
        with repeatable(), torch.enable_grad():
            return [_to_numpy(y) for y in outputs(at(values))]

    def backward(values: Arrays, grad_outputs: Arrays) -> Arrays:
        xs = at(values)
        with repeatable(), torch.enable_grad():
            ys = outputs(xs)
            cotangents = [torch.tensor(v, device=y.device) for v, y in zip(grad_outputs, ys)]
            versions = [t._version for t in xs + ys]
            gradients = torch.autograd.grad(ys, xs, cotangents, allow_unused=True)
        if [t._version for t in xs + ys] != versions:
            raise RuntimeError("the backward pass changes an input or an output in place, so that a second backward "
                               "pass would be wrong")  # fmt: skip
        return [np.zeros(x.shape, v.dtype) if g is None else _to_numpy(g) for g, x, v in zip(gradients, xs, values)]

    report = run(forward, backward, [_to_numpy(x) for x in leaves], shapes, seed, max_entries)
    notes = [f"result {i} ({_type_name(y)}) requires no gradient: left out" for i, y in enumerate(first) if i not in checked]
    if checked != list(range(len(checked))):
        notes.append("outputs: " + ", ".join(f"{k} is result {i}" for k, i in enumerate(checked)))
    if names != [f"argument {i}" for i in range(len(names))]:
        notes.append("inputs: " + ", ".join(f"{k} is {name}" for k, name in enumerate(names)))
    return replace(report, text="; ".join([report.text, *notes]))


def _requires_grad(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.requires_grad


def _flat(x: Any) -> list[Any]:
    """Returns the elements of nested tuples, lists and dicts, in their order."""
    if isinstance(x, dict):
        x = list(x.values())
    return [leaf for part in x for leaf in _flat(part)] if isinstance(x, (list, tuple)) else [x]


def _like(leaf: torch.Tensor, values: np.ndarray) -> torch.Tensor:
    """Returns a new leaf with these values, and with the strides of `leaf` unless it is expanded."""
    if any(stride == 0 and size > 1 for size, stride in zip(leaf.size(), leaf.stride())):
        new = torch.empty_like(leaf)
    else:
        new = torch.empty_strided(leaf.size(), leaf.stride(), dtype=leaf.dtype, device=leaf.device)
    return new.detach().copy_(torch.tensor(values)).requires_grad_()


def _to_numpy(x: torch.Tensor) -> np.ndarray:
    return np.ascontiguousarray(x.detach().cpu().numpy()).reshape(tuple(x.shape))


def _type_name(x: Any) -> str:
    return str(x.dtype) if isinstance(x, torch.Tensor) else type(x).__name__


from ._causality import check_causality  # noqa: E402 (it uses _flat)
from ._torch_attention import check_attention  # noqa: E402
