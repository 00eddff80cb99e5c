"""PyTorch's tensors from arrays and back, and their graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ._run import Arrays


def require_derivatives(nodes: list[Any]) -> None:
    """Raises NotImplementedError if a graph has a node of torch.autograd.function.once_differentiable. Its error does
    not occur in torch.autograd.grad(), which leaves out nodes that do not lead to an input."""
    seen = set()
    while nodes:
        if (node := nodes.pop()) is None or node in seen:
            continue
        if node.name().endswith("::Error"):
            raise NotImplementedError("the second derivative is not implemented")
        seen.add(node)
        nodes += [following for following, _index in node.next_functions]


def tensor(array: np.ndarray, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Returns a tensor with these values and strides, inside a larger one if the array is."""
    memory: np.ndarray = array if array.base is None else array.base
    if dtype == torch.bfloat16:
        flat = torch.tensor(memory.view(np.int16)).view(dtype).to(device)
    else:
        flat = torch.tensor(memory, device=device)
    if array.base is None:
        return flat
    offset = (array.ctypes.data - memory.ctypes.data) // array.itemsize
    return flat.as_strided(array.shape, [s // array.itemsize for s in array.strides], offset)


def like(leaf: torch.Tensor, array: np.ndarray) -> torch.Tensor:
    """Returns a new leaf with these values. A contiguous array gets the strides of `leaf` unless it is expanded."""
    new = tensor(array, leaf.dtype, leaf.device)
    expanded = any(stride == 0 and size > 1 for size, stride in zip(leaf.size(), leaf.stride()))
    if array.base is None and new.stride() != leaf.stride() and not expanded:
        new = torch.empty_strided(leaf.size(), leaf.stride(), dtype=leaf.dtype, device=leaf.device).copy_(new)
    return new.requires_grad_()


def to_numpy(x: torch.Tensor) -> np.ndarray:
    x = x.detach().to_dense().cpu()
    array = x.view(torch.int16).numpy().view(np.uint16) if x.dtype == torch.bfloat16 else x.numpy(force=True)
    return np.ascontiguousarray(array).reshape(tuple(x.shape))


def copy_back(tensors: list[torch.Tensor | None], arrays: Arrays) -> None:
    """Copies the values of tensors to the arrays from which they were made, so that run() finds changes."""
    for x, array in zip(tensors, arrays):
        if x is not None:
            array[...] = to_numpy(x)


def flat(x: Any) -> list[Any]:
    """Returns the elements of nested tuples, lists and dicts, in their order."""
    if isinstance(x, dict):
        x = list(x.values())
    return [leaf for part in x for leaf in flat(part)] if isinstance(x, (list, tuple)) else [x]
