"""The shared library libheed_check, through ctypes. Its interface is autograd/check/heed_check.h."""

from __future__ import annotations

import ctypes
import pathlib
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_uint64, c_void_p

OK, INVALID, OUT_OF_MEMORY = 0, -1, -2
FLOAT64, FLOAT32 = 0, 1

Pointers = POINTER(c_void_p)
# The arrays of pointers are passed as addresses (int), because making a pointer object takes a microsecond.
Forward = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)
Backward = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p)


class Shape(ctypes.Structure):
    """heed_shape"""

    _fields_ = [("axes", c_size_t), ("sizes", POINTER(c_int64))]


class Function(ctypes.Structure):
    """heed_function"""

    _fields_ = [
        ("dtype", c_int),
        ("num_inputs", c_size_t),
        ("input_shapes", POINTER(Shape)),
        ("num_outputs", c_size_t),
        ("output_shapes", POINTER(Shape)),
        ("forward", Forward),
        ("backward", Backward),
        ("user", c_void_p),
    ]


class Options(ctypes.Structure):
    """heed_check_options"""

    _fields_ = [("size", c_size_t), ("seed", c_uint64), ("max_entries", c_int64)]


def shapes(list_of_shapes: list[tuple[int, ...]]) -> ctypes.Array[Shape]:
    """Returns an array of heed_shape."""
    return (Shape * len(list_of_shapes))(
        *[Shape(len(shape), (c_int64 * len(shape))(*shape)) for shape in list_of_shapes]
    )


def _load() -> ctypes.CDLL:
    library = ctypes.CDLL(str(pathlib.Path(__file__).with_name("libheed_check.so")))
    library.heed_check_vjp.argtypes = [POINTER(Function), Pointers, POINTER(Options), POINTER(c_void_p)]
    library.heed_check_vjp.restype = c_int
    for name, result in [("verdict", c_int), ("text", c_char_p), ("json", c_char_p), ("free", None)]:
        function = getattr(library, f"heed_report_{name}")
        function.argtypes, function.restype = [c_void_p], result
    return library


library = _load()
