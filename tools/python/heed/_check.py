"""check_vjp for functions of NumPy arrays."""

from __future__ import annotations

import ctypes
import json as json_module
import operator
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _library

Arrays = list[np.ndarray]


@dataclass(frozen=True)
class Entry:
    """The worst entry of a check: an entry of a gradient, beside its value by differences."""

    input: int
    """Index of the input, from 0."""
    at: tuple[int, ...] | None
    """Index in that input, or None if all its entries moved in a random direction."""
    backward: float
    """Value by the backward pass, for a random cotangent."""
    differences: float
    """Value by differences of the forward pass."""
    tolerance: float
    """Largest difference of the two values that passes."""
    digits: float
    """Number of decimal digits that agree, from 0 to 16."""


@dataclass(frozen=True)
class Report:
    """Result of a check. It is true if the gradient is right."""

    verdict: str
    """"right": every comparison passed. "wrong": one failed. "vacuous": nothing is proven, because a
    clearly wrong gradient would pass too."""
    worst: Entry | None
    """The worst failure or, if none, the entry with the fewest digits that agree; None if no entry
    was compared."""
    text: str
    """The report as text, as print() shows it."""
    json: str
    """The report as one JSON object. heed_report_json() in heed_check.h lists its keys."""

    def __bool__(self) -> bool:
        return self.verdict == "right"

    def __str__(self) -> str:
        return self.text


def check_vjp(
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    inputs: np.ndarray | Sequence[Any],
    *,
    seed: int = 1,
    max_entries: int = 1000,
) -> Report:
    """Checks a backward pass that was written by hand, by differences of the forward pass.

    forward(*inputs) returns an array, or a tuple or list of arrays. backward(*inputs, *grad_outputs)
    gets in addition one cotangent for each output, with its shape (the gradient of a loss with respect
    to the output), and returns the vector-Jacobian product: one gradient for each input, with its shape.
    For each compared entry, forward runs about 6 to 60 times in float64 (up to 84 times beside a kink, a
    pole or an edge of its domain), and about 18 to 180 times in float32.

    Both functions must return the same values for the same arguments. Their arguments are copies that
    cannot be written. An input without a gradient, such as an index or a mask, is not an input:
    capture it in both functions.

    Args:
        forward: the function.
        backward: its backward pass.
        inputs: the point at which the gradient is checked: arrays of finite numbers, all float64 or
            all float32, with at most 8 axes. A single array is one input.
        seed: seed of the random cotangents and directions, from 0 to 2^64 - 1. The same seed gives
            the same report.
        max_entries: number of entries that are compared one by one, at least 1; but at least 16 of each
            input. Other entries are compared together, in a random direction.

    Returns:
        The report. It is true if the gradient is right.

    Raises:
        TypeError: an input, output or gradient has another type than float64 or float32, or another
            type than the inputs.
        ValueError: an input is not finite, an output has another shape than in an earlier call, a
            gradient does not have the shape of its input, or an option is out of range.

    Exceptions of the two functions pass through.

    The softmax of a vector, with a right and a wrong gradient:

    >>> import numpy as np
    >>> def softmax(x):
    ...     e = np.exp(x - x.max())
    ...     return e / e.sum()
    >>> def right(x, dy):
    ...     y = softmax(x)
    ...     return y * (dy - (dy * y).sum())
    >>> def wrong(x, dy):
    ...     return softmax(x) * dy
    >>> x = np.array([0.5, -1.2, 0.3])
    >>> report = check_vjp(softmax, right, [x])
    >>> bool(report), report.verdict
    (True, 'right')
    >>> report = check_vjp(softmax, wrong, [x])
    >>> bool(report), report.verdict, report.worst.input
    (False, 'wrong', 0)
    >>> print(report.text[:22])
    wrong: input 0 at [1]:
    """
    xs = _checked_inputs(inputs)
    dtype = xs[0].dtype if xs else np.dtype(np.float64)
    shapes = [x.shape for x in xs]
    outputs = _checked("forward", "output", forward(*(_read_only(x.copy()) for x in xs)), dtype)
    output_shapes = [y.shape for y in outputs]

    def forward_arrays(xs: Arrays) -> Arrays:
        return _checked("forward", "output", forward(*xs), dtype, output_shapes)

    def backward_arrays(xs: Arrays, grad_outputs: Arrays) -> Arrays:
        return _checked("backward", "gradient", backward(*xs, *grad_outputs), dtype, shapes)

    return run(forward_arrays, backward_arrays, xs, output_shapes, seed, max_entries)


def assert_vjp(
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    inputs: np.ndarray | Sequence[Any],
    *,
    seed: int = 1,
    max_entries: int = 1000,
) -> None:
    """Raises AssertionError with the report unless check_vjp() finds that the gradient is right.

    For pytest and unittest. The arguments are those of check_vjp().

    >>> assert_vjp(lambda x: x ** 2, lambda x, dy: 2 * x * dy, np.array([1.0, -2.0]))
    >>> assert_vjp(lambda x: x ** 2, lambda x, dy: x * dy, np.array([1.0, -2.0]))
    Traceback (most recent call last):
    AssertionError: wrong: input 0 at [0]: backward returns 1, differences give 2 for output [0] ...
    """
    __tracebackhide__ = True  # pytest then shows the line of the test
    report = check_vjp(forward, backward, inputs, seed=seed, max_entries=max_entries)
    if not report:
        raise AssertionError(report.text)


def run(
    forward: Callable[[Arrays], Arrays],
    backward: Callable[[Arrays, Arrays], Arrays],
    inputs: Arrays,
    output_shapes: list[tuple[int, ...]],
    seed: int,
    max_entries: int,
) -> Report:
    """Runs the check of the library. `inputs` and all results have one type, and the shapes are right."""
    options = _library.Options(ctypes.sizeof(_library.Options), _in_range("seed", seed, 0, 2**64 - 1),
                               _in_range("max_entries", max_entries, 1, 2**63 - 1))  # fmt: skip
    dtype = inputs[0].dtype if inputs else np.dtype(np.float64)
    input_shapes = [x.shape for x in inputs]
    error: BaseException | None = None
    finished = 0  # calls that did not raise
    views: dict[str, Arrays] = {}  # arrays in the memory of the library, which does not move

    def view(name: str, address: int | None, shapes: list[tuple[int, ...]]) -> Arrays:
        if name not in views:
            pointers = ctypes.cast(ctypes.c_void_p(address), _library.Pointers)
            views[name] = [_array_at(pointers[i], shape, dtype) for i, shape in enumerate(shapes)]
        return views[name]

    def copies(name: str, address: int | None, shapes: list[tuple[int, ...]]) -> Arrays:
        return [_read_only(x.copy()) for x in view(name, address, shapes)]

    def finish(results: Arrays, values: Arrays) -> int:
        nonlocal finished
        for result, value in zip(results, values):
            result[...] = value
        finished += 1
        interrupts.inside = False
        return 0

    def end_with(e: BaseException) -> int:
        nonlocal error
        interrupts.inside = False
        error = e  # raised again below
        return 1

    @_library.Forward
    def forward_callback(_user: int | None, xs: int | None, ys: int | None) -> int:
        try:
            interrupts.allow()
            values = forward(copies("inputs", xs, input_shapes))
            return finish(view("outputs", ys, output_shapes), values)
        except BaseException as e:
            return end_with(e)

    @_library.Backward
    def backward_callback(_user: int | None, xs: int | None, dys: int | None, dxs: int | None) -> int:
        try:
            interrupts.allow()
            values = backward(copies("inputs", xs, input_shapes), copies("cotangents", dys, output_shapes))
            return finish(view("gradients", dxs, input_shapes), values)
        except BaseException as e:
            return end_with(e)

    function = _library.Function(
        _library.FLOAT32 if dtype == np.float32 else _library.FLOAT64,
        len(inputs),
        _library.shapes(input_shapes),
        len(output_shapes),
        _library.shapes(output_shapes),
        forward_callback,
        backward_callback,
        None,
    )
    pointers = (ctypes.c_void_p * len(inputs))(*[x.ctypes.data for x in inputs])
    report = ctypes.c_void_p()
    library = _library.library
    interrupts = _Interrupts()
    try:
        with interrupts:
            status = library.heed_check_vjp(function, pointers, options, report)
        text = library.heed_report_text(report).decode()
        json = library.heed_report_json(report).decode()
    finally:
        library.heed_report_free(report)
    if error is not None:
        try:
            raise error
        finally:
            error = None  # otherwise the traceback would refer to itself
    if status == _library.OUT_OF_MEMORY:
        raise MemoryError("heed: not enough memory for the check; use smaller inputs")
    if status == _library.INVALID:
        raise ValueError(text)
    result = json_module.loads(json)
    if finished != result["forward_calls"] + result["backward_calls"]:
        # A signal handler raised an exception before the `try` of a callback.
        raise RuntimeError("heed: an exception interrupted the check; Python has printed it")
    if status != _library.OK:
        raise RuntimeError(text)
    worst = result["worst"]
    if worst is not None:
        number = {key: np.nan if worst[key] is None else worst[key] for key in ("backward", "differences", "tolerance", "digits")}
        worst = Entry(worst["input"], None if worst["at"] is None else tuple(worst["at"]), **number)
    return Report(result["verdict"], worst, text, json)


class _Interrupts:
    """While it is active, Ctrl-C and other signals raise exceptions only inside the user's functions.

    Elsewhere, Python would run the signal's handler at the entry of the next callback, before its `try`,
    and ctypes would print the exception instead of passing it on. Then it runs as soon as possible.
    """

    SIGNALS = [getattr(signal, s) for s in ("SIGINT", "SIGTERM", "SIGALRM") if hasattr(signal, s)]

    def __enter__(self) -> _Interrupts:
        self.inside = False  # whether a user's function is running
        self.pending: list[tuple[int, Any]] = []
        self.handlers: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():  # no other thread handles signals
            for number in self.SIGNALS:
                if callable(handler := signal.getsignal(number)):  # not SIG_IGN or SIG_DFL
                    self.handlers[number] = handler
                    signal.signal(number, self.handle)
        return self

    def handle(self, number: int, frame: Any) -> None:
        self.pending.append((number, frame))
        if self.inside:
            self.run_pending()

    def allow(self) -> None:
        """Marks the beginning of a call of a user's function. Its end sets `inside` to False."""
        self.inside = True
        if self.pending:
            self.run_pending()

    def run_pending(self) -> None:
        while self.pending:
            number, frame = self.pending.pop(0)
            self.inside = False  # a second signal waits until the first exception is caught
            self.handlers[number](number, frame)
            self.inside = True

    def __exit__(self, *_exception: Any) -> None:
        for number, handler in self.handlers.items():
            if signal.getsignal(number) == self.handle:  # else a user's function has set another one
                signal.signal(number, handler)
        self.run_pending()


def _in_range(name: str, value: int, least: int, most: int) -> int:
    number = operator.index(value)
    if not least <= number <= most:
        raise ValueError(f"{name} is {number}; needs {least} to {most}")
    return number


def _checked_inputs(inputs: np.ndarray | Sequence[Any]) -> Arrays:
    """Returns the inputs as contiguous arrays."""
    if isinstance(inputs, np.ndarray):
        inputs = [inputs]
    elif not isinstance(inputs, (list, tuple)):
        raise TypeError(f"inputs is of type {type(inputs).__name__}; needs an array, or a list of arrays")
    arrays: Arrays = []
    for i, given in enumerate(inputs):
        x = np.asarray(given)
        if x.dtype not in (np.float64, np.float32):
            discrete = x.dtype.kind in "biu"
            advice = " Capture an index or a mask in forward and backward instead" if discrete else ""
            raise TypeError(f"inputs[{i}] is {x.dtype}; needs float64 or float32 in native byte order.{advice}")
        if x.dtype != (first := arrays[0] if arrays else x).dtype:
            raise TypeError(f"inputs[{i}] is {x.dtype}, but inputs[0] is {first.dtype}; needs one type")
        if x.ndim > 8:
            raise ValueError(f"inputs[{i}] has {x.ndim} axes; at most 8 are possible")
        if not np.isfinite(x).all():
            at = tuple(map(int, np.argwhere(~np.isfinite(x))[0]))
            raise ValueError(f"inputs[{i}] is {x[at]} at {list(at)}; needs finite numbers")
        arrays.append(np.ascontiguousarray(x).reshape(x.shape))
    return arrays


def _checked(
    function: str, what: str, result: Any, dtype: np.dtype, shapes: list[tuple[int, ...]] | None = None
) -> Arrays:
    """Returns the results of a function as arrays. If `shapes` is given, the results must have these."""
    if type(result) is np.ndarray and shapes == [result.shape] and result.dtype == dtype:
        return [result]  # the usual case, without the work below
    values = list(result) if isinstance(result, (list, tuple)) else [result]
    if shapes is not None and len(values) != len(shapes):
        expected = "one for each input" if what == "gradient" else "as many as in the first call"
        raise ValueError(f"{function} returned {len(values)} {what}s; needs {len(shapes)}, {expected}")
    arrays = []
    for i, value in enumerate(values):
        if value is None:
            raise TypeError(f"{function} returned None as {what} {i}; needs an array (of zeros, if it is zero)")
        array = np.asarray(value)
        if array.dtype != dtype:
            raise TypeError(f"{function} returned {array.dtype} as {what} {i}; needs {dtype}, the type of the inputs")
        if array.ndim > 8:
            raise ValueError(f"{function} returned an array of {array.ndim} axes as {what} {i}; at most 8 are possible")
        if shapes is not None and array.shape != shapes[i]:
            expected = f"that of input {i}" if what == "gradient" else "that of the first call"
            raise ValueError(
                f"{function} returned an array of shape {array.shape} as {what} {i}; needs {shapes[i]}, {expected}"
            )
        arrays.append(array)
    return arrays


def _array_at(address: int | None, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Returns an array in memory that belongs to the library."""
    if address is None:
        return np.empty(shape, dtype)  # an array without elements
    size = int(np.prod(shape, dtype=np.int64))
    memory: Any = (ctypes.c_char * (size * dtype.itemsize)).from_address(address)
    return np.frombuffer(memory, dtype).reshape(shape)


def _read_only(x: np.ndarray) -> np.ndarray:
    x.flags.writeable = False
    return x
