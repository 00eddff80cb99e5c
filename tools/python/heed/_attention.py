"""check_attention: compares an attention function and its backward pass with heed's definition, case by case."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ._check import Arrays, Report, _checked, _read_only

Options = dict[str, Any]
# Differences up to this number of roundings of the largest entry pass. Right functions in float32 and float64 had up to
# 45, with 512 keys and d = 128.
ROUNDINGS = 256
LAYOUTS = ("BHTD", "BTHD", "TD")
RESULTS = ("the output", "the gradient of q", "the gradient of k", "the gradient of v")
# The options of attention, and the names that a function may give them.
NAMES = {
    "scale": ("scale", "softmax_scale", "sm_scale"),
    "causal": ("causal", "is_causal"),
    "alignment": ("alignment",),
    "window": ("window",),
    "soft_cap": ("soft_cap", "softcap"),
    "mask": ("mask", "attn_mask"),
    "key_padding_mask": ("key_padding_mask",),
    "enable_gqa": ("enable_gqa",),
}
SIZES = {"batch": 2, "heads": 4, "kv_heads": 2, "queries": 5, "keys": 7, "d": 8}
# The name, the options that the function must have, the lengths, and the options that are passed. Lengths "fewer":
# fewer queries than keys; "grouped": equal lengths, and fewer heads of k and v than of q. "random" stands for a random
# mask, and "empty" for one with a fully masked row.
CASES: list[tuple[str, str, str, Options]] = [
    ("plain", "", "equal", {}),
    ("queries and keys of different lengths", "", "fewer", {}),
    ("scale", "scale", "equal", {"scale": 0.3}),
    ("causal", "causal", "equal", {"causal": True}),
    ("causal with fewer queries than keys", "causal", "fewer", {"causal": True}),
    ("causal with more queries than keys", "causal", "more", {"causal": True}),
    ("mask", "mask", "fewer", {"mask": "random"}),
    ("mask with a fully masked row", "mask", "fewer", {"mask": "empty"}),
    ("key padding", "key_padding_mask", "fewer", {"key_padding_mask": "random"}),
    ("key padding with a sequence that is all padding", "key_padding_mask", "fewer", {"key_padding_mask": "empty"}),
    ("window", "window", "equal", {"window": 2}),
    ("causal window", "causal window", "fewer", {"causal": True, "window": 2}),
    ("soft cap", "soft_cap", "equal", {"soft_cap": 0.7}),
    ("causal soft cap", "causal soft_cap", "equal", {"causal": True, "soft_cap": 0.7}),
    ("grouped heads (GQA)", "", "grouped", {}),
]
# Mistakes that are recognized, with the arguments that definition() then gets. The last four change only gradients.
MISTAKES: list[tuple[str, Callable[[Options], Options]]] = [
    ("the scores are not scaled", lambda o: {"scale": 1.0}),
    ("the scores are divided by d, not by sqrt(d)", lambda o: {"scale": 1 / o["d"]}),
    ("scale is ignored", lambda o: {"scale": o["d"] ** -0.5}),
    ("causal is ignored", lambda o: {"causal": False}),
    ("a causal mask is applied without causal", lambda o: {"causal": True}),
    ("the causal mask is aligned top left", lambda o: {"alignment": "top_left"}),
    ("the causal mask is aligned bottom right", lambda o: {"alignment": "bottom_right"}),
    ("the causal mask hides the query's own position", lambda o: {"shift": -1}),
    ("the causal mask shows the next position", lambda o: {"shift": 1}),
    ("the mask is ignored", lambda o: {"mask": np.array(True)}),
    ("the mask is inverted (true means: may attend)", lambda o: {"mask": ~o["mask"]}),
    ("the key padding mask is ignored", lambda o: {"key_padding_mask": np.array(False)}),
    ("the key padding mask is inverted (true means: padding)", lambda o: {"key_padding_mask": ~o["key_padding_mask"]}),
    ("the window is ignored", lambda o: {"window": math.inf}),
    ("the window has one key too many", lambda o: {"window": o["window"] + 1}),
    ("the window has one key too few", lambda o: {"window": o["window"] - 1}),
    ("the soft cap is ignored", lambda o: {"soft_cap": math.inf}),
    ("the soft cap is applied after the mask", lambda o: {"cap_masked": True}),
    ("heads are mapped modulo the number of key heads, not by groups", lambda o: {"modulo": True}),
    ("the softmax runs over queries, not keys", lambda o: {"axis": -2}),
    ("a fully masked row has equal weights; its output and gradients must be 0", lambda o: {"hidden": -1e9}),
    ("a fully masked row is NaN; its output and gradients must be 0", lambda o: {"empty": math.nan}),
    ("backward lacks the row sum of the softmax", lambda o: {"row_sum": False}),
    ("backward does not multiply the gradients of q and k by scale", lambda o: {"scale_gradient": False}),
    ("backward lacks the derivative of the soft cap", lambda o: {"cap_gradient": False}),
    ("backward does not add up the gradients of k and v of a group", lambda o: {"add_heads": False}),
]


def definition(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, dy: np.ndarray, *, scale: float, causal: bool, alignment: str,
    mask: np.ndarray, key_padding_mask: np.ndarray, window: float, soft_cap: float, shift: int = 0,
    cap_masked: bool = False, modulo: bool = False, axis: int = -1, hidden: float = -math.inf, empty: float = 0.0,
    row_sum: bool = True, scale_gradient: bool = True, cap_gradient: bool = True, add_heads: bool = True, **_: Any,
) -> Arrays:  # fmt: skip
    """Returns the output of attention and the gradients of q, k and v, for float64 arrays [batch, heads, T, d].

    The arguments from `shift` on make mistakes. `soft_cap` and `window` are infinite if there is none.
    """
    heads, kv_heads = q.shape[1], k.shape[1]
    head = np.arange(heads) % kv_heads if modulo else np.arange(heads) // (heads // kv_heads)
    keys, values = k[:, head], v[:, head]
    tq, tk = q.shape[2], k.shape[2]
    position = np.arange(tq)[:, None] + (tk - tq if alignment == "bottom_right" else 0)
    distance = position - np.arange(tk)
    keep = mask & ~key_padding_mask & (abs(distance) < window) & ((distance + shift >= 0) | (not causal))

    capped = scores = scale * (q @ keys.swapaxes(-1, -2))
    slope = 1.0
    if soft_cap < math.inf:
        tanh = np.tanh(scores / soft_cap)
        capped, slope = soft_cap * tanh, 1 - tanh**2
    masked = np.where(keep, capped, -soft_cap if cap_masked else hidden)
    largest = masked.max(axis, keepdims=True)
    weights = np.exp(masked - np.where(np.isfinite(largest), largest, 0))
    total = weights.sum(axis, keepdims=True)
    p = np.where(total > 0, weights / np.where(total > 0, total, 1), empty)

    dp = dy @ values.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(axis, keepdims=True) * row_sum)
    draw = ds * (slope if cap_gradient else 1) * (scale if scale_gradient else 1)

    def of_kv_heads(dx: np.ndarray) -> np.ndarray:
        return np.stack([dx[:, head == h][:, : None if add_heads else 1].sum(1) for h in range(kv_heads)], 1)

    return [p @ values, draw @ keys, of_kv_heads(draw.swapaxes(-1, -2) @ q), of_kv_heads(p.swapaxes(-1, -2) @ dy)]


def check_attention(
    forward: Callable[..., Any], backward: Callable[..., Any], *, layout: str = "BHTD", dtype: str = "float64",
    sizes: Mapping[str, int] | None = None, seed: int = 1, **always: Any,
) -> Report:  # fmt: skip
    """Compares an attention function and its backward pass with heed's definition, in cases that it can compute.

    forward(q, k, v, **options) returns the output. backward(q, k, v, dy, **options) gets in addition dy, the
    gradient of the output, and returns (dq, dk, dv). The definition is softmax(scale * q k^T) v. Which cases
    are tested depends on the parameters of `forward`. Each needs a default, which means that it is not used:

    - scale (or softmax_scale, sm_scale): factor of q k^T; default 1 / sqrt(d).
    - causal (or is_causal; passed in each call): a query reads no later key. If the numbers of queries and keys
      differ, the last query is at the last key ("bottom_right") or the first at the first ("top_left"). A parameter
      `alignment` gets these words. Without it, both are right, but not mixed, and the report names the one used.
    - mask (or attn_mask): bool, [batch, 1, queries, keys]; true: the query may read the key.
    - key_padding_mask: bool, [batch, keys]; true: the key is padding, which no query reads.
    - window: a query reads only keys at a distance below it, before and after.
    - soft_cap (or softcap): scores s become soft_cap * tanh(s / soft_cap), before the masks.

    A query that may read no key has output 0, and no gradient flows through it. With fewer heads of k and v
    than of q (GQA), query head h reads head h // (heads // kv_heads). If `forward` raises an exception for such
    heads or for different numbers of queries and keys, these cases are not tested.

    Args:
        forward: the function.
        backward: its backward pass.
        layout: axes of the arrays: "BHTD" [batch, heads, positions, d], "BTHD", or "TD" for one head.
        dtype: "float64" or "float32". The definition is always computed in float64.
        sizes: replaces some of batch 2, heads 4, kv_heads 2, queries 5, keys 7, d 8, for a function that needs
            other sizes. There must be fewer queries than keys.
        seed: seed of the random inputs.
        always: options that `forward` applies although it has no such parameter, such as causal=True, soft_cap=30.0.

    Returns:
        The report. It is true if all cases are right. Otherwise it names the first wrong case, its worst entry
        and, if one explains the output or the gradients, the mistake. The JSON object has "cases". `worst` is None.

    Raises:
        ValueError: an option is unknown or out of range, or the parameters of `forward` cannot be read.

    Exceptions of the functions pass through in the first case; in later cases, they are wrong.

    >>> def attention(q, k, v):
    ...     e = np.exp(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5)
    ...     return e / e.sum(-1, keepdims=True) @ v
    >>> report = check_attention(attention, lambda q, k, v, dy: (dy, dy, dy), sizes={"d": 4}, causal=True)
    >>> print(report)  # doctest: +ELLIPSIS
    wrong: plain: the output at ... mistake: causal is ignored; ...
    """

    def call(xs: Arrays, dy: np.ndarray, options: Options) -> Iterator[np.ndarray]:
        yield from _checked("forward", "output", forward(*xs, **options), dy.dtype, [dy.shape])
        yield from _checked("backward", "gradient", backward(*xs, dy, **options), dy.dtype, [x.shape for x in xs])

    return run(forward, call, layout, dtype, sizes, seed, **always)


def run(
    function: Callable[..., Any], call: Callable[..., Iterator[np.ndarray]], layout: str = "BHTD",
    dtype: str = "float64", sizes: Mapping[str, int] | None = None, seed: int = 1, **always: Any,
) -> Report:  # fmt: skip
    """Runs the cases that the parameters of `function` allow.

    call([q, k, v], dy, options) yields the output and, computed after it, the three gradients.
    """
    n = {**SIZES, **(sizes or {})}
    for what, value, known in [("layout", layout, LAYOUTS), ("dtype", dtype, ("float64", "float32")),
                               *(("an option", name, tuple(NAMES)[:5]) for name in always),
                               *(("a size", name, tuple(SIZES)) for name in n)]:  # fmt: skip
        if value not in known:
            raise ValueError(f"{what} is '{value}'; needs one of {', '.join(known)}")
    if any(not isinstance(size, int) or size < 1 for size in n.values()):
        raise ValueError(f"sizes are {n}; needs integers of at least 1")
    if not 1 < n["queries"] < n["keys"] or n["heads"] % n["kv_heads"]:
        raise ValueError(f"sizes are {n}; needs 1 < queries < keys, and kv_heads that divides heads")
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError) as e:
        raise ValueError("the parameters of the function cannot be read; pass a Python function that calls it, such as "
                         "lambda q, k, v, causal=False: ...") from e  # fmt: skip
    names = {option: name for option, known in NAMES.items() for name in known if name in parameters}
    cases = _Cases(call, names, layout, dtype, n, seed, always)
    absent = {}
    for name, needed, lengths, options in CASES:
        if missing := [word for word in needed.split() if word not in names]:
            absent[missing[0]] = None
        elif "alignment" in names and "causal" in needed and lengths != "equal":
            for word in ("bottom_right", "top_left"):
                cases.run(f"{name}, {word}", lengths, {**options, "alignment": word}, optional=False)
        elif lengths != "grouped" or layout != "TD":
            cases.run(name, lengths, options, optional=not needed)
    note = f"not tested (the function does not have these parameters): {', '.join(absent)}"
    return cases.report(note if absent else "")


class _Cases:
    """Runs cases and collects the results."""

    def __init__(self, call: Callable[..., Iterator[np.ndarray]], names: dict[str, str], layout: str, dtype: str,
                 sizes: dict[str, int], seed: int, always: Options) -> None:  # fmt: skip
        self.call, self.names, self.layout, self.dtype, self.always = call, names, layout, dtype, always
        self.sizes, self.seed, self.random = sizes, seed, np.random.default_rng(seed)
        self.alignments = [always["alignment"]] if "alignment" in always else ["bottom_right", "top_left"]
        self.cases: list[dict[str, Any]] = []  # as in the JSON object

    def run(self, name: str, lengths: str, given: Options, optional: bool) -> None:
        xs, options = self.make(lengths, given)
        passed = {"causal": False, **self.always, **{option: options[option] for option in given}}
        if lengths == "grouped":
            passed["enable_gqa"] = True
        passed = {self.names[o]: self.to_layout(x) for o, x in passed.items() if o in self.names}
        case: dict[str, Any] = {"case": name, "verdict": "wrong", "text": "", "mistakes": []}
        *inputs, dy = (_read_only(self.to_layout(x).copy()) for x in xs)
        results: Arrays = []
        try:
            for result in self.call(inputs, dy, passed):
                results.append(result)
        except Exception as e:
            if not self.cases:
                raise
            if optional and not results and "enable_gqa" not in passed:
                case["verdict"] = "not tested"
            self.cases.append({**case, "text": f"raises {type(e).__name__}: {e}"})
            return
        xs = [x.astype(np.float64) for x in xs]
        alignments = [given["alignment"]] if "alignment" in given else self.alignments
        texts = {a: self.difference(results, self.define(xs, {**options, "alignment": a})) for a in alignments}
        passing = [a for a in alignments if not texts[a]]
        if passing:
            case["verdict"] = "right"
            self.alignments = self.alignments if "alignment" in given else passing
        else:
            case["text"] = texts[alignments[0]]
            case["mistakes"] = self.mistakes(xs, {**options, "alignment": alignments[0]}, results)
        self.cases.append(case)

    def make(self, lengths: str, given: Options) -> tuple[Arrays, Options]:
        """Returns random q, k, v and dy [batch, heads, T, d], and the arguments of definition()."""
        n = self.sizes if self.layout != "TD" else {**self.sizes, "batch": 1, "heads": 1}
        batch, heads, kv_heads = n["batch"], n["heads"], n["kv_heads"] if lengths == "grouped" else n["heads"]
        tq = n["queries" if lengths == "fewer" else "keys"]
        tk = n["queries" if lengths == "more" else "keys"]
        shapes = [(batch, heads, tq), (batch, kv_heads, tk), (batch, kv_heads, tk), (batch, heads, tq)]
        xs = [self.random.standard_normal((*shape, n["d"])).astype(self.dtype) for shape in shapes]
        mask = self.random.random((batch, 1, tq, tk)) < 0.5
        mask[..., 0], mask[..., 0, -1] = True, False  # no row is empty, and each sequence has a hidden key
        mask[-1, :, -1] &= given.get("mask") != "empty"
        padding = self.random.random((batch, 1, 1, tk)) < 0.5
        padding[..., 0], padding[..., -1] = False, True
        padding[-1] |= given.get("key_padding_mask") == "empty"
        masks = {"mask": mask, "key_padding_mask": padding}
        return xs, {"scale": n["d"] ** -0.5, "causal": False, "window": math.inf, "soft_cap": math.inf,
                    "mask": np.array(True), "key_padding_mask": np.array(False), **self.always, **given,
                    **{name: masks[name] for name in masks if name in given}, "d": n["d"]}  # fmt: skip

    def to_layout(self, x: Any) -> Any:
        """Returns an array or mask of 4 axes as the function gets it."""
        if not isinstance(x, np.ndarray):
            return x
        if x.shape[1:3] == (1, 1) and x.dtype == bool:  # the key padding mask
            x = x[:, 0, 0]
            return x[0] if self.layout == "TD" else x
        if self.layout == "TD":
            return x[0, 0]
        return x.swapaxes(1, 2) if self.layout == "BTHD" and x.dtype != bool else x

    def define(self, xs: Arrays, options: Options) -> Arrays:
        return [self.to_layout(x) for x in definition(*xs, **options)]

    def difference(self, results: Arrays, expected: Arrays) -> str:
        """Returns a description of the worst entry of the first result that differs; "" if none does."""
        for name, x, y in zip(RESULTS, results, expected):
            error = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0, np.nan_to_num(abs(x - y), nan=math.inf))
            if not error.max() <= ROUNDINGS * np.finfo(self.dtype).eps * abs(np.nan_to_num(y)).max():
                at = np.unravel_index(error.argmax(), error.shape)
                return f"{name} at {[int(i) for i in at]} is {x[at]:.6g}, the definition has {y[at]:.6g}"
        return ""

    def mistakes(self, xs: Arrays, options: Options, results: Arrays) -> list[str]:
        """Returns the mistakes that explain the output or, if the output is right, all gradients."""
        right = self.define(xs, options)
        found = []
        for text, change in MISTAKES:
            wrong = self.define(xs, {**options, **change(options)})
            compared = 1 if self.difference(right[:1], wrong[:1]) else 4
            if not self.difference(results[:compared], wrong[:compared]):
                found.append(text)
        return found

    def report(self, absent: str) -> Report:
        names = {v: [c["case"] for c in self.cases if c["verdict"] == v] for v in ("right", "wrong", "not tested")}
        verdict = "wrong" if names["wrong"] else "right"
        parts = []
        for case in self.cases:
            if case["verdict"] == "wrong":
                parts.append(f"{case['case']}: {case['text']}" if not parts else f"also wrong: {case['case']}")
                if case["mistakes"]:
                    kind = "mistake" if len(case["mistakes"]) == 1 else "possible mistakes"
                    parts.append(f"{kind}: {' or '.join(case['mistakes'])}")
        tested = len(names["right"]) + len(names["wrong"])
        parts.append(f"{len(names['right'])} of {tested} cases agree with the definition: {', '.join(names['right'])}")
        if len(self.alignments) == 1 and "alignment" not in self.always:
            parts.append(f"causal alignment: {self.alignments[0]}")
        parts += [f"not tested: {c['case']} ({c['text']})" for c in self.cases if c["verdict"] == "not tested"]
        text = f"{verdict}: " + "; ".join([*parts, *filter(None, [absent]), f"{self.dtype}, seed {self.seed}"])
        fields = {"verdict": verdict, "cases": self.cases}
        return Report(verdict=verdict, worst=None, text=text, json=json.dumps(fields))
