"""check_causality: does a PyTorch module let later tokens influence earlier outputs?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ._check import Report
from ._tensors import flat

ROUNDINGS = 16  # of the largest output: a difference up to this may be rounding
FLOAT64_GAIN = 1e4  # a difference by rounding is at least this factor smaller in float64
GRADIENT_LIMIT = 1e-10  # of the largest gradient
MAX_FLOAT = torch.finfo(torch.float64).max


@torch.inference_mode(False)
def check_causality(
    module: torch.nn.Module,
    tokens: torch.Tensor,
    *,
    token_ids: Sequence[int] = (),
    vocabulary: int | None = None,
    seed: int = 1,
) -> Report:
    """Tests whether the outputs of a module at a position depend on later tokens, or on other sequences.

    Runs the module on `tokens`, and on a shorter length if theirs is a multiple of 16. Changes each position
    alone, all tokens from each position on, and all other sequences, twice each. The other outputs must be equal,
    or differ by rounding: by less than 16 roundings of the largest output, and by 1e4 times less in float64. In
    float64, the gradient of each output with respect to the embeddings of later tokens and of other sequences
    must be 0, up to 1e-10 of the largest.

    In each call, torch's random state is the same. The module runs in its mode (train or eval) and is not changed. It
    runs about 8 times for each position of `tokens`.

    Args:
        module: a module that computes outputs [batch, positions, ...] from integer tokens [batch, positions]. Other
            outputs are ignored. Gradients are tested only if a torch.nn.Embedding gets the tokens.
        tokens: sequences of the length that the model uses. Random sequences are added up to 4.
        token_ids: ids that each position is also changed to. A leak that needs a certain token may be missed
            unless this token is given here.
        vocabulary: number of token ids that changes are drawn from; default: that of the embeddings.
        seed: seed of the changes.

    Returns:
        A report. Its verdict is "right" if no influence was found, "wrong" with the first output and token
        if one was, and "vacuous" if the outputs do not depend on the tokens, differ from run to run, or change
        by what may be rounding and the module does not run in float64. `worst` is None. The JSON object has
        "leak": null, or its "output", "sequence", "token" (the first that was changed), "change" and "size".

    Raises:
        TypeError: `module` is not a module, or `tokens` are not integers.
        ValueError: `tokens` do not have the shape [batch, positions] with at least 2 positions, an id is outside
            the vocabulary, or no output has the shape [batch, positions, ...].

    >>> import torch
    >>> module = torch.nn.Sequential(torch.nn.Embedding(10, 4), torch.nn.Linear(4, 10))
    >>> check_causality(module, torch.arange(8).reshape(1, 8)).verdict
    'right'
    """
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module is a {type(module).__name__}; needs a torch.nn.Module")
    if not isinstance(tokens, torch.Tensor) or tokens.dtype not in (torch.int64, torch.int32):
        found = tokens.dtype if isinstance(tokens, torch.Tensor) else type(tokens).__name__
        raise TypeError(f"tokens are {found}; needs a tensor of int64 or int32")
    if tokens.dim() != 2 or not len(tokens) or tokens.size(1) < 2:
        raise ValueError(f"tokens have the shape {tuple(tokens.shape)}; needs [batch, positions], at least [1, 2]")
    embeddings, _, _ = _with_leaves(module, tokens)
    if vocabulary is None:
        vocabulary = min((e.num_embeddings for e in embeddings), default=int(tokens.max()) + 1)
    for i in (*token_ids, int(tokens.min()), int(tokens.max())):
        if not 0 <= i < vocabulary:
            raise ValueError(f"token id {i} is outside the vocabulary of {vocabulary} ids; pass vocabulary")
    check = _Causality(module, token_ids, vocabulary, seed)
    tokens = torch.cat([tokens, check.draw(tokens[:1].expand(max(0, 4 - len(tokens)), -1))])
    length = tokens.size(1)
    verdict, text, details = "right", "", {}
    try:
        check.run(tokens)
        if length % 16 == 0:  # a leak in code that works on blocks of positions may need an incomplete block
            check.run_shorter(tokens[:, : length - 3])
        if not check.depends:
            raise _Found("vacuous", "the outputs do not depend on the tokens", {})
        done = " and ".join(f"{n} comparisons of length {t}" for t, n in check.counts.items())
        text = f"no influence found in {done}; a leak that needs other tokens is not excluded"
    except _Found as found:
        verdict, text, details = found.args
    text = "; ".join([f"{verdict}: {text}", *check.notes(), f"seed {seed}"])
    fields = {"verdict": verdict, "leak": details or None}
    return Report(verdict=verdict, worst=None, text=text, json=json.dumps(fields))


class _Found(Exception):
    """Ends a check. Its arguments are the verdict, the text, and the leak as a JSON object."""


class _Causality:
    def __init__(self, module: torch.nn.Module, token_ids: Sequence[int], vocabulary: int, seed: int) -> None:
        self.module, self.token_ids, self.vocabulary = module, token_ids, vocabulary
        self.generator = torch.Generator().manual_seed(seed)
        self.counts: dict[int, int] = {}  # comparisons of a sequence, for each length
        self.rounded = self.zeros = self.gradients = 0
        self.depends = False  # whether a change of the tokens changed any output
        self.untested: list[str] = []  # with reasons

    def draw(self, tokens: torch.Tensor) -> torch.Tensor:
        """Returns random ids, none of which is that in `tokens`."""
        steps = torch.randint(1, max(2, self.vocabulary), tokens.shape, generator=self.generator)
        return (tokens + steps.to(tokens)) % self.vocabulary

    def changes(self, tokens: torch.Tensor) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
        """Yields what is changed, the changed tokens, and a mask of the outputs that must stay the same."""
        row, at = _indices(tokens)
        for j in range(1, tokens.size(1)):
            for value in [self.draw(tokens), self.draw(tokens), *self.token_ids]:
                yield f"token {j} of every sequence", torch.where(at == j, value, tokens), at < j
            for _ in range(2):
                rest = torch.where(at >= j, self.draw(tokens), tokens)
                yield f"the tokens from {j} on of every sequence", rest, at < j
        for b in range(len(tokens)):
            for _ in range(2):
                yield "all tokens of the other sequences", torch.where(row != b, self.draw(tokens), tokens), row == b

    def run(self, tokens: torch.Tensor) -> None:
        """Makes all comparisons of one length. Raises _Found at the first influence."""
        self.counts[tokens.size(1)] = 0
        base = _outputs(self.module, tokens)
        if not _equal(base, _outputs(self.module, tokens)):
            raise _Found("vacuous", "a second run on the same tokens returns other outputs", {})
        for what, changed, same in self.changes(tokens):
            after = _outputs(self.module, changed)
            self.counts[tokens.size(1)] += int(same.any(1).sum())
            self.depends = self.depends or not _equal(base, after)
            if not _equal(base[same], after[same]):
                self.judge(what, tokens, changed, same)
        self.differentiate(tokens)

    def run_shorter(self, tokens: torch.Tensor) -> None:
        """Makes all comparisons of this length if the module computes it."""
        try:
            _outputs(self.module, tokens)
        except Exception as e:
            self.untested.append(f"length {tokens.size(1)} not tested: the module raises {type(e).__name__}: {e}")
        else:
            self.run(tokens)

    def judge(self, what: str, tokens: torch.Tensor, changed: torch.Tensor, same: torch.Tensor) -> None:
        """Raises _Found unless the outputs `same` differ by rounding alone."""

        def differences(dtype: torch.dtype | None) -> torch.Tensor:
            a, b = _outputs(self.module, changed, dtype), _outputs(self.module, tokens, dtype)
            size = (a - b).double().abs().nan_to_num(torch.inf)
            return torch.where(_same(a, b) | ~same[..., None], 0, size).amax(-1)

        y = _outputs(self.module, tokens)
        largest = float(torch.where(y.isfinite(), y, 0).abs().max())
        found = differences(None)
        size = float(found.max())
        try:
            if size < ROUNDINGS * torch.finfo(y.dtype).eps * largest:
                # A float64 module is compared with its float32 copy instead.
                low = float(differences(torch.float32).max()) if y.dtype == torch.float64 else size
                if float(differences(torch.float64).max()) * FLOAT64_GAIN <= low:
                    self.rounded += int(same.any(1).sum())
                    return
        except Exception as e:
            raise _Found("vacuous", f"outputs change by up to {size:.3g} after a change of {what}, which may be "
                         f"rounding; the module does not run in float64: {type(e).__name__}: {e}",
                         {}) from e  # fmt: skip
        b, i = (int(x) for x in (found > 0).nonzero()[0])
        size = float(found[b, i])
        first = int((changed != tokens).any(0).nonzero()[0])
        raise _Found("wrong", f"output {i} of sequence {b} changes by {size:.3g} after a change of {what}; "
                     f"length {tokens.size(1)}, largest output {largest:.3g}",
                     {"output": i, "sequence": b, "token": first, "change": what, "size": size})  # fmt: skip

    def differentiate(self, tokens: torch.Tensor) -> None:
        """Raises _Found if, in float64, an output has a gradient for a later token or another sequence."""
        try:
            _, leaves, y = _with_leaves(self.module, tokens, torch.float64)
        except Exception as e:
            self.untested.append("gradients not tested: the module does not run in float64: "
                                 f"{type(e).__name__}: {e}")  # fmt: skip
            return
        if not leaves or not y.requires_grad:
            reason = "no torch.nn.Embedding gets the tokens" if not leaves else "the outputs require no gradient"
            self.untested.append(f"gradients not tested: {reason}")
            return
        row, at = _indices(tokens)
        outputs = [(f"output {i}", at == i, at > i) for i in range(tokens.size(1) - 1)]
        outputs += [(f"the outputs of sequence {b}", row == b, row != b) for b in range(len(tokens))]
        for name, chosen, zero in outputs:
            dy = torch.randn(y.shape, generator=self.generator, dtype=y.dtype).to(y.device) * chosen[..., None]
            for leaf, g in zip(leaves, torch.autograd.grad(y, leaves, dy, retain_graph=True, allow_unused=True)):
                sizes = (torch.zeros_like(leaf) if g is None else g).abs().nan_to_num(torch.inf).amax(-1)
                leak, largest = torch.where(zero, sizes, 0), float(torch.where(zero, 0, sizes).max())
                self.gradients += 1
                self.zeros += not leak.any()
                if float(leak.max()) > GRADIENT_LIMIT * min(largest, MAX_FLOAT):
                    b, t = (int(x) for x in (leak == leak.max()).nonzero()[0])
                    size = float(leak.max())
                    raise _Found("wrong", f"the gradient of {name} is {size:.3g} for the embedding of token {t} of "
                                 f"sequence {b}; length {tokens.size(1)}, largest gradient {largest:.3g}",
                                 {"output": name, "sequence": b, "token": t, "change": "gradient",
                                  "size": size})  # fmt: skip

    def notes(self) -> list[str]:
        notes = [f"{self.rounded} comparisons differ by rounding"] if self.rounded else []
        if self.gradients:
            notes.append(f"gradients for later tokens and other sequences: {self.zeros} of {self.gradients} exactly 0, "
                         "which does not exclude a leak through argmax, top-k or routing")  # fmt: skip
        return notes + list(dict.fromkeys(self.untested))


def _indices(tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns for each token its sequence and its position."""
    b, t = (torch.arange(n, device=tokens.device) for n in tokens.shape)
    return b[:, None].expand(tokens.shape), t.expand(tokens.shape)


def _call(module: torch.nn.Module, tokens: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    """Returns the outputs as one tensor [batch, positions, n], in `dtype` if it is given."""
    state = {n: b.clone() for n, b in module.named_buffers()}  # batch norm changes its own
    state.update((n, p.detach().clone()) for n, p in module.named_parameters() if dtype or p.is_inference())
    if dtype:
        state = {n: t.to(dtype) if t.is_floating_point() else t for n, t in state.items()}
    attributes = [(m, dict(vars(m))) for m in module.modules()]
    try:
        with torch.random.fork_rng():
            result = torch.func.functional_call(module, state, (tokens.clone(),))
    finally:
        for m, before in attributes:
            vars(m).clear()
            vars(m).update(before)
    outputs = [y for y in flat(result) if isinstance(y, torch.Tensor) and y.is_floating_point()
               and y.shape[:2] == tokens.shape]  # fmt: skip
    if not outputs:
        raise ValueError("no output has the shape [batch, positions, ...]; needs one whose shape begins with "
                         f"{list(tokens.shape)}")  # fmt: skip
    return torch.cat([y.reshape(*tokens.shape, -1) for y in outputs], -1)


def _outputs(module: torch.nn.Module, tokens: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    with torch.no_grad():
        return _call(module, tokens, dtype)


def _with_leaves(
    module: torch.nn.Module, tokens: torch.Tensor, dtype: torch.dtype | None = None
) -> tuple[list[Any], list[torch.Tensor], torch.Tensor]:
    """Returns the embeddings that get the tokens, their results as leaves, and the outputs."""
    found: list[Any] = []
    leaves: list[torch.Tensor] = []

    def hook(embedding: Any, arguments: Any, result: torch.Tensor) -> torch.Tensor:
        if not arguments or arguments[0].shape != tokens.shape or not torch.equal(arguments[0], tokens):
            return result
        found.append(embedding)
        leaves.append(result.detach().requires_grad_())
        return leaves[-1]

    hooks = [m.register_forward_hook(hook) for m in module.modules() if isinstance(m, torch.nn.Embedding)]
    try:
        with torch.enable_grad():
            return found, leaves, _call(module, tokens, dtype)
    finally:
        for handle in hooks:
            handle.remove()


def _same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Compares elements; NaN is equal to NaN."""
    return (a == b) | (a.isnan() & b.isnan())


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(_same(a, b).all())
