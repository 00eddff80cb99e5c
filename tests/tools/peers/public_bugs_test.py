#!/usr/bin/env python3
"""Tests tools/peers/public_bugs_cases.py: each wrong function is wrong in its circumstance only, and each right one is
right, compared with PyTorch's autograd of the plain formula in float64. Tests that public_bugs.py prints what heed
and gradcheck return for some of them, and that --check finds a changed line.

    python3 tests/tools/peers/public_bugs_test.py build/release
"""
import contextlib
import io
import os
import pathlib
import re
import signal
import sys
import tempfile
import time

sys.dont_write_bytecode = True
PEERS = pathlib.Path(__file__).resolve().parents[3] / "tools/peers"
sys.path.insert(0, str(PEERS))
try:
    import torch
except ImportError:
    sys.exit(print("skipped: PyTorch is not installed"))

import public_bugs
from public_bugs_cases import CASES, RIGHT

torch.set_num_threads(1)  # small tensors: several threads would mostly wait for each other


def gradients_of(function, x, dy=None, layout="contiguous", times=1, create=False):
    """Gradients of the outputs' product with dy (by default random), dy in the given layout; the last of `times`."""
    y = function(*x)
    ys = y if isinstance(y, tuple) else (y,)
    dys = [lay_out(d, layout) for d in (dy or random_like(ys))]
    for _ in range(times):
        g = torch.autograd.grad(ys, x, dys, retain_graph=True, create_graph=create, allow_unused=True,
                                materialize_grads=True)
    return g


def random_like(ys, seed=2):
    gen = torch.Generator().manual_seed(seed)
    return [torch.randn(y.shape, generator=gen, dtype=torch.float64).to(y.dtype) for y in ys]


def lay_out(d, layout):
    """The same values (for expanded: a constant) in another layout; gaps hold NaN."""
    if layout == "slice":
        big = torch.full((*d.shape[:-1], 2 * d.shape[-1] + 1), float("nan"), dtype=d.dtype)
        big[..., 1:1 + d.shape[-1]] = d
        return big[..., 1:1 + d.shape[-1]]
    if layout == "transposed":
        return d.transpose(0, 1).contiguous().transpose(0, 1)
    return torch.full((), 0.7, dtype=d.dtype).expand(d.shape) if layout == "expanded" else d.clone()


def differ(a, b, tolerance=1e-9):
    """Largest relative difference of two lists of gradients; True if above the tolerance or not a number."""
    return any(not ((p - q).abs().max() <= tolerance * (q.abs().max() + 1e-300)) for p, q in zip(a, b))


def second(function, x, dy):
    """Gradient of <gradient, u> for the inputs."""
    g = gradients_of(function, x, dy, create=True)
    if not any(t.requires_grad for t in g):
        return [torch.zeros_like(t) for t in x]
    u = random_like(g, seed=4)
    return torch.autograd.grad(sum((p * q).sum() for p, q in zip(g, u)), x, allow_unused=True, materialize_grads=True)


def leaks(module, ids):
    """Largest change of earlier logits if one token changes, in float64."""
    worst = 0.0
    with torch.no_grad():
        module = module.double()
        base = module(ids)
        for j in range(1, ids.shape[1]):
            other = ids.clone()
            other[:, j] = (other[:, j] + 1) % 11
            worst = max(worst, (module(other) - base)[:, :j].abs().max().item())
    return worst


def wide(c):
    """The plain formula in float64 at the inputs and dy of a low-precision case: the true gradients."""
    x = [t.detach().double().requires_grad_() for t in c.inputs()]
    y = c.forward(*c.inputs())
    ys = y if isinstance(y, tuple) else (y,)
    return gradients_of(c.forward, x, [d.double() for d in random_like(ys)])


def errors(c, wrong):
    f, x = c.build(wrong)
    return [(g.double() - t).abs().max().item() for g, t in zip(gradients_of(f, x), wide(c))]


def formula(c):
    """The plain differentiable formula, whose gradients by autograd are the truth."""
    return (lambda *x: c.forward(*x, wrong=False)) if c.form == "plain" else c.plain or c.forward


def wrong_in(c, f, x):
    """True if the gradients of f differ from the formula's in circumstance c.when, and only there."""
    good, when = gradients_of(formula(c), c.inputs()), c.when
    usual = differ(gradients_of(f, x), good)
    if when == "always":
        return usual
    if when in ("slice", "transposed", "expanded"):
        try:
            bad = differ(gradients_of(f, x, layout=when), gradients_of(formula(c), c.inputs(), layout=when))
        except RuntimeError:
            bad = True
    elif when == "input transposed":
        x[0] = x[0].detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
        bad = differ(gradients_of(f, x), good)
    elif when == "second backward":
        bad = differ(gradients_of(f, x, times=2), good)
    elif when == "dy reused":
        dy = random_like([f(*x)])[0]
        results = [torch.autograd.grad(f(*x), x, dy) for _ in range(2)]
        bad = not differ(results[0], good) and differ(results[1], good)
    elif when == "forward between":
        y = f(*x)
        f(x[0].detach() + 1)
        bad = differ(torch.autograd.grad(y, x, random_like([y])), good)
    elif when == "input overwritten":
        x, before = c.inputs(), c.inputs()      # new inputs: f may have changed the old ones
        f(*x)
        bad = not torch.equal(x[0], before[0])
    elif when == "second derivative":
        dy = random_like([f(*x)])
        bad = differ(second(f, x, dy), second(formula(c), c.inputs(), dy))
    return bad and not usual


def kinks_right(c):
    """At kinks: each gradient lies between the one-sided derivatives (0 and dy); elsewhere it is the formula's."""
    f, x = c.build(False)
    y = f(*x)
    dy = random_like([y])[0]
    ratio = torch.autograd.grad(y, x, dy)[0] / dy
    return bool((((ratio == (x[0] > 0)) | (x[0] == 0)) & (ratio >= 0) & (ratio <= 1)).all())


def low_precision(c):
    """Compares the errors of both backwards with the true gradients, in roundings of the gradient's type."""
    ulp = [t.abs().max().item() * torch.finfo(x.dtype).eps for t, x in zip(wide(c), c.inputs())]
    bad, good = errors(c, True), errors(c, False)
    ratio = max(b / max(g, u / 4, 1e-30) for b, g, u in zip(bad, good, ulp))
    allowed = [64 if x.dtype == torch.float32 else 2 for x in c.inputs()]
    return ratio > 3, all(g <= n * u + 1e-6 for g, u, n in zip(good, ulp, allowed))


def check(c):
    """Returns (the wrong one is wrong in its circumstance, the right one is right)."""
    if c.form == "module":
        return leaks(*c.build(True)) > 1e-6, leaks(*c.build(False)) < 1e-12
    if c.form == "jvp":
        results = []
        for wrong in (True, False):
            f, jvp, x = c.build(wrong)
            v = random_like(x, seed=6)
            true = torch.func.jvp(f, tuple(t.detach() for t in x), tuple(v))[1]
            results.append(differ([jvp([t.detach() for t in x], v)], [true]))
        return results[0], not results[1]
    if c.inputs()[0].dtype != torch.float64:
        return low_precision(c)
    if c.kind == "kink":
        return False, kinks_right(c)
    f, x = c.build(False)
    fine = not differ(gradients_of(f, x), gradients_of(formula(c), c.inputs()))
    if c.form == "function" and not c.once and c.kind != "edge of the domain":
        dy = random_like([t for t in [f(*x)] if torch.is_tensor(t)] or f(*x))
        fine &= not differ(second(f, x, dy), second(formula(c), c.inputs(), dy))
    if c in RIGHT:
        return False, fine
    for layout in ("slice", "transposed", "expanded"):
        try:
            fine &= not differ(gradients_of(f, x, layout=layout), gradients_of(formula(c), c.inputs(), layout=layout))
        except IndexError:
            pass                        # no transposed layout of a vector or a scalar
    return wrong_in(c, *c.build(True)), fine and not wrong_in(c, *c.build(False))


def run(*arguments):
    """Runs public_bugs.py. Returns what it prints, and its exit status or message."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            public_bugs.main(["--build", sys.argv[1], *arguments])
        except SystemExit as e:
            return printed.getvalue(), e.code
    return printed.getvalue(), 0


failed = [c.key for c in CASES + RIGHT if check(c) != (c in CASES, True)]
assert not failed, failed

EXPECTED = {
    "pytorch-194719": "**passes** | - | found",
    "warp-1732-2": "**passes** | - | found",
    "pytorch-104040": "**passes** | found | found",
    "llm.c-763": "found | - | found",
    "raven-153": "found | - | found",
    "liger-1253": "**refuses both** | - | found",
    "nanochat-844-3": "not possible | - | found",
    "right-nvalchemi-64": "**raises** | - | passes",
}
COLUMNS = ["--checkers", "gradcheck", "gradgradcheck", "heed"]
out, status = run(*EXPECTED, *COLUMNS)
assert status == 0
for key, words in EXPECTED.items():
    [row] = re.findall(rf"^\| \[{key}\]\(https://github.com/.*", out, re.M)
    assert row.endswith(f" | {words} |"), (row, words)
assert "| wrong, all | 2 of 7 | 1 of 1 | 7 of 7 |" in out, out
with tempfile.TemporaryDirectory() as folder:
    page = pathlib.Path(folder, "page.txt")
    page.write_text(out)
    assert run("llm.c-763", *COLUMNS, "--check", str(page))[1] == 0
    page.write_text(out.replace("found", "passes"))
    changed, status = run("llm.c-763", *COLUMNS, "--check", str(page))
    assert status == 1 and changed.startswith("+| [llm.c-763]"), changed
assert run("x")[1].startswith("unknown keys: x")

# A checker that crashes or takes too long does not end the comparison.
public_bugs.CHECKERS["crash"] = lambda case, wrong: os.kill(os.getpid(), signal.SIGSEGV) if wrong else "accepted"
public_bugs.CHECKERS["sleep"] = lambda case, wrong: time.sleep(60) or "accepted"
assert public_bugs.isolated("crash", CASES[0], [False, True]) == ["accepted", "crashes: exit code -11"]
public_bugs.TIMEOUT = 0.1
assert public_bugs.isolated("sleep", CASES[0], [False, True]) == ["no answer: timeout"] * 2
words = {("accepted", "refused: text"): "found", ("accepted", "accepted"): "**passes**",
         ("accepted", "undecided"): "**undecided**", ("refused", "refused"): "**refuses both**",
         ("refused", "accepted"): "**right one: refuses**", ("accepted", "crashes: 1"): "**crashes**",
         ("accepted",): "passes", ("undecided",): "**undecided**"}
assert {answers: public_bugs.word(answers) for answers in words} == words
print("public_bugs: passed")
