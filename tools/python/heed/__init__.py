"""Gradient checks for functions of NumPy arrays (check_vjp) and of PyTorch's tensors (heed.torch.check).

check_attention compares attention with its definition. heed.torch also has check_attention and check_causality. The
command is python -m heed.check.

You have written a function and its backward pass by hand. check_vjp tests whether the backward pass is
right, with heed's checker: it finds errors that torch.autograd.gradcheck passes, and needs no tolerance.

>>> import heed, numpy as np
>>> report = heed.check_vjp(np.sin, lambda x, dy: np.cos(x) * dy, np.array([0.5, -1.2]))
>>> print(report)  # doctest: +ELLIPSIS
right: ... digits agree with differences in 2 of 2 entries; ... order 1, seed 1
"""

from ._attention import check_attention
from ._check import Check, Entry, Report, assert_vjp, check_jvp, check_vjp

__all__ = ["Check", "Entry", "Report", "assert_vjp", "check_attention", "check_jvp", "check_vjp"]
__version__ = "0.1.0"
