"""Reads and writes files of the safetensors format (github.com/huggingface/safetensors) as NumPy arrays.

A file has 8 bytes with the size of the header (little endian), the header, which is JSON, and the data. The header
maps each name to dtype, shape and [begin, end) in the data, and "__metadata__" to an object of texts.
"""

from __future__ import annotations

import json
import math
import os
import pathlib

import numpy as np

Arrays = dict[str, np.ndarray]
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
          "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1"}  # fmt: skip
_CHECKSUM = "heed_checksum"  # covers all bytes, so it is wrong for a new file; a file may have none


def read(path: str | os.PathLike[str]) -> tuple[Arrays, dict[str, str]]:
    """Returns the arrays of a file by name, and its metadata without heed's checksum, which is not verified.

    bfloat16 becomes float32, exactly. Raises OSError if the file cannot be read, and ValueError if it is damaged.
    """
    with open(path, "rb") as file:
        data = file.read()
    try:
        start = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:start])
        metadata = header.pop("__metadata__", {})
        metadata.pop(_CHECKSUM, None)
        return {name: _array(data, start, info) for name, info in header.items()}, metadata
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(
            f"{os.fspath(path)} is not a safetensors file or is damaged ({type(error).__name__}: {error}); restore it"
        ) from error


def last_save(run: str | os.PathLike[str]) -> str:
    """Returns the path of the file with the weights of the last save: after a kill, model.safetensors can be older."""
    paths = [os.path.join(run, f"{name}.safetensors") for name in ("state", "model")]
    return paths[0] if os.path.lexists(paths[0]) else paths[1]


def read_weights(path: str | os.PathLike[str]) -> tuple[Arrays, dict[str, str]]:
    """Returns read(path). Of a state, returns only the weights, without the prefix of their names."""
    arrays, metadata = read(path)
    if "data_stream" in metadata:  # a state
        arrays = {name[6:]: array for name, array in arrays.items() if name.startswith("model.")}
        for key in ("data_stream", "dropout_stream", "best_loss", "best_step", "finished", "result", "last_evaluation"):
            metadata.pop(key, None)
    return arrays, metadata


def _array(data: bytes, start: int, info: dict) -> np.ndarray:
    """Returns a writable copy of the array that an entry of the header describes."""
    half = info["dtype"] == "BF16"
    dtype, shape, (begin, end) = np.dtype("<u2" if half else _TYPES[info["dtype"]]), info["shape"], info["data_offsets"]
    count = math.prod(shape)
    if min(shape, default=0) < 0 or begin < 0 or end - begin != count * dtype.itemsize or start + end > len(data):
        raise ValueError(f"{shape} of {info['dtype']} does not fit bytes {begin} to {end} of {len(data) - start}")
    array = np.frombuffer(data[start + begin : start + end], dtype).reshape(shape)
    return (array.astype("<u4") << 16).view("<f4") if half else array.copy()


def write(path: str | os.PathLike[str], arrays: Arrays, metadata: dict[str, str]) -> None:
    """Writes a new file with write_file(). The result has no checksum.

    Raises FileExistsError if the file exists, TypeError for an array of another dtype than read() returns, and OSError.
    """
    names = {np.dtype(code): name for name, code in _TYPES.items()}
    header: dict = {"__metadata__": {key: text for key, text in metadata.items() if key != _CHECKSUM}}
    end, parts = 0, []
    for name, array in sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize):  # aligns each array
        if array.dtype not in names:
            raise TypeError(f"array {name!r} has dtype {array.dtype}; use {', '.join(map(str, names))}")
        parts.append(array.tobytes())
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    write_file(path, len(text).to_bytes(8, "little"), text, *parts)


def write_file(path: str | os.PathLike[str], *parts: bytes) -> None:
    """Writes a new file, whole or not at all. A killed process can leave the temporary file `path`.tmpPID.0.

    Raises FileExistsError if the file exists, and OSError.
    """
    if os.path.lexists(path):
        raise FileExistsError(f"{os.fspath(path)} exists; choose another name, or remove it")
    temporary = pathlib.Path(f"{os.fspath(path)}.tmp{os.getpid()}.0")
    try:
        with open(temporary, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
