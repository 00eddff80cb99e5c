"""Models of heed as modules of PyTorch (load, save), and the gradient check of functions of PyTorch's tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.autograd import forward_ad

from . import _library
from ._causality import check_causality
from ._model import load, save
from ._run import Arrays, Problem, Refusal, Report, run
from ._tensors import copy_back, flat, like, require_derivatives, tensor, to_numpy
from ._torch_attention import check_attention

__all__ = ["assert_check", "check", "check_attention", "check_causality", "check_jvp", "load", "save"]

Tensors = list[torch.Tensor]
_TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]  # at the index heed_dtype


@torch.inference_mode(False)
def check(
    function: Callable[..., Any] | type[torch.autograd.Function],
    inputs: torch.Tensor | Sequence[Any],
    *,
    seed: int = 1,
    max_entries: int = 1000,
    order: int = 1,
    forward_error: float = 0,
    layouts: bool = True,
    reference: Callable[..., Any] | None = None,
    plain: Callable[..., Any] | None = None,
) -> Report:
    """Checks the gradients that PyTorch computes through a function, by differences of its outputs.

    The gradient is compared with respect to each input that requires a gradient and, if `function` is
    a module, to each of its parameters that does. All other inputs are passed on unchanged. Outputs
    that require no gradient, such as indices, are left out, and the report names them. Outputs in nested
    tuples, lists and dicts are counted one after the other. Needs PyTorch 2.0 or later.

    In each call, torch's random state is at first the same, so that dropout draws the same mask. A backward
    pass begins with the state that its forward pass left. After the check, the state is as before. A function
    that still returns other values in a second call is "wrong".

    One graph gets several backward passes (retain_graph=True), also with a gradient of the output that is
    expanded, transposed, a part of a larger tensor, or missing (None), and with such inputs. A function
    that refuses a second backward pass is right, and the report says "single use".

    Differences of a function in float16 or bfloat16 consist of rounding. It is compared with `reference`
    in float64, by the errors of `plain`.

    Args:
        function: a torch.autograd.Function (the class), a torch.nn.Module, or a function of tensors.
            It returns a tensor, or tensors in tuples, lists and dicts. The parameters of a module are
            checked only if `function` is the module itself.
        inputs: its arguments. Those that require a gradient must have one type, as the parameters and
            outputs: float64, float32, float16 or bfloat16. The function gets tensors with their strides
            (those of an expanded tensor are contiguous), and with others.
        seed: as in heed.check_vjp().
        max_entries: as in heed.check_vjp().
        order: 2 also checks the second derivative, through create_graph. If there is none
            (once_differentiable), the verdict is "vacuous".
        forward_error: as in heed.check_vjp().
        layouts: if False, all tensors are contiguous, for functions that raise an exception for others.
        reference: for float16 and bfloat16: the same function, called with float64 tensors. Default:
            `function`, if it is a module or a function of tensors. A torch.autograd.Function needs one.
        plain: for float16 and bfloat16: the same function, called with tensors of this type. Errors as
            large as those of its results are right. Default: `reference`.

    Returns:
        The report. It is true if the gradients are right. In its text, inputs are counted without
        those that require no gradient; the text names them if the numbers differ.

    Raises:
        TypeError: a tensor that requires a gradient, or an output that does, has another type, or such a
            tensor is inside a list, tuple or dict.
        RuntimeError: a backward pass changes an output in place.
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
    problem = calls.problem(layouts)
    problem.forward_error = forward_error
    if order == 2:
        problem.backward2 = calls.backward2
    others: list[Problem] = []
    notes = []
    if calls.dtype in _TYPES[:2]:
        if reference or plain:
            raise ValueError(f"reference and plain are for float16 and bfloat16; the inputs are {calls.dtype}")
    elif reference or not isinstance(function, type):
        reference = reference or function
        if plain is None and reference is function:
            notes = ["rounding is not checked, because plain is the function itself; pass another plain version"]
        others = [calls.like(reference, torch.float64), calls.like(plain or reference, calls.dtype)]
    return calls.run(problem, seed, max_entries, order, others, notes)


def assert_check(function: Callable[..., Any], inputs: torch.Tensor | Sequence[Any], **options: Any) -> None:
    """Raises AssertionError with the report unless check(), with these arguments, finds that the gradients are right.

    >>> assert_check(torch.sin, torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True))
    """
    __tracebackhide__ = True  # pytest then shows the line of the test
    report = check(function, inputs, **options)
    if not report:
        raise AssertionError(report.text)


@torch.inference_mode(False)
def check_jvp(
    function: Callable[..., Any] | type[torch.autograd.Function],
    inputs: torch.Tensor | Sequence[Any],
    *,
    seed: int = 1,
    max_entries: int = 1000,
    forward_error: float = 0,
    layouts: bool = True,
) -> Report:
    """Checks forward-mode derivatives (torch.autograd.forward_ad), and the gradients as check() does.

    >>> check_jvp(torch.sin, torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)).verdict
    'right'
    """
    calls = _Calls(function, inputs)
    if calls.dtype not in _TYPES[:2]:
        raise TypeError(f"the inputs are {calls.dtype}; check_jvp needs float64 or float32")
    problem = calls.problem(layouts)
    problem.jvp, problem.forward_error = calls.jvp, forward_error
    return calls.run(problem, seed, max_entries)


@dataclass
class _Graph:
    """A recorded forward pass."""

    bits: list[bytes]
    """Those of the checked inputs."""
    xs: Tensors
    ys: Tensors
    random_states: list[Any]
    """torch's random state after it."""
    used: bool = False
    """True after a backward pass."""


class _Calls:
    """Calls of a function with values of its checked tensors: the inputs and parameters that require a gradient."""

    def __init__(self, function: Callable[..., Any], inputs: Any, dtype: torch.dtype | None = None) -> None:
        """Converts all floating-point tensors to `dtype`, if it is given."""

        def converted(x: Any) -> Any:
            if isinstance(x, torch.Tensor) and x.is_inference():  # could not be saved for a backward pass
                x = x.clone().requires_grad_(x.requires_grad)
            if dtype is None or not isinstance(x, torch.Tensor) or not x.is_floating_point():
                return x
            return x.detach().to(dtype).requires_grad_(x.requires_grad)

        if isinstance(function, type) and not issubclass(function, torch.autograd.Function):
            raise TypeError(f"function is the class {function.__name__}; pass an instance, or a function of tensors")
        self.function = function.apply if isinstance(function, type) else function
        self.arguments = [converted(x) for x in (inputs if isinstance(inputs, (list, tuple)) else [inputs])]
        for i, x in enumerate(self.arguments):
            if not isinstance(x, torch.Tensor) and any(map(_requires_grad, flat(x))):
                raise TypeError(f"argument {i} is a {type(x).__name__} that contains a tensor that requires a "
                                "gradient; pass a function whose arguments are tensors")  # fmt: skip
        self.state: dict[str, torch.Tensor] = {}
        parameters: dict[str, torch.Tensor] = {}
        if isinstance(function, torch.nn.Module):
            named = {n: converted(p) for n, p in function.named_parameters()}
            parameters = {n: p for n, p in named.items() if p.requires_grad}
            frozen = {n: p for n, p in named.items() if not p.requires_grad}
            self.state = {**{n: converted(b) for n, b in function.named_buffers()}, **frozen}
        self.parameters = list(parameters)
        self.places = [i for i, x in enumerate(self.arguments) if _requires_grad(x)]
        self.names = [f"argument {i}" for i in self.places] + [f"parameter {n}" for n in parameters]
        self.leaves = [*(self.arguments[i] for i in self.places), *parameters.values()]
        self.check_leaves()
        self.graphs: list[_Graph] = []  # the last two forward passes
        self.last: tuple[Any, list[torch.Tensor | None]] = (None, [])  # the last gradients of outputs, and as tensors
        self.is_random = False
        with self.recording():
            self.first = self.call(self.tensors(self.values()))
            self.is_random = any(not torch.equal(a, b) for (_, a, *_), (_, b, *_) in zip(self.states(), self.random_states))
        self.check_outputs()

    def check_leaves(self) -> None:
        if not self.leaves:
            raise ValueError("no input requires a gradient; call requires_grad_() on the tensors to check")
        self.dtype = self.leaves[0].dtype
        for name, leaf in zip(self.names, self.leaves):
            if leaf.dtype not in _TYPES or leaf.dtype != self.dtype:
                raise TypeError(f"{name} is {leaf.dtype}; needs float64, float32, float16 or bfloat16, and the same "
                                f"for all inputs that require a gradient ({self.names[0]} is {self.dtype})")  # fmt: skip
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
        return [to_numpy(x).copy() for x in self.leaves]

    def problem(self, layouts: bool) -> Problem:
        return Problem(
            _TYPES.index(self.dtype),
            [tuple(x.shape) for x in self.leaves],
            self.shapes,
            self.forward,
            self.backward,
            layouts=_library.ALL_LAYOUTS - _library.NEGATIVE if layouts else 0,
            caller="PyTorch",
            is_paired=True,
            read=to_numpy,
        )

    def like(self, function: Callable[..., Any], dtype: torch.dtype) -> Problem:
        """Returns the problem of another function with the same inputs and outputs."""
        other = _Calls(function, self.arguments, dtype)
        if (other.names, other.shapes) != (self.names, self.shapes):
            raise ValueError(f"reference or plain has inputs {other.names} and outputs of shapes {other.shapes}; "
                             f"needs {self.names} and {self.shapes}, those of the function")  # fmt: skip
        return other.problem(layouts=False)

    def run(
        self,
        problem: Problem,
        seed: int,
        max_entries: int,
        order: int = 1,
        others: Sequence[Problem] = (),
        notes: Sequence[str] = (),
    ) -> Report:
        """Runs a check. Its text names the inputs and outputs if their numbers are not those of the function."""
        with self.recording():
            report = run(problem, self.values(), seed, max_entries, order, others)
        notes = [*notes]
        if self.is_random:
            notes.append("the function draws random numbers: layouts of its inputs left out")
        notes += [f"result {i} ({_type_name(y)}) requires no gradient: left out"
                 for i, y in enumerate(self.first) if i not in self.checked]  # fmt: skip
        if self.checked != list(range(len(self.checked))):
            notes.append("outputs: " + ", ".join(f"{k} is result {i}" for k, i in enumerate(self.checked)))
        if self.names != [f"argument {i}" for i in range(len(self.names))]:
            notes.append("inputs: " + ", ".join(f"{k} is {name}" for k, name in enumerate(self.names)))
        return replace(report, text="; ".join([report.text, *notes]))

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Within it, calls can be made. Afterwards, torch's random state is as before."""
        self.random_states = self.states()
        with torch.random.fork_rng(self.devices()), torch.enable_grad():
            yield

    def devices(self) -> list[int]:
        """Returns the indices of the GPUs that have checked tensors."""
        return sorted({leaf.device.index for leaf in self.leaves if leaf.device.type == "cuda"})

    def states(self) -> list[Any]:
        """Returns torch's random state, as calls that set it."""
        of_devices = [(torch.cuda.set_rng_state, torch.cuda.get_rng_state(d), d) for d in self.devices()]
        return [(torch.set_rng_state, torch.get_rng_state()), *of_devices]

    def restart(self, states: list[Any]) -> None:
        """Sets torch's random state."""
        for set_state, *state in states:
            set_state(*state)

    def tensors(self, arrays: Arrays) -> Tensors:
        # Parameters keep their layout, because their module makes them. So do the inputs of a function that draws random
        # numbers: the mask of dropout depends on the strides.
        kept = 0 if self.is_random else len(self.places)
        arrays = [x if i < kept else x.copy() for i, x in enumerate(arrays)]
        return [like(leaf, x) for leaf, x in zip(self.leaves, arrays)]

    def call(self, xs: Tensors) -> list[Any]:
        given = list(self.arguments)
        for place, x in zip(self.places, xs):
            given[place] = x
        if isinstance(self.function, torch.nn.Module):
            # The buffers are copies, because a module may change its own, as batch norm does.
            state = {n: x.clone() for n, x in self.state.items()}
            state.update(zip(self.parameters, xs[len(self.places) :]))
            result = torch.func.functional_call(self.function, state, tuple(given))
        else:
            result = self.function(*given)
        return flat(result)

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
        self.restart(self.random_states)
        ys = self.outputs(xs)
        states = self.states() if self.is_random else self.random_states
        self.graphs = [_Graph(bits, xs, ys, states), *self.graphs[:1]]
        copy_back(xs, arrays)
        return ys

    def graph(self, arrays: Arrays) -> _Graph:
        """Returns the last forward pass with these inputs."""
        bits = [x.tobytes() for x in arrays]
        return next(g for g in self.graphs if g.bits == bits)

    def backward(self, arrays: Arrays, grad_outputs: Arrays) -> Tensors:
        graph = self.graph(arrays)
        xs, ys = graph.xs, graph.ys
        if grad_outputs is not self.last[0]:  # otherwise, the same tensors are passed again
            tensors = [None if v is None else tensor(v, y.dtype, y.device) for v, y in zip(grad_outputs, ys)]
            self.last = grad_outputs, tensors
        given, dys = zip(*[(y, v) for y, v in zip(ys, self.last[1]) if v is not None])
        versions = [y._version for y in ys]
        self.restart(graph.random_states)
        try:
            gradients = torch.autograd.grad(given, xs, dys, allow_unused=True, retain_graph=True)
        except RuntimeError as e:
            if graph.used:
                raise Refusal(_library.SINGLE_USE) from e
            raise
        graph.used = True
        if [y._version for y in ys] != versions:
            raise RuntimeError("the backward pass changes an output in place")
        copy_back(xs + self.last[1], arrays + grad_outputs)
        return [torch.zeros_like(x) if g is None else g for g, x in zip(gradients, xs)]

    def backward2(self, arrays: Arrays, grad_outputs: Arrays, tangents: Arrays) -> Tensors:
        graph = self.graph(arrays)
        dys = [tensor(v, y.dtype, y.device).requires_grad_() for v, y in zip(grad_outputs, graph.ys)]
        ts = [tensor(t, x.dtype, x.device) for t, x in zip(tangents, graph.xs)]
        to = graph.xs + dys
        seconds: Sequence[torch.Tensor | None] = [None] * len(to)
        self.restart(graph.random_states)
        try:
            gradients = torch.autograd.grad(graph.ys, graph.xs, dys, create_graph=True, allow_unused=True)
            pairs = [(g, t) for g, t in zip(gradients, ts) if g is not None and g.requires_grad]
            if pairs:
                given, vs = zip(*pairs)
                require_derivatives([g.grad_fn for g in given])
                seconds = torch.autograd.grad(given, to, vs, allow_unused=True, retain_graph=True)
        except RuntimeError as e:
            if "is not implemented" not in str(e):
                raise
            raise Refusal(_library.NO_DERIVATIVE) from e
        return [torch.zeros_like(x) if g is None else g for g, x in zip(seconds, to)]

    def jvp(self, arrays: Arrays, tangents: Arrays) -> Tensors:
        ts = [tensor(t, x.dtype, x.device) for t, x in zip(tangents, self.leaves)]
        self.restart(self.random_states)
        with forward_ad.dual_level():
            xs = [forward_ad.make_dual(x, t) for x, t in zip(self.tensors(arrays), ts)]
            ys = self.outputs(xs)
            results = [forward_ad.unpack_dual(y).tangent for y in ys]
        return [torch.zeros_like(y) if t is None else t for t, y in zip(results, ys)]


def _requires_grad(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.requires_grad


def _type_name(x: Any) -> str:
    return str(x.dtype) if isinstance(x, torch.Tensor) else type(x).__name__


if __name__ == "__main__":
    from ._nanogpt import main

    main()
