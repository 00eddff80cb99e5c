"""The shared library libheed_check, through ctypes. Its interface is autograd/check/heed_check.h."""

from __future__ import annotations

import ctypes
import pathlib
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint, c_uint64, c_void_p

OK, INVALID, OUT_OF_MEMORY = 0, -1, -2
SINGLE_USE, NO_DERIVATIVE, UNDEFINED = 0x5105E, 0x5105F, 0x51060
FLOAT64, FLOAT32, FLOAT16, BFLOAT16 = range(4)
NUMPY_TYPES = ["float64", "float32", "float16", "uint16"]
ALL_LAYOUTS, NEGATIVE, MISSING = 63, 8, 32

Pointers = POINTER(c_void_p)
# The arguments and the results of each callback. A name that ends in "outputs" has the shapes of the outputs.
CALLBACKS = {
    "forward": (["inputs"], ["outputs"]),
    "backward": (["inputs", "grad_outputs"], ["grad_inputs"]),
    "backward2": (["inputs", "grad_outputs", "tangents"], ["grad_inputs", "grad_grad_outputs"]),
    "jvp": (["inputs", "tangents"], ["tangent_outputs"]),
}
# The arrays of heed_array are passed as addresses (int), because making a pointer object takes a microsecond.
PROTOTYPES = {name: ctypes.CFUNCTYPE(c_int, c_void_p, *[c_void_p] * len(arguments + results))
              for name, (arguments, results) in CALLBACKS.items()}  # fmt: skip


class Shape(ctypes.Structure):
    """heed_shape"""

    _fields_ = [("axes", c_size_t), ("sizes", POINTER(c_int64))]


class Array(ctypes.Structure):
    """heed_array"""

    _fields_ = [("data", c_void_p), ("strides", POINTER(c_int64))]


class Problem(ctypes.Structure):
    """heed_problem"""

    _fields_ = [
        ("size", c_size_t),
        ("dtype", c_int),
        ("layouts", c_uint),
        ("num_inputs", c_size_t),
        ("input_shapes", POINTER(Shape)),
        ("num_outputs", c_size_t),
        ("output_shapes", POINTER(Shape)),
        ("user", c_void_p),
        *PROTOTYPES.items(),
        ("reference", c_void_p),
        ("plain", c_void_p),
        ("caller", c_char_p),
    ]


class Options(ctypes.Structure):
    """heed_check_options"""

    _fields_ = [("size", c_size_t), ("seed", c_uint64), ("max_entries", c_int64), ("forward_error", c_double)]


def shapes(list_of_shapes: list[tuple[int, ...]]) -> ctypes.Array[Shape]:
    """Returns an array of heed_shape."""
    return (Shape * len(list_of_shapes))(
        *[Shape(len(shape), (c_int64 * len(shape))(*shape)) for shape in list_of_shapes]
    )


def _load() -> ctypes.CDLL:
    library = ctypes.CDLL(str(pathlib.Path(__file__).with_name("libheed_check.so")))
    library.heed_check.argtypes = [POINTER(Problem), Pointers, POINTER(Options), POINTER(c_void_p)]
    library.heed_check.restype = c_int
    for name, result in [("verdict", c_int), ("text", c_char_p), ("json", c_char_p), ("free", None)]:
        function = getattr(library, f"heed_report_{name}")
        function.argtypes, function.restype = [c_void_p], result
    return library


library = _load()
