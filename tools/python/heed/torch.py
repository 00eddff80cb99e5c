"""Gradient check of functions of PyTorch's tensors: torch.autograd.Functions, modules, compositions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from . import _library
from ._run import Arrays, Problem, Refusal, Report, run

__all__ = ["check"]

Tensors = list[torch.Tensor]
_TYPES = [torch.float64, torch.float32]  # at the index heed_dtype


def check(
    function: Callable[..., Any] | type[torch.autograd.Function],
    inputs: torch.Tensor | Sequence[Any],
    *,
    seed: int = 1,
    max_entries: int = 1000,
    layouts: bool = True,
) -> Report:
    """Checks the gradients that PyTorch computes through a function, by differences of its outputs.

    The gradient is compared with respect to each input that requires a gradient and, if `function` is
    a module, to each of its parameters that does. All other inputs are passed on unchanged. Outputs
    that require no gradient, such as indices, are left out, and the report names them. Outputs in nested
    tuples, lists and dicts are counted one after the other. Needs PyTorch 2.0 or later.

    In each call, torch's random state is at first the same, so that dropout draws the same mask; after
    the check, it is as before. A function that still returns other values in a second call is "wrong".

    One graph gets several backward passes (retain_graph=True), also with a gradient of the output that is
    expanded, transposed, a part of a larger tensor, or missing (None), and with such inputs. A function
    that refuses a second backward pass is right, and the report says "single use".

    Args:
        function: a torch.autograd.Function (the class), a torch.nn.Module, or a function of tensors.
            It returns a tensor, or tensors in tuples, lists and dicts. The parameters of a module are
            checked only if `function` is the module itself.
        inputs: its arguments. Those that require a gradient must have one type, as the parameters and
            outputs: float64 or float32. The function gets tensors with their strides
            (those of an expanded tensor are contiguous), and with others.
        seed: as in heed.check_vjp().
        max_entries: as in heed.check_vjp().
        layouts: if False, all tensors are contiguous, for functions that raise an exception for others.

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
    calls = _Calls(function, inputs)
    return calls.report(run(calls.problem(layouts), calls.values(), seed, max_entries))


@dataclass
class _Graph:
    """A recorded forward pass."""

    bits: list[bytes]
    """Those of the checked inputs."""
    xs: Tensors
    ys: Tensors
    used: bool = False
    """True after a backward pass."""


class _Calls:
    """Calls of a function with values of its checked tensors: the inputs and parameters that require a gradient."""

    def __init__(self, function: Callable[..., Any], inputs: Any) -> None:
        if isinstance(function, type) and not issubclass(function, torch.autograd.Function):
            raise TypeError(f"function is the class {function.__name__}; pass an instance, or a function of tensors")
        self.function = function.apply if isinstance(function, type) else function
        self.arguments: list[Any] = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        for i, x in enumerate(self.arguments):
            if not isinstance(x, torch.Tensor) and any(map(_requires_grad, _flat(x))):
                raise TypeError(f"argument {i} is a {type(x).__name__} that contains a tensor that requires a gradient; "
                                "pass a function whose arguments are tensors")  # fmt: skip
        self.state: dict[str, torch.Tensor] = {}
        parameters: dict[str, torch.Tensor] = {}
        if isinstance(function, torch.nn.Module):
            parameters = {n: p for n, p in function.named_parameters() if p.requires_grad}
            self.state = dict(function.named_buffers())
        self.parameters = list(parameters)
        self.places = [i for i, x in enumerate(self.arguments) if _requires_grad(x)]
        self.names = [f"argument {i}" for i in self.places] + [f"parameter {n}" for n in parameters]
        self.leaves = [*(self.arguments[i] for i in self.places), *parameters.values()]
        self.check_leaves()
        self.graphs: list[_Graph] = []  # the last two forward passes
        self.last: tuple[Any, list[torch.Tensor | None]] = (None, [])  # the last gradients of outputs, as tensors
        with self.recording():
            self.first = self.call(self.tensors(self.values()))
        self.check_outputs()

    def check_leaves(self) -> None:
        if not self.leaves:
            raise ValueError("no input requires a gradient; call requires_grad_() on the tensors to check")
        self.dtype = self.leaves[0].dtype
        for name, leaf in zip(self.names, self.leaves):
            if leaf.dtype not in _TYPES or leaf.dtype != self.dtype:
                raise TypeError(f"{name} is {leaf.dtype}; needs float64 or float32, and the same for all inputs "
                                "that require a gradient")  # fmt: skip
            if not torch.isfinite(leaf).all():
                raise ValueError(f"{name} is not finite; needs finite numbers")

    def check_outputs(self) -> None:
        self.checked = [i for i, y in enumerate(self.first) if _requires_grad(y)]
        if not self.checked:
            raise ValueError("no output requires a gradient, so there is nothing to check; the outputs are: "
                             + ", ".join(map(_type_name, self.first)))  # fmt: skip
        for i in self.checked:
            if self.first[i].dtype != self.dtype:
                raise TypeError(f"output {i} is {self.first[i].dtype}; needs {self.dtype}, the type of the inputs")
        self.shapes = [tuple(self.first[i].shape) for i in self.checked]

    def values(self) -> Arrays:
        return [_to_numpy(x).copy() for x in self.leaves]

    def problem(self, layouts: bool) -> Problem:
        return Problem(
            _TYPES.index(self.dtype),
            [tuple(x.shape) for x in self.leaves],
            self.shapes,
            self.forward,
            self.backward,
            layouts=_library.ALL_LAYOUTS - _library.NEGATIVE if layouts else 0,
            caller="PyTorch",
            read=_to_numpy,
        )

    def report(self, report: Report) -> Report:
        """Names the inputs and outputs if their numbers in the report are not those of the function."""
        notes = [f"result {i} ({_type_name(y)}) requires no gradient: left out"
                 for i, y in enumerate(self.first) if i not in self.checked]  # fmt: skip
        if self.checked != list(range(len(self.checked))):
            notes.append("outputs: " + ", ".join(f"{k} is result {i}" for k, i in enumerate(self.checked)))
        if self.names != [f"argument {i}" for i in range(len(self.names))]:
            notes.append("inputs: " + ", ".join(f"{k} is {name}" for k, name in enumerate(self.names)))
        return replace(report, text="; ".join([report.text, *notes]))

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Within it, torch's random state is that of the caller. Afterwards, it is as before."""
        devices = sorted({leaf.device.index for leaf in self.leaves if leaf.device.type == "cuda"})
        with torch.random.fork_rng(devices), torch.enable_grad():
            yield

    def tensors(self, arrays: Arrays) -> Tensors:
        # Parameters keep their layout, because their module makes them.
        arrays = [x if i < len(self.places) else x.copy() for i, x in enumerate(arrays)]
        return [_like(leaf, x) for leaf, x in zip(self.leaves, arrays)]

    def call(self, xs: Tensors) -> list[Any]:
        given = list(self.arguments)
        for place, x in zip(self.places, xs):
            given[place] = x
        versions = [x._version for x in xs]
        if isinstance(self.function, torch.nn.Module):
            # The buffers are copies, because a module may change its own, as batch norm does.
            state = {n: x.clone() for n, x in self.state.items()}
            state.update(zip(self.parameters, xs[len(self.places) :]))
            result = torch.func.functional_call(self.function, state, tuple(given))
        else:
            result = self.function(*given)
        for name, x, version in zip(self.names, xs, versions):
            if x._version != version:
                raise RuntimeError(f"the forward pass changes {name} in place, so that it cannot be repeated")
        return _flat(result)

    def outputs(self, xs: Tensors) -> Tensors:
        result = self.call(xs)
        ys = [result[i] for i in self.checked if i < len(result)]
        if (found := [tuple(y.shape) for y in ys]) != self.shapes:
            raise ValueError(f"the function returned outputs of shapes {found}; needs {self.shapes}, those of the "
                             "first call")  # fmt: skip
        return ys

    def forward(self, arrays: Arrays) -> Tensors:
        bits = [x.tobytes() for x in arrays]
        xs = self.tensors(arrays)
        with self.recording():
            ys = self.outputs(xs)
        self.graphs = [_Graph(bits, xs, ys), *self.graphs[:1]]
        _copy_back(xs, arrays)
        return ys

    def graph(self, arrays: Arrays) -> _Graph:
        """Returns the last forward pass with these inputs."""
        bits = [x.tobytes() for x in arrays]
        return next(g for g in self.graphs if g.bits == bits)

    def backward(self, arrays: Arrays, grad_outputs: Arrays) -> Tensors:
        graph = self.graph(arrays)
        xs, ys = graph.xs, graph.ys
        if grad_outputs is not self.last[0]:  # otherwise, the same tensors are passed again
            tensors = [None if v is None else _tensor(v, y.device) for v, y in zip(grad_outputs, ys)]
            self.last = grad_outputs, tensors
        given, dys = zip(*[(y, v) for y, v in zip(ys, self.last[1]) if v is not None])
        versions = [t._version for t in xs + ys]
        with self.recording():
            try:
                gradients = torch.autograd.grad(given, xs, dys, allow_unused=True, retain_graph=True)
            except RuntimeError as e:
                if graph.used:
                    raise Refusal(_library.SINGLE_USE) from e
                raise
        graph.used = True
        if [t._version for t in xs + ys] != versions:
            raise RuntimeError("the backward pass changes an input or an output in place, so that a second backward "
                               "pass would be wrong")  # fmt: skip
        _copy_back(xs + self.last[1], arrays + grad_outputs)
        return [torch.zeros_like(x) if g is None else g for g, x in zip(gradients, xs)]


def _requires_grad(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.requires_grad


def _flat(x: Any) -> list[Any]:
    """Returns the elements of nested tuples, lists and dicts, in their order."""
    if isinstance(x, dict):
        x = list(x.values())
    return [leaf for part in x for leaf in _flat(part)] if isinstance(x, (list, tuple)) else [x]


def _tensor(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """Returns a tensor with these values and strides, inside a larger one if the array is."""
    memory: np.ndarray = array if array.base is None else array.base
    flat = torch.tensor(memory, device=device)
    if array.base is None:
        return flat
    offset = (array.ctypes.data - memory.ctypes.data) // array.itemsize
    return flat.as_strided(array.shape, [s // array.itemsize for s in array.strides], offset)


def _like(leaf: torch.Tensor, array: np.ndarray) -> torch.Tensor:
    """Returns a new leaf with these values. A contiguous array gets the strides of `leaf` unless it is expanded."""
    new = _tensor(array, leaf.device)
    if array.base is None and not any(stride == 0 and size > 1 for size, stride in zip(leaf.size(), leaf.stride())):
        new = torch.empty_strided(leaf.size(), leaf.stride(), dtype=leaf.dtype, device=leaf.device).copy_(new)
    return new.requires_grad_()


def _to_numpy(x: torch.Tensor) -> np.ndarray:
    return np.ascontiguousarray(x.detach().cpu().numpy()).reshape(tuple(x.shape))


def _copy_back(tensors: list[torch.Tensor | None], arrays: Arrays) -> None:
    """Copies the values of tensors to the arrays from which they were made, so that run() finds changes."""
    for x, array in zip(tensors, arrays):
        if x is not None:
            array[...] = _to_numpy(x)


def _type_name(x: Any) -> str:
    return str(x.dtype) if isinstance(x, torch.Tensor) else type(x).__name__
