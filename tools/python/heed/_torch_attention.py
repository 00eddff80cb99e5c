"""check_attention for functions of PyTorch's tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from . import _attention
from ._check import Arrays, Report


@torch.inference_mode(False)
def check_attention(function: Callable[..., torch.Tensor], *, device: str = "cpu", **options: Any) -> Report:
    """Compares attention, and the gradients that PyTorch computes through it, with heed's definition.

    function(q, k, v, ...) returns the output. Its parameters, the cases, the options (layout, dtype, sizes, seed, and
    what the function always applies) and the report are those of heed.check_attention(). The tensors are on `device`.

    Raises:
        ValueError: as in heed.check_attention(), or the output has another shape or dtype.
        TypeError: the output is not a tensor.

    >>> def attention(q, k, v, causal=False):
    ...     return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    >>> print(check_attention(attention))  # doctest: +ELLIPSIS
    right: 5 of 5 cases agree with the definition: plain, ...; causal alignment: top_left; ...
    """

    def call(inputs: Arrays, dy: np.ndarray, passed: dict[str, Any]) -> Iterator[np.ndarray]:
        xs = [torch.tensor(x, device=device).requires_grad_() for x in inputs]
        values = {n: torch.tensor(x, device=device) if isinstance(x, np.ndarray) else x for n, x in passed.items()}
        with torch.enable_grad():
            y = function(*xs, **values)
        if not isinstance(y, torch.Tensor):
            raise TypeError(f"the function returned a {type(y).__name__}; needs one tensor, the output")
        if tuple(y.shape) != dy.shape or y.dtype != xs[0].dtype:
            raise ValueError(f"the output is {y.dtype} of shape {tuple(y.shape)}; needs {xs[0].dtype}, {dy.shape}")
        yield y.detach().cpu().numpy()
        for x, g in zip(xs, torch.autograd.grad(y, xs, torch.tensor(dy, device=device), allow_unused=True)):
            yield np.zeros(x.shape, dy.dtype) if g is None else g.cpu().numpy()

    return _attention.run(function, call, **options)
