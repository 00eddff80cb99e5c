#!/usr/bin/env python3
"""Tests the diagnosis of wrong gradients: 60 mutants by rules of its list, and 18 by other rules.

    PYTHONPATH=build/release/python python3 tests/tools/python/diagnosis_test.py [--all]

Without --all, every fourth mutant is checked. The rules were fixed before the diagnosis was first run on them;
autograd/check/diagnosis.cpp must not be changed for a mutant of this file. All axes are different and none is 1 or 2.
"""
import collections
import json
import sys

try:
    import numpy as np
except ImportError:
    sys.exit(print("skipped: python3-numpy is not installed"))

from heed import check_vjp

RANDOM = np.random.default_rng(48)
TARGETS = np.array([1, 5, 0, 3])  # of the cross entropy
KEEP = RANDOM.random((4, 6)) < 0.6
KEEP[:, 2] = True
DROP = (RANDOM.random((5, 6)) < 0.7) * 1.5


def randn(*shape):
    return RANDOM.standard_normal(shape)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def softmax_backward(y, dy, axis=-1):
    return y * (dy - (dy * y).sum(axis, keepdims=True))


def normalized(x, axis=-1):
    centered = x - x.mean(axis, keepdims=True)
    return centered / np.sqrt((centered**2).mean(axis, keepdims=True) + 1e-5)


def normalized_backward(x, d, axis=-1, mean=True, variance=True):
    n, std = normalized(x, axis), np.sqrt(x.var(axis, keepdims=True) + 1e-5)
    return (d - mean * d.mean(axis, keepdims=True) - variance * n * (d * n).mean(axis, keepdims=True)) / std


def layer_norm_backward(x, gamma, beta, dy, **terms):
    axes = tuple(range(x.ndim - 1))
    return normalized_backward(x, dy * gamma, **terms), (dy * normalized(x)).sum(axes), dy.sum(axes)


def masked_softmax(x):
    return softmax(np.where(KEEP, x, -1e9))


def mlp_backward(x, w, b, v, dy):
    h = np.tanh(x @ w + b)
    dh = dy @ v.T * (1 - h * h)
    return dh @ w.T, x.T @ dh, dh.sum(0), h.T @ dy


def onehot(x):
    return np.eye(x.shape[1])[TARGETS]


def attention_backward(q, k, dy, row_sum=True):  # of the softmax of the scores
    p = softmax(q @ k.T)
    ds = softmax_backward(p, dy) if row_sum else p * dy
    return ds @ k, ds.T @ q


# name: (forward, backward, shapes of the inputs)
RIGHT = {
    "softmax": (softmax, lambda x, dy: softmax_backward(softmax(x), dy), [(4, 5)]),
    "softmax, axis 0": (lambda x: softmax(x, 0), lambda x, dy: softmax_backward(softmax(x, 0), dy, 0), [(5, 3)]),
    "softmax, scaled": (lambda x: softmax(x / 3), lambda x, dy: softmax_backward(softmax(x / 3), dy) / 3, [(3, 4, 5)]),
    "log softmax": (lambda x: np.log(softmax(x)), lambda x, dy: dy - softmax(x) * dy.sum(-1, keepdims=True), [(4, 6)]),
    "masked softmax": (masked_softmax, lambda x, dy: softmax_backward(masked_softmax(x), dy), [(4, 6)]),
    "layer norm": (lambda x, gamma, beta: normalized(x) * gamma + beta, layer_norm_backward, [(4, 7), (7,), (7,)]),
    "norm, axis 0": (lambda x: normalized(x, 0), lambda x, dy: normalized_backward(x, dy, 0), [(6, 4)]),
    "norm, rank 3": (normalized, normalized_backward, [(3, 4, 5)]),
    "centering": (lambda x: x - x.mean(-1, keepdims=True), lambda x, dy: dy - dy.mean(-1, keepdims=True), [(3, 5)]),
    "centering, axis 0": (lambda x: 3 * (x - x.mean(0)), lambda x, dy: 3 * (dy - dy.mean(0)), [(3, 5)]),
    "centered tanh": (lambda x: np.tanh(x) - np.tanh(x).mean(-1, keepdims=True),
        lambda x, dy: (dy - dy.mean(-1, keepdims=True)) * (1 - np.tanh(x) ** 2), [(4, 5)]),
    "matmul": (lambda a, b: a @ b, lambda a, b, dy: (dy @ b.T, a.T @ dy), [(3, 4), (4, 5)]),
    "matmul, square": (lambda a, b: a @ b, lambda a, b, dy: (dy @ b.T, a.T @ dy), [(4, 4), (4, 4)]),
    "scores": (lambda q, k: q @ k.T / 3**0.5, lambda q, k, dy: (dy @ k / 3**0.5, dy.T @ q / 3**0.5), [(5, 3), (4, 3)]),
    "scores, self": (lambda q, k: q @ k.T / 3**0.5,
        lambda q, k, dy: (dy @ k / 3**0.5, dy.T @ q / 3**0.5), [(5, 3), (5, 3)]),
    "attention": (lambda q, k: softmax(q @ k.T), attention_backward, [(5, 3), (4, 3)]),
    "cross entropy": (lambda x: -np.log(softmax(x)[onehot(x) == 1]).mean(),
        lambda x, dy: dy * (softmax(x) - onehot(x)) / 4, [(4, 6)]),
    "broadcast add": (lambda x, b: x + b, lambda x, b, dy: (dy, dy.sum(0)), [(4, 5), (5,)]),
    "scalar product": (lambda x, a: x * a, lambda x, a, dy: (dy * a, (dy * x).sum()), [(4, 5), ()]),
    "bias of rows": (lambda x, b: np.exp(x / 4) * b,
        lambda x, b, dy: (np.exp(x / 4) * b * dy / 4, (dy * np.exp(x / 4)).sum(-1, keepdims=True)), [(4, 5), (4, 1)]),
    "mlp": (lambda x, w, b, v: np.tanh(x @ w + b) @ v, mlp_backward, [(4, 3), (3, 5), (5,), (5, 7)]),
    "product": (lambda a, b: a * b, lambda a, b, dy: (b * dy, a * dy), [(4, 5), (4, 5)]),
    "quotient": (lambda a, b: a / (3 + b * b),
        lambda a, b, dy: (dy / (3 + b * b), -2 * a * b * dy / (3 + b * b) ** 2), [(3, 5), (3, 5)]),
    "lerp": (lambda a, b: 0.3 * a + 0.7 * b, lambda a, b, dy: (0.3 * dy, 0.7 * dy), [(3, 5), (3, 5)]),
    "relu": (lambda x: np.maximum(x, 0), lambda x, dy: dy * (x > 0), [(5, 7)]),
    "clamp": (lambda x: np.clip(x, -1, 1), lambda x, dy: dy * (abs(x) < 1), [(6, 7)]),
    "dropout": (lambda x: x * DROP, lambda x, dy: dy * DROP, [(5, 6)]),
    "filled": (lambda x: np.where(KEEP, x * x, 0), lambda x, dy: np.where(KEEP, 2 * x * dy, 0), [(4, 6)]),
    "padded tanh": (lambda x: np.tanh(x) * (KEEP[:, :1] > 0),
        lambda x, dy: (1 - np.tanh(x) ** 2) * dy * (KEEP[:, :1] > 0), [(4, 5)]),
    "masked scores": (lambda q, k: np.where(KEEP, q @ k.T, 0),
        lambda q, k, dy: (np.where(KEEP, dy, 0) @ k, np.where(KEEP, dy, 0).T @ q), [(4, 3), (6, 3)]),
}


def changed(name, rule, *inputs):
    """Returns a backward pass that applies `rule` to the gradients of these inputs; none: of all."""

    def backward(*args):
        gs = RIGHT[name][1](*args)
        gs = list(gs) if isinstance(gs, tuple) else [gs]
        return tuple(rule(g.copy()).reshape(g.shape) if not inputs or i in inputs else g
            for i, g in enumerate(map(np.asarray, gs)))

    return name, backward


def with_dy(name, rule, *inputs):
    """Returns a backward pass that gets rule(dy) for the gradients of these inputs; none: for all."""

    def backward(*args):
        right, wrong = RIGHT[name][1](*args), RIGHT[name][1](*args[:-1], rule(args[-1]))
        return tuple(w if i in inputs else r for i, (r, w) in enumerate(zip(right, wrong))) if inputs else wrong

    return name, backward


def times(factor):
    return lambda g: g * factor


def from_flat(m, replace):
    """Returns a rule that changes the entries from the flat index m on."""
    return lambda g: np.concatenate([g.ravel()[:m], replace(g.ravel())[m:]])


def put(g, place, value):
    g[place] = value
    return g


def only(place):
    """Returns a rule for dy that keeps one part of it, as if the sum over the others were left out."""
    return lambda dy: put(np.zeros_like(dy), place, dy[place])


def swapped(name, a=0, b=1):
    def backward(*args):
        gs = list(RIGHT[name][1](*args))
        gs[a], gs[b] = gs[b], gs[a]
        return tuple(gs)

    return name, backward


LISTED = {
    "constant factor": [
        changed("softmax", times(-1)), changed("scores", times(3**0.5)), changed("cross entropy", times(4)),
        changed("layer norm", times(0.5), 1), changed("mlp", times(1.7), 1), changed("matmul", times(-1), 1),
    ],
    "transposed": [
        changed("matmul", np.transpose, 0), changed("matmul", np.transpose, 1), changed("mlp", np.transpose, 1),
        changed("mlp", np.transpose, 3), changed("scores", np.transpose, 1), changed("softmax, scaled",
            lambda g: g.swapaxes(1, 2)),
    ],
    "not multiplied by dy": [
        with_dy("mlp", np.ones_like), with_dy("matmul", np.ones_like, 0), with_dy("product", np.ones_like),
        with_dy("broadcast add", np.ones_like, 1), with_dy("cross entropy", np.ones_like),
        with_dy("layer norm", np.ones_like, 1),
    ],
    "row sum not subtracted": [
        ("softmax", lambda x, dy: softmax(x) * dy), ("softmax, axis 0", lambda x, dy: softmax(x, 0) * dy),
        ("softmax, scaled", lambda x, dy: softmax(x / 3) * dy / 3), ("masked softmax",
            lambda x, dy: masked_softmax(x) * dy),
        ("log softmax", lambda x, dy: dy), ("attention", lambda q, k, dy: attention_backward(q, k, dy, row_sum=False)),
    ],
    "mean not subtracted": [
        ("layer norm", lambda *args: layer_norm_backward(*args, mean=False)), ("centering", lambda x, dy: dy),
        ("norm, axis 0", lambda x, dy: normalized_backward(x, dy, 0, mean=False)),
        ("norm, rank 3", lambda x, dy: normalized_backward(x, dy, mean=False)),
        ("centering, axis 0", lambda x, dy: dy * 3), ("centered tanh", lambda x, dy: dy * (1 - np.tanh(x) ** 2)),
    ],
    "broadcast not summed": [
        with_dy("broadcast add", only(0), 1), with_dy("broadcast add", only(-1), 1), with_dy("layer norm", only(0), 1),
        with_dy("layer norm", only(-1), 2), with_dy("scalar product", only((0, 0)), 1),
        with_dy("bias of rows", only((slice(None), 0)), 1),
    ],
    "mask not applied": [
        ("relu", lambda x, dy: dy), ("clamp", lambda x, dy: dy), ("dropout", lambda x, dy: dy * 1.5),
        ("filled", lambda x, dy: 2 * x * dy), ("padded tanh", lambda x, dy: (1 - np.tanh(x) ** 2) * dy),
        ("masked scores", lambda q, k, dy: (dy @ k, dy.T @ q)),
    ],
    "two inputs exchanged": [
        swapped("product"), swapped("matmul, square"), swapped("quotient"), swapped("lerp"), swapped("scores, self"),
        swapped("layer norm", 1, 2),
    ],
    "right only in the first entries": [
        changed("softmax", from_flat(8, lambda g: np.roll(g, 8))), changed("layer norm", from_flat(14, times(2)), 0),
        changed("mlp", lambda g: np.concatenate([g[:, :4], -g[:, 4:]], 1), 1), changed("matmul", from_flat(12,
            lambda g: np.roll(g, 1)), 1),
        changed("product", from_flat(10, np.sort), 0), changed("layer norm", from_flat(4, times(0.25)), 1),
    ],
    "zero from an index on": [
        changed("softmax", from_flat(13, times(0))), changed("layer norm", lambda g: put(g, slice(2, None), 0), 0),
        changed("matmul", lambda g: put(g, np.s_[:, 4:], 0), 1), changed("layer norm", from_flat(4, times(0)), 2),
        changed("mlp", times(0), 2), changed("attention", from_flat(6, times(0)), 1),
    ],
}


# Rules that are not on the list, each with the functions that they are applied to, and the changed input.
UNLISTED = {
    "one entry times 1.5": (lambda g: put(g, np.unravel_index(g.size // 3, g.shape), 1.5 * g.flat[g.size // 3]),
        [("softmax", 0), ("mlp", 1), ("matmul", 0)]),
    "noise of 1e-3": (lambda g: g * (1 + 1e-3 * np.sin(99.0 * np.arange(g.size)).reshape(g.shape)),
        [("softmax", 0), ("layer norm", 0), ("mlp", 3)]),
    "one column off": (lambda g: np.roll(g, 1, -1), [("softmax", 0), ("layer norm", 0), ("broadcast add", 1)]),
    "sign lost": (abs, [("softmax", 0), ("matmul", 0), ("layer norm", 1)]),
    "signs of a checkerboard": (lambda g: g * np.where(np.indices(g.shape).sum(0) % 2, -1, 1),
        [("softmax", 0), ("scores", 0), ("product", 1)]),
    "zero in the middle": (lambda g: put(g.ravel(), slice(g.size // 3, g.size // 2), 0),
        [("softmax", 0), ("layer norm", 0), ("matmul", 1)]),
}
MUTANTS = [(kind, *m) for kind, mutants in LISTED.items() for m in mutants]
MUTANTS += [(None, *changed(name, rule, i)) for rule, places in UNLISTED.values() for name, i in places]


def diagnosed(name, backward, seed):
    """Returns the named kind of diagnosis, or None; and the text of the report."""
    random = np.random.default_rng(seed)
    inputs = [random.standard_normal(shape) for shape in RIGHT[name][2]]
    report = check_vjp(RIGHT[name][0], backward, inputs)
    assert report.verdict == "wrong", (name, seed, report.text)
    diagnosis = json.loads(report.json)["diagnosis"]
    return diagnosis and diagnosis["kind"], report.text


def main():
    for name, (forward, backward, shapes) in RIGHT.items():
        report = check_vjp(forward, backward, [randn(*shape) for shape in shapes])
        assert report and json.loads(report.json)["diagnosis"] is None, (name, report.text)
    counts = collections.Counter()
    for i, (kind, name, backward) in enumerate(MUTANTS):
        if "--all" not in sys.argv and i % 4:
            continue
        found, text = diagnosed(name, backward, seed=i)
        group = "listed" if kind else "unlisted"
        counts[group, "all"] += 1
        counts[group, "named rightly" if found and found == kind else "named wrongly" if found else "not named"] += 1
        if found != kind:
            print(f"{i}: {name}, {kind or 'not on the list'}: diagnosis {found}\n    {text}")
    for group in ("listed", "unlisted"):
        outcomes = ("named rightly", "named wrongly", "not named")
        print(f"{group}: {counts[group, 'all']} mutants, " + ", ".join(f"{counts[group, o]} {o}" for o in outcomes))
    assert counts["listed", "named rightly"] >= 0.7 * counts["listed", "all"]
    assert counts["listed", "named wrongly"] <= 1
    assert counts["unlisted", "named wrongly"] <= 2


if __name__ == "__main__":
    main()
