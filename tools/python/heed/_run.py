"""Runs a check of the library for functions of arrays: a heed_problem whose callbacks call Python."""

from __future__ import annotations

import ctypes
import json as json_module
import math
import operator
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _library

Arrays = list[Any]
"""Arrays of one type. A gradient of an output may be None, which counts as zeros."""


@dataclass(frozen=True)
class Entry:
    """The worst entry of a check: an entry of a gradient, beside its value by differences."""

    input: int
    """Index of the input, from 0."""
    at: tuple[int, ...] | None
    """Index in that input, or None if all its entries moved in a random direction."""
    backward: float
    """Value by the backward pass, for a random dy, the gradient of the output."""
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
    layouts: dict[str, Any] | None = None
    """Memory layouts of the arguments: `passed` of `of` passed. `not_applicable` lists the others, with reasons."""
    repeated: dict[str, Any] | None = None
    """Kinds of repeated calls, in the same form."""
    diagnosis: dict[str, Any] | None = None
    """The mistake that explains a wrong gradient (kind, factor, input, agree, of, text), if one was found."""

    def __bool__(self) -> bool:
        return self.verdict == "right"

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


class Refusal(Exception):
    """A derivative cannot be computed. The argument is the code for the library: SINGLE_USE or NO_DERIVATIVE."""


@dataclass
class Problem:
    """A function and its derivatives, as heed_problem (heed_check.h). Each function gets lists of arrays, which are
    copies, and returns a list of arrays of the right type and shapes, or of objects that `read` makes into such."""

    dtype: int
    """heed_dtype of all arrays. The arrays of HEED_BFLOAT16 are of uint16."""
    input_shapes: list[tuple[int, ...]]
    output_shapes: list[tuple[int, ...]]
    forward: Callable[[Arrays], Arrays]
    backward: Callable[[Arrays, Arrays], Arrays] | None = None
    backward2: Callable[[Arrays, Arrays, Arrays], Arrays] | None = None
    """Returns the gradients with respect to the inputs, then those with respect to the gradients of the outputs."""
    jvp: Callable[[Arrays, Arrays], Arrays] | None = None
    layouts: int = 0
    caller: str = ""
    is_paired: bool = False
    """Whether arrays inside larger ones begin at even positions, as views as complex numbers need."""
    forward_error: float = 0
    read: Callable[[Any], np.ndarray] = np.asarray


def run(
    problem: Problem, inputs: Arrays, seed: int, max_entries: int, order: int = 1, others: Sequence[Problem] = ()
) -> Report:
    """Runs the check of the library. `inputs` are contiguous arrays of the type and shapes of the problem. `others` are
    its reference and plain version, or empty."""
    options = _library.Options(ctypes.sizeof(_library.Options), _in_range("seed", seed, 0, 2**64 - 1),
                               _in_range("max_entries", max_entries, 1, 2**63 - 1), problem.forward_error)  # fmt: skip
    if _in_range("order", order, 1, 2) == 2 and not problem.backward2:
        problem.backward2 = _no_second_derivative
    interrupts = _Interrupts()
    callbacks = [_Callbacks(p, interrupts) for p in (problem, *others)]
    struct = callbacks[0].struct
    for name, other in zip(("reference", "plain"), callbacks[1:]):
        setattr(struct, name, ctypes.addressof(other.struct))
    pointers = (ctypes.c_void_p * len(inputs))(*[x.ctypes.data for x in inputs])
    report = ctypes.c_void_p()
    library = _library.library
    try:
        with interrupts:
            status = library.heed_check(struct, pointers, options, report)
        text = library.heed_report_text(report).decode()
        json = library.heed_report_json(report).decode()
    finally:
        library.heed_report_free(report)
    for c in callbacks:
        if c.error is not None:
            try:
                raise c.error
            finally:
                c.error = None  # otherwise the traceback would refer to itself
    if status == _library.OUT_OF_MEMORY:
        raise MemoryError("heed: not enough memory for the check; use smaller inputs")
    if status == _library.INVALID:
        raise ValueError(text)
    result = json_module.loads(json)
    if sum(c.finished for c in callbacks) != sum(n for key, n in result.items() if key.endswith("_calls")):
        # A signal handler raised an exception before the `try` of a callback.
        raise RuntimeError("heed: an exception interrupted the check; Python has printed it")
    if status != _library.OK:
        raise RuntimeError(text)
    worst = result["worst"]
    if worst is not None:
        keys = ("backward", "differences", "tolerance", "digits")
        number = {key: np.nan if worst[key] is None else worst[key] for key in keys}
        worst = Entry(worst["input"], None if worst["at"] is None else tuple(worst["at"]), **number)
    text = "; ".join([text, *(note for c in callbacks for note in c.notes.values())])
    return Report(result["verdict"], worst, text, json, *map(result.get, ("layouts", "repeated", "diagnosis")))


def _no_second_derivative(*_arrays: Arrays) -> Arrays:
    raise Refusal(_library.NO_DERIVATIVE)


class _Callbacks:
    """The callbacks of a problem, with the state of one check."""

    def __init__(self, problem: Problem, interrupts: _Interrupts) -> None:
        self.problem = problem
        self.interrupts = interrupts
        self.dtype = np.dtype(_library.NUMPY_TYPES[problem.dtype])
        # At least the length of the library's gaps, with which a wrong stride reads NaN, not memory outside of the buffer.
        most = max(map(math.prod, problem.input_shapes + problem.output_shapes), default=0)
        self.gap = 4 * most + 2 if problem.is_paired else 2 * most + 1
        self.x: list[bytes] = []  # the inputs of the first call
        self.notes: dict[bool, str] = {}  # on exceptions at other points (False) and for other layouts (True)
        self.error: BaseException | None = None
        self.finished = 0  # calls that returned
        # Contiguous arrays in the memory of the library.
        self.known: dict[tuple[str, bytes], tuple[Arrays, bool]] = {}
        self.shapes = {group: problem.output_shapes if group.endswith("outputs") else problem.input_shapes
                       for groups in _library.CALLBACKS.values() for group in groups[0] + groups[1]}  # fmt: skip
        self.last: tuple[list[bytes], Arrays] = ([], [])  # the last contiguous gradients of the outputs
        self.returned: list[tuple[Any, np.ndarray]] = []  # gradients of the last call, and their copies in the library
        callbacks = {name: prototype(self.callback(name, getattr(problem, name)))
                     for name, prototype in _library.PROTOTYPES.items() if getattr(problem, name)}  # fmt: skip
        self.struct = _library.Problem(
            ctypes.sizeof(_library.Problem), problem.dtype, problem.layouts,
            len(problem.input_shapes), _library.shapes(problem.input_shapes),
            len(problem.output_shapes), _library.shapes(problem.output_shapes),
            caller=problem.caller.encode(), **callbacks,
        )  # fmt: skip

    def callback(self, name: str, function: Callable[..., Arrays]) -> Callable[..., int]:
        arguments, results = _library.CALLBACKS[name]
        names, read = arguments + results, self.problem.read

        def call(_user: int | None, *addresses: int | None) -> int:
            groups: list[tuple[Arrays, bool]] = []
            try:
                self.interrupts.allow()
                groups = [self.arrays(group, a) for group, a in zip(names, addresses)]
                given = [self.copies(group, *g) for group, g in zip(arguments, groups)]
                self.x = self.x or _bits(given[0])
                values = function(*given)
                self.report_changes(pair for copies, (arrays, _) in zip(given, groups) for pair in zip(copies, arrays))
                if self.returned:
                    self.report_changes((read(value), copy) for value, copy in self.returned)
                    self.returned = []
                targets = [array for arrays, _placed in groups[len(arguments) :] for array in arrays]
                for value, target in zip(values, targets):
                    target[...] = read(value)
                if name == "backward":
                    self.returned = list(zip(values, targets))
                code = _library.OK
            except Refusal as e:
                (code,) = e.args
            except BaseException as e:
                self.interrupts.inside = False
                placed = any(placed for _arrays, placed in groups)
                if isinstance(e, Exception) and hasattr(e, "add_note") and placed:
                    e.add_note("heed: an argument of this call is not contiguous, lies inside a larger array, or is "
                               "missing. If the function does not support this, pass layouts=False")  # fmt: skip
                if not self.is_undefined(name, e, groups, placed):
                    self.error = e  # raised again by run()
                    return 1
                where = "with an input in another layout" if placed else "at other points than x (not finite there)"
                self.notes.setdefault(placed, f"{name} raised {type(e).__name__} {where}: {e}")
                code = _library.UNDEFINED
            self.finished += code != _library.NO_DERIVATIVE  # which the library does not count
            self.interrupts.inside = False
            return code

        return call

    def is_undefined(self, name: str, error: BaseException, groups: list[tuple[Arrays, bool]], placed: bool) -> bool:
        """Returns whether an exception means that the function has no result at these inputs, or in their layout."""
        if not isinstance(error, Exception) or isinstance(error, MemoryError) or self.interrupts.raised or not groups:
            return False
        return name == "forward" if placed else _bits(groups[0][0]) != self.x

    def arrays(self, group: str, address: int | None) -> tuple[Arrays, bool]:
        """Returns arrays in the memory of the library, valid during the call, and whether they lie between NaNs."""
        shapes = self.shapes[group]
        key = group, ctypes.string_at(address, ctypes.sizeof(_library.Array) * len(shapes))
        if known := self.known.get(key):
            return known
        given = (_library.Array * len(shapes)).from_buffer_copy(key[1])
        arrays = [_array_at(a, shape, self.dtype) for a, shape in zip(given, shapes)]
        # Contiguous arguments are always in the same memory.
        placed = group in ("inputs", "grad_outputs", "tangents") and any(name == group for name, _structs in self.known)
        if not placed:
            self.known[key] = arrays, False
        return arrays, placed

    def copies(self, group: str, arrays: Arrays, placed: bool) -> Arrays:
        """Returns copies with the same strides. Contiguous gradients of outputs that are equal to those of the last
        call are the same objects, so that a function that marks an object as used is found."""
        if placed:
            return [_placed_copy(a, self.gap) for a in arrays]
        if group != "grad_outputs":
            return [a.copy() for a in arrays]
        bits = _bits(arrays)
        if bits != self.last[0]:
            self.last = bits, [a.copy() for a in arrays]
        return self.last[1]

    def report_changes(self, pairs: Iterable[tuple[np.ndarray | None, np.ndarray]]) -> None:
        """Copies arrays that differ from their counterparts in the library to these: the library finds the change."""
        for copy, array in pairs:
            if copy is not None and copy.tobytes() != array.tobytes():
                array[...] = copy
                self.last = [], []  # no longer equal to the array of the library


def _bits(arrays: Arrays) -> list[bytes]:
    return [a.tobytes() for a in arrays]


def _span(shape: tuple[int, ...], strides: Sequence[int]) -> tuple[int, int]:
    """Returns the distances from the first element of an array to the elements with the least and the largest
    address."""
    steps = [(n - 1) * s for n, s in zip(shape, strides)]
    return sum(s for s in steps if s < 0), sum(s for s in steps if s > 0)


def _array_at(array: _library.Array, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray | None:
    """Returns an array in memory that belongs to the library, or None if it is missing."""
    if not all(shape):
        return np.empty(shape, dtype)
    if array.data is None:
        return None
    if not array.strides:
        memory: Any = (ctypes.c_char * (math.prod(shape) * dtype.itemsize)).from_address(array.data)
        return np.frombuffer(memory, dtype).reshape(shape)
    strides = [s * dtype.itemsize for s in array.strides[: len(shape)]]
    least, largest = _span(shape, strides)
    memory = (ctypes.c_char * (largest - least + dtype.itemsize)).from_address(array.data + least)
    return np.ndarray(shape, dtype, memory, -least, strides)


def _placed_copy(array: np.ndarray | None, gap: int) -> np.ndarray | None:
    """Returns a copy with the same strides, between `gap` NaNs at each end. Its base is the larger array."""
    if array is None or array.size == 0:
        return array
    least, largest = (distance // array.itemsize for distance in _span(array.shape, array.strides))
    nan = 0x7FC0 if array.dtype == np.uint16 else np.nan  # 0x7FC0: NaN in bfloat16
    memory = np.full(largest - least + 1 + 2 * gap, nan, array.dtype)
    copy = np.ndarray(array.shape, array.dtype, memory, (gap - least) * array.itemsize, array.strides)
    copy[...] = array
    return copy


class _Interrupts:
    """While it is active, Ctrl-C and other signals raise exceptions only inside the user's functions.

    Elsewhere, Python would run the signal's handler at the entry of the next callback, before its `try`,
    and ctypes would print the exception instead of passing it on. Then it runs as soon as possible.
    """

    SIGNALS = [getattr(signal, s) for s in ("SIGINT", "SIGTERM", "SIGALRM") if hasattr(signal, s)]

    def __enter__(self) -> _Interrupts:
        self.inside = False  # whether a user's function is running
        self.raised = False  # whether the handler of a signal raised an exception
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
            self.raised = True
            self.handlers[number](number, frame)
            self.inside, self.raised = True, False

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
