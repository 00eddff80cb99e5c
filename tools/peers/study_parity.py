#!/usr/bin/env python3
"""Compares heed study with an implementation that shares no code with heed or transformerlens_parity.py.

    python3 -m venv V && V/bin/pip install torch safetensors numpy
    V/bin/python tools/peers/study_parity.py build/release/heed

Each receiver of the forward pass below reads its own copy of the stream. Every intervention has a parameter t: the
effect is L(1) - L(0), and the prediction is dL/dt at 0. For each run below, the script trains a small model in float64
and prints the largest error by kind of table. L is a log probability at the last position. The error of a
table's column is its largest difference, divided by the column's largest magnitude. It must be at most 1e-9."""
import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
import warnings
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

BOUND, SAMPLES = 1e-9, 5
COLUMNS = ["heads", "edges", "cells"]
OF = ["--of", "logprob:b"]
TOKENS = "abcdefghij^"
TASK = ("train induction --task-vocabulary 10 --task-periods 3..8 --context 22 --d-model 16 --dtype float64 "
        "--steps 60 --lr 0.01 --eval-every 0 --quiet")
RUNS = {  # options of heed train, and the replacement
    "learned, GELU, biases": ("--positions learned --heads 2 --mlp --bias", "mean"),
    "RoPE, RMSNorm, shared keys, SwiGLU": (
        "--norm-kind rmsnorm --heads 4 --kv-heads 2 --d-head 6 --d-value 5 --mlp --mlp-act swiglu", "resample"),
    "sinusoidal, no norm, soft cap": (
        "--norm none --positions sinusoidal --heads 2 --soft-cap 2 --mlp --mlp-act relu --bias", "mean"),
    "RoPE, QK-norm, 3 layers, no MLP": ("--layers 3 --heads 2 --qk-norm --bias", "zero"),
    "ALiBi, window, RMSNorm": ("--norm-kind rmsnorm --positions alibi --heads 4 --window 7 --mlp", "mean"),
}


def numbers(text):
    return tuple(map(int, re.findall(r"\d+", text)))


class Model:
    def __init__(self, run):
        self.o = o = tomllib.loads((run / "config.toml").read_text())["train"]
        self.w = w = load_file(run / "model.safetensors")
        D, self.layers, self.H, self.T = o["d-model"], o["layers"], o["heads"], o["context"]
        G, self.d = o["kv-heads"] or self.H, o["d-head"] or D // self.H
        self.group, dv = self.H // G, o["d-value"] or self.d
        if o["positions"] == "sinusoidal":
            angles = torch.arange(self.T).double()[:, None] / 10000 ** (torch.arange(0, D, 2).double() / D)
            w["pos.weight"] = torch.stack([angles.sin(), angles.cos()], 2).flatten(1)
        for l in range(self.layers):
            W, sizes = w[f"blocks.{l}.qkv.weight"], [self.H * self.d, G * self.d, G * dv]
            bias = w.get(f"blocks.{l}.qkv.bias", torch.zeros(len(W)).double()).split(sizes)
            for n, d, x, b, repeats in zip("QKV", (self.d, self.d, dv), W.split(sizes), bias, (1, *[self.group] * 2)):
                w[f"{n}{l}"] = x.view(-1, d, D).mT.repeat_interleave(repeats, 0)  # [H, D, d]
                w[f"b{n}{l}"] = b.view(-1, d).repeat_interleave(repeats, 0)
            w[f"O{l}"] = w[f"blocks.{l}.proj.weight"].T.reshape(self.H, dv, D)
            w[f"bO{l}"] = w.get(f"blocks.{l}.proj.bias", torch.zeros(D).double())

    def norm(self, name, x):
        if name + ".weight" not in self.w:
            return x
        if self.o["norm-kind"] == "layernorm" and "attn" not in name:
            x = x - x.mean(-1, keepdim=True)
        x = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return x * self.w[name + ".weight"] + self.w.get(name + ".bias", 0)

    def rotate(self, x, positions):  # x [..., n, d], positions [n]
        if self.o["positions"] != "rope":
            return x
        angles = positions.double()[:, None] * 10000 ** (-torch.arange(self.d // 2).double() * 2 / self.d)
        a, b = x.chunk(2, -1)
        return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)

    def project(self, kind, l, h, x):  # x is a stream after the norm; queries include the scale
        y = x @ self.w[f"{kind}{l}"][h] + self.w[f"b{kind}{l}"][h]
        y = y if kind == "V" else self.norm(f"blocks.{l}.attn.{kind.lower()}_norm", y)
        return y * self.d ** -0.5 if kind == "Q" else y

    def slope(self, h):
        return 2 ** (-8 * (h + 1) / self.H) if self.o["positions"] == "alibi" else 0

    def weights(self, scores, hidden=False):
        """Returns the softmax of scores [..., T, T], without the keys that the mask or `hidden` hide."""
        distance = torch.arange(scores.shape[-1])[:, None] - torch.arange(scores.shape[-1])
        hidden = (distance < 0) | (distance >= (self.o["window"] or self.T)) | hidden
        return scores.masked_fill(hidden, -torch.inf).softmax(-1).nan_to_num()

    def head(self, l, h, streams, t, cells):
        """Returns z, A, the scores before the mask, and v of a head whose q, k and v read the three streams."""
        q, k, v = (self.project(n, l, h, self.norm(f"blocks.{l}.ln1", x)) for n, x in zip("QKV", streams))
        positions, cap = torch.arange(q.shape[1]), self.o["soft-cap"]
        scores = self.rotate(q, positions) @ self.rotate(k, positions).mT
        scores = cap * torch.tanh(scores / cap) if cap else scores
        scores = scores - self.slope(h) * (positions[:, None] - positions)
        A, hidden = self.weights(scores), torch.zeros(scores.shape[1:], dtype=torch.bool)
        for *_, i, j in [c for c in cells if c[:2] == (l, h)]:
            hidden[i, j] = True
        A = A + t * (self.weights(scores, hidden) - A) if hidden.any() else A
        return A @ v, A, scores, v

    def mlp(self, l, x):
        at, act, x = f"blocks.{l}.", torch.nn.functional, self.norm(f"blocks.{l}.ln2", x)
        linear = lambda name, x: x @ self.w[at + name + ".weight"].T + self.w.get(at + name + ".bias", 0)
        up, kind = linear("up", x), self.o["mlp-act"]
        y = act.silu(linear("gate", x)) * up if kind == "swiglu" else {"gelu": act.gelu, "relu": act.relu}[kind](up)
        return linear("down", y)

    def forward(self, ids, t=0, cut={}, edges=(), cells=()):
        """Returns the values of a pass. cut: component -> value that replaces z or the output of an MLP. edges:
        (component, receiver, change), where the receiver reads change(out) more, if the component's output is out."""
        r = {name: {} for name in ("out", "mid", "z", "A", "S", "v")}  # by component, mid by layer
        replaced = lambda name, x: x + t * (cut[name] - x) if name in cut else x

        def read(x, receiver):
            sent = [change(r["out"][component]) for component, to, change in edges if to == receiver]
            return x + sum(sent)
        x = self.w["tok.weight"][ids] + self.w.get("pos.weight", torch.zeros(self.T, 1))[:ids.shape[1]]
        r["out"]["embed"] = x
        for l in range(self.layers):
            r["mid"][l] = x + self.w[f"bO{l}"]
            for h in range(self.H):
                name = f"L{l}H{h}"
                streams = [read(x, self.receiver(n, name)) for n in "QKV"]
                z, r["A"][name], r["S"][name], r["v"][name] = self.head(l, h, streams, t, cells)
                r["z"][name] = replaced(name, z)
                r["out"][name] = r["z"][name] @ self.w[f"O{l}"][h]
                r["mid"][l] = r["mid"][l] + r["out"][name]
            x = r["mid"][l]
            if self.o["mlp"]:
                r["out"][f"L{l}MLP"] = replaced(f"L{l}MLP", self.mlp(l, read(x, ("", f"L{l}MLP"))))
                x = x + r["out"][f"L{l}MLP"]
        r["logits"] = self.norm("ln", read(x, ("", "logits"))) @ self.w["head.weight"].T
        return r

    def receiver(self, kind, name):  # heads that share keys and values have one receiver, that of the first head
        l, h = numbers(name) if kind else (0, 0)
        return (kind, f"L{l}H{h // self.group * self.group}") if kind in ("K", "V") else (kind, name)

    def edges_of(self, edges, new, t):
        """Returns the argument `edges` of forward() for edges such as L0H0:K:L1H1 that are cut together."""
        found = [re.fullmatch(r"(\w+?):(?:([QKV]):)?(\w+)", edge).groups() for edge in edges]
        return [(at, self.receiver(kind or "", name), lambda out, new=new[at]: t * (new - out)) for at, kind, name in found]


def effect(L, slopes_at=(0.0,)):
    """Returns mean and standard error of L(1) - L(0), and the mean of dL/dt over the given t. L(t) is [B]."""
    with torch.no_grad():
        change = L(1) - L(0)
    at = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in slopes_at]
    slopes = [torch.autograd.grad(L(t).mean(), t)[0].item() for t in at]
    return change.mean().item(), change.std().item() / len(change) ** 0.5, sum(slopes) / len(slopes)


class Comparison:
    def __init__(self, heed, run):
        self.heed, self.run, self.found = heed, run, {column: [] for column in COLUMNS}

    def study(self, *arguments):
        command = [self.heed, "study", self.run, *arguments, "--json"]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)

    def add(self, column, ours, theirs):
        """Compares two lists of rows. None is equal only to None."""
        a, b = (np.array(x, float).reshape(len(x), -1) for x in (ours, theirs))
        difference = np.where(np.isnan(a) & np.isnan(b), 0, np.abs(a - b)).max(0)
        largest = np.nan_to_num(np.abs(b)).max(0)
        self.found[column].append((difference / np.where(largest > 0, largest, 1)).max())


def table(report, key, columns, title=""):
    """Returns columns of the table of a section whose title begins with `title`, by default of the table without a title
    of its own, which has the title of the section."""
    for s in report["sections"]:
        for t in s["tables"]:
            of_table = (t["title"] or s["title"]).startswith(title) if title else not t["title"]
            if s["key"] == key and of_table:
                names = [column["name"] for column in t["columns"]]
                at = [len(names) - 1 - names[::-1].index(name) for name in columns]
                return [[row[i] for i in at] for row in t["rows"]]
    raise KeyError(title or key)


def sequence(report):
    """Returns ids [1, T] and L, a function of logits [T, classes], of the sequence of a report."""
    ids = torch.tensor([[TOKENS.index(c) for c in report["tokens"]]])
    return ids, lambda logits: logits[-1].log_softmax(0)[TOKENS.index("b")]


def softmax_exact(m, ids, L, base, cut):
    """Returns the sum over later heads of (softmax(S + dS) - A - J dS) v . dL/dz."""
    one, total, (changed,) = torch.ones(()).double(), 0, cut
    _, dS = torch.func.jvp(lambda t: m.forward(ids, t, cut)["S"], (0 * one,), (one,))
    for n in [n for n in base["z"] if int(n[1]) > int(changed[1])]:
        z = base["z"][n].detach().requires_grad_()
        grad = torch.autograd.grad(L(m.forward(ids, 1, {n: z})["logits"]).mean(), z)[0]
        A, change = base["A"][n], dS[n].masked_fill(base["A"][n] == 0, 0)
        difference = m.weights(base["S"][n] + change) - A - A * (change - (A * change).sum(-1, True))
        total += (difference @ base["v"][n] * grad).sum().item()
    return total


def compare_effects(c, m, how):
    options = ["--prompt", "abcdeabcd", "--samples", str(SAMPLES), "--ablation", how, *OF]
    each = [sequence(c.study("--sample", str(i), "--samples", "1", *OF)) for i in range(SAMPLES)]
    ids = torch.cat([x for x, _ in each])
    L = lambda logits: torch.stack([f(x) for (_, f), x in zip(each, logits)])
    base = m.forward(ids)
    kinds = {"mean": lambda x: x.mean((0, 1)), "zero": lambda x: 0 * x, "resample": lambda x: x.roll(-1, 0)}
    new = {n: kinds[how](x).expand_as(x) for n, x in (base["out"] | base["z"]).items()}
    written = {n: x @ m.w[f"O{n[1]}"][numbers(n)[1]] if "H" in n else x for n, x in new.items()}
    every = [n for n in new if n != "embed"]
    cut = lambda names: lambda t: L(m.forward(ids, t, {n: new[n] for n in names})["logits"])
    value = lambda names: cut(names)(1).mean().item()

    report, theirs, needed = c.study("--ablate", "all", *options), [], {}
    ours = table(report, "heads", ["component", "needed", "error", "suffices", "gradient", "softmax exact",
                                   "integrated (activation)"])
    for name, *_ in ours:
        needed[name], error, slope = effect(cut([name]))
        layer = [n for n in every if n.startswith(name[:2] + "H")]
        theirs.append([needed[name], error, None, slope, None, None] if "MLP" in name else [
            needed[name], error, value([n for n in layer if n != name]) - value(layer), slope,
            slope + softmax_exact(m, ids, L, base, {name: new[name]}), effect(cut([name]), np.arange(0.1, 1, 0.2))[2]])
    c.add("heads", [row[1:] for row in ours], theirs)
    ours, theirs = table(report, "pairs", ["heads", "effect", "error", "sum"]), []
    for row in ours:
        a, b = row[0].split(", ")
        theirs.append([*effect(cut([a, b]))[:2], needed[a] + needed[b]])
    c.add("heads", [row[1:] for row in ours], theirs)
    mlp = m.o["mlp"]
    sets = [["L0H0", "L1H1"] + ["L0MLP"] * mlp, ["L0H1", "L1H0"] + ["L1MLP"] * mlp]
    report = c.study("--ablate", ",".join(sets[0]), "--keep", ",".join(sets[1]), *options)
    c.add("heads", table(report, "sets", ["effect", "error", "left"]),
          [[*effect(cut(s))[:2], (value(s) - value(every)) / (value([]) - value(every))]
           for s in (sets[0], [n for n in every if n not in sets[1]])])

    edges = "L0H0:K:L1H1,L0H1:V:L1H1,embed:Q:L1H0,L1H1:logits" + ",L0MLP:L1MLP,L0H0:L0MLP" * mlp
    for title, given in ("Edges", ""), ("Cut edges", edges):
        rows = table(c.study(*options, *["--edge", given] * bool(given)), "edges", ["cut", "effect", "error", "gradient"], title)
        c.add("edges", [row[1:] for row in rows], [effect(lambda t: L(m.forward(ids, t, edges=m.edges_of(
            (given or row[0]).split(","), written, t))["logits"])) for row in rows])


def compare_cells(c, m):
    report = c.study("--prompt", "abcdeabcd", "--samples", "1", *OF, "--cut", "L1H0[7,3],L0H1[*,0-1],L0H0[0,0],L1H1[5,2-3]")
    ids, L = sequence(report)
    base, theirs = m.forward(ids), []
    cut = lambda cells: effect(lambda t: L(m.forward(ids, t, cells=cells)["logits"][0]).repeat(2))[::-2]
    ours = table(report, "cells", ["cell", "A", "A |v W_O|", "gradient", "effect"])
    for name, *_ in ours:
        l, h, i, j = numbers(name)
        A, v = base["A"][f"L{l}H{h}"][0, i, j].item(), base["v"][f"L{l}H{h}"][0, j]
        theirs.append([A, A * (v @ m.w[f"O{l}"][h]).norm().item(), *cut([(l, h, i, j)])])
    c.add("cells", [row[1:] for row in ours], theirs)
    cells = [(1, 0, 7, 3), (0, 0, 0, 0), (1, 1, 5, 2), (1, 1, 5, 3)]
    cells += [(0, 1, i, j) for i in range(ids.shape[1]) for j in (0, 1) if j <= i]
    c.add("cells", [[numbers(name)[0], *row] for name, *row in
                    table(report, "cells", ["cells", "gradient", "effect"], "Cut cells")], [[len(cells), *cut(cells)]])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heed", type=Path, metavar="HEED", help="path of heed, such as build/release/heed")
    heed, failed = str(parser.parse_args().heed.resolve()), 0
    warnings.simplefilter("ignore", FutureWarning)  # of torch.func
    print(f"{'largest error':38s}" + "".join(f"{column:>10s}" for column in COLUMNS))
    for name, (options, how) in RUNS.items():
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            subprocess.run([heed, *TASK.split(), *options.split(), "--out", run], check=True, stdout=subprocess.DEVNULL)
            c, m = Comparison(heed, run), Model(run)
            compare_effects(c, m, how), compare_cells(c, m)
        errors = {column: np.max(e) for column, e in c.found.items() if e}  # NaN if an error is NaN
        bad = [column for column, e in errors.items() if not (e <= BOUND)]
        failed += bool(bad)
        cells = "".join(f"{errors[column]:10.1e}" if column in errors else f"{'-':>10s}" for column in COLUMNS)
        print(f"{name:38s}{cells}  " + ("FAIL: " + ", ".join(bad) if bad else "PASS"), flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
