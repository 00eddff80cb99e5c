"""Attention models to train and to study, and gradient checks for functions of NumPy arrays and PyTorch's tensors.

heed.train trains a model, heed.load opens a run, and heed.plot draws a matrix. All options are those of the program
heed, which this package contains: `heed train --help all` lists those of heed.train, with - for _.

>>> run = heed.train("induction", steps=400, out="runs/a")  # doctest: +SKIP
>>> run.study(prompt="abcab", of="diff:c-d").sentences[0]  # doctest: +SKIP

check_vjp tests whether a backward pass that you wrote by hand is right, with heed's checker: it finds errors that
torch.autograd.gradcheck passes, and needs no tolerance. check_attention compares attention with its definition.
heed.torch also has check_attention and check_causality.

>>> import heed, numpy as np
>>> report = heed.check_vjp(np.sin, lambda x, dy: np.cos(x) * dy, np.array([0.5, -1.2]))
>>> print(report)  # doctest: +ELLIPSIS
right: ... digits agree with differences in 2 of 2 entries; ... order 1, seed 1
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._attention import check_attention
    from ._check import Entry, Report, assert_vjp, check_jvp, check_vjp
    from ._program import Error
    from ._runs import Picture, Run, Study, load, plot, runs, train

__all__ = ["Entry", "Error", "Picture", "Report", "Run", "Study", "assert_vjp", "check_attention", "check_jvp",
           "check_vjp", "load", "plot", "runs", "train"]  # fmt: skip
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Imports a public name at its first use, because NumPy takes a tenth of a second."""
    if name in __all__:
        for module in ("_program", "_runs", "_attention", "_check"):
            home = importlib.import_module(f"{__name__}.{module}")
            if hasattr(home, name):
                globals()[name] = getattr(home, name)
                return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
