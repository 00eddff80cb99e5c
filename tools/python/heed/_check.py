"""check_vjp for functions of NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from . import _library
from ._run import Arrays, Entry, Problem, Report, run

__all__ = ["Entry", "Report", "assert_vjp", "check_jvp", "check_vjp"]

def check_vjp(
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    inputs: np.ndarray | Sequence[Any],
    *,
    seed: int = 1,
    max_entries: int = 1000,
    order: int = 1,
    backward2: Callable[..., Any] | None = None,
    forward_error: float = 0,
    layouts: bool = True,
) -> Report:
    """Checks a backward pass that was written by hand, by differences of the forward pass.

    forward(*inputs) returns an array, or a tuple or list of arrays. backward(*inputs, *dys) gets in
    addition one dy for each output, with its shape: the gradient of the output, which is that of a loss
    with respect to the output. It returns one gradient for each input, with its shape.
    For each compared entry, forward runs about 6 to 60 times in float64 (up to 96 times beside a kink, a
    pole or an edge of its domain), and about 18 to 54 times in float32 (up to 216 times).

    Both functions must return the same values for the same arguments. Their arguments are copies that
    cannot be written, also with other strides: transposed, every second element of an array, negative or
    zero. The elements between them are NaN. A returned gradient must keep its values. Both functions also get
    inputs of whole numbers or of bool, such as indices or masks; `backward` returns no gradients for them, and the
    report names the others.

    Args:
        forward: the function.
        backward: its backward pass.
        inputs: the point at which the gradient is checked: arrays of finite numbers, all float64 or
            all float32, with at most 8 axes, and arrays of whole numbers or bool. A single array is one input.
        seed: seed of the random dys and directions, from 0 to 2^64 - 1. The same seed gives
            the same report.
        max_entries: number of entries that are compared one by one, at least 1; but at least 16 of each
            input. Other entries are compared together, in a random direction.
        order: 2 also checks the second derivative.
        backward2: the backward pass of `backward`, for order 2: backward2(*inputs, *dys, *tangents), with
            one tangent for each input. It returns the gradients of sum(gradient * tangent), over all
            gradients that backward(*inputs, *dys) returns, with respect to each input, then to each dy.
        forward_error: absolute error of forward that is larger than rounding, such as the tolerance of an
            iterative solver; finite and at least 0. Derivatives that it hides do not count as checked.
        layouts: if False, all arguments are contiguous, for functions that raise an exception for others.

    Returns:
        The report. It is true if the gradient is right.

    Raises:
        TypeError: no input is float64 or float32, or an input, output or gradient has another type.
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
    functions = {"forward": forward, "backward": backward, "backward2": backward2}
    return _check(inputs, seed, max_entries, order, forward_error, layouts, functions)


def check_jvp(
    forward: Callable[..., Any],
    jvp: Callable[..., Any],
    inputs: np.ndarray | Sequence[Any],
    *,
    backward: Callable[..., Any] | None = None,
    seed: int = 1,
    max_entries: int = 1000,
    forward_error: float = 0,
    layouts: bool = True,
) -> Report:
    """Checks a Jacobian-vector product (forward-mode derivative), by differences of the forward pass.

    jvp(*inputs, *tangents) gets in addition one tangent for each input, with its shape, and returns the
    derivative of each output along the tangents. If `backward` is given, it is checked, too, and whether
    both are derivatives of one function. The other arguments and the result are those of check_vjp().

    >>> check_jvp(np.sin, lambda x, t: np.cos(x) * t, np.array([0.5, -1.2])).verdict
    'right'
    >>> check_jvp(np.sin, lambda x, t: np.sin(x) * t, np.array([0.5, -1.2])).verdict
    'wrong'
    """
    functions = {"forward": forward, "backward": backward, "jvp": jvp}
    return _check(inputs, seed, max_entries, 1, forward_error, layouts, functions)


def assert_vjp(
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    inputs: np.ndarray | Sequence[Any],
    **options: Any,
) -> None:
    """Raises AssertionError with the report unless check_vjp() finds that the gradient is right.

    For pytest and unittest. The arguments are those of check_vjp().

    >>> assert_vjp(lambda x: x ** 2, lambda x, dy: 2 * x * dy, np.array([1.0, -2.0]))
    >>> assert_vjp(lambda x: x ** 2, lambda x, dy: x * dy, np.array([1.0, -2.0]))
    Traceback (most recent call last):
    AssertionError: wrong: input 0 at [0]: backward returns 1, differences give 2 for output [0] ...
    """
    __tracebackhide__ = True  # pytest then shows the line of the test
    report = check_vjp(forward, backward, inputs, **options)
    if not report:
        raise AssertionError(report.text)


def _check(inputs: Any, seed: int, max_entries: int, order: int, forward_error: float, layouts: bool,
           functions: dict[str, Callable[..., Any] | None]) -> Report:  # fmt: skip
    """Runs a check. `functions` are forward, backward, backward2 and jvp; those that are None are not checked."""
    given = _checked_inputs(inputs)
    places = [i for i, x in enumerate(given) if x.dtype.kind == "f"]
    xs = [given[i] for i in places]
    dtype = xs[0].dtype if xs else np.dtype(np.float64)
    shapes = [x.shape for x in xs]

    def arguments(*groups: Arrays) -> Arrays:
        """Returns the arguments of a function: all inputs, with the first group at their places, and the others."""
        first = dict(zip(places, groups[0]))
        of_inputs = [first.get(i, x) for i, x in enumerate(given)]
        return [_read_only(x) for group in (of_inputs, *groups[1:]) for x in group]

    outputs = _checked("forward", "output", functions["forward"](*arguments([x.copy() for x in xs])), dtype)
    output_shapes = [y.shape for y in outputs]
    results = {
        "forward": ("output", output_shapes),
        "backward": ("gradient", shapes),
        "backward2": ("second gradient", shapes + output_shapes),
        "jvp": ("tangent", output_shapes),
    }

    def checked(name: str) -> Callable[..., Arrays] | None:
        def call(*groups: Arrays) -> Arrays:
            return _checked(name, what, function(*arguments(*groups)), dtype, like)

        function, (what, like) = functions[name], results[name]
        return function and call

    problem = Problem(
        _library.FLOAT32 if dtype == np.float32 else _library.FLOAT64,
        shapes,
        output_shapes,
        **{name: checked(name) for name in functions},
        layouts=_library.ALL_LAYOUTS - _library.MISSING if layouts else 0,
        caller="NumPy",
        forward_error=forward_error,
    )
    report = run(problem, xs, seed, max_entries, order)
    if len(xs) < len(given):
        names = ", ".join(f"{k} is argument {i}" for k, i in enumerate(places))
        report = replace(report, text=f"{report.text}; inputs: {names}")
    return report


def _checked_inputs(inputs: np.ndarray | Sequence[Any]) -> Arrays:
    """Returns the inputs as contiguous copies."""
    if isinstance(inputs, np.ndarray):
        inputs = [inputs]
    elif not isinstance(inputs, (list, tuple)):
        raise TypeError(f"inputs is of type {type(inputs).__name__}; needs an array, or a list of arrays")
    arrays: Arrays = []
    for i, given in enumerate(inputs):
        x = np.asarray(given)
        if x.dtype not in (np.float64, np.float32) and x.dtype.kind not in "biu":
            raise TypeError(f"inputs[{i}] is {x.dtype}; needs float64, float32, whole numbers or bool, in native byte "
                            "order")  # fmt: skip
        first = next((a for a in arrays if a.dtype.kind == "f"), x)
        if x.dtype.kind == "f" and x.dtype != first.dtype:
            raise TypeError(f"inputs[{i}] is {x.dtype}, but another one is {first.dtype}; needs one type")
        if not np.isfinite(x).all():
            at = tuple(map(int, np.argwhere(~np.isfinite(x))[0]))
            raise ValueError(f"inputs[{i}] is {x[at]} at {list(at)}; needs finite numbers")
        arrays.append(np.array(x, order="C"))
    if arrays and all(a.dtype.kind != "f" for a in arrays):
        raise TypeError(f"inputs[0] is {arrays[0].dtype}; needs float64 or float32 in at least one input")
    return arrays


_EXPECTED = {  # number and shapes of the results
    "output": ("as many as in the first call", "that of the first call"),
    "gradient": ("one for each input", "that of its input"),
    "second gradient": ("one for each input and then for each dy", "that of its input or dy"),
    "tangent": ("one for each output", "that of its output"),
}


def _checked(
    function: str, what: str, result: Any, dtype: np.dtype, shapes: list[tuple[int, ...]] | None = None
) -> Arrays:
    """Returns the results of a function as arrays. If `shapes` is given, the results must have these."""
    if type(result) is np.ndarray and shapes == [result.shape] and result.dtype == dtype:
        return [result]  # the usual case, without the work below
    values = list(result) if isinstance(result, (list, tuple)) else [result]
    if shapes is not None and len(values) != len(shapes):
        raise ValueError(f"{function} returned {len(values)} {what}s; needs {len(shapes)}, {_EXPECTED[what][0]}")
    arrays = []
    for i, value in enumerate(values):
        if value is None:
            raise TypeError(f"{function} returned None as {what} {i}; needs an array (of zeros, if it is zero)")
        array = np.asarray(value)
        if array.dtype != dtype:
            raise TypeError(f"{function} returned {array.dtype} as {what} {i}; needs {dtype}, the type of the inputs")
        if shapes is not None and array.shape != shapes[i]:
            raise ValueError(f"{function} returned an array of shape {array.shape} as {what} {i}; "
                             f"needs {shapes[i]}, {_EXPECTED[what][1]}")  # fmt: skip
        arrays.append(array)
    return arrays


def _read_only(x: np.ndarray) -> np.ndarray:
    x.flags.writeable = False
    return x
