#!/usr/bin/env python3
"""Compares heed study with an implementation that shares no code with heed or transformerlens_parity.py.

    python3 -m venv V && V/bin/pip install -r tools/peers/requirements.txt
    V/bin/python tools/peers/study_parity.py build/release/heed

Each receiver of the forward pass below reads its own copy of the stream. The script trains small models in float64 and
compares effects, both predictions by gradients, interactions, roles and cells. A prediction is the derivative of L by a
factor t of the change, at the model or at the points between donor and model. L is a log probability at one position.
The error of a table's column is its largest difference, divided by the column's largest magnitude. It must be at most 1e-9."""
import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

BOUND, SAMPLES, POINTS = 1e-9, 7, [(k + 0.5) / 5 for k in range(5)]
COLUMNS = ["components", "edges", "cells", "roles"]
AT = 20  # position of L, which the prefix determines
TOKENS = "abcdefghij^"
TASK = ("train induction --task-vocabulary 10 --task-periods 3..8 --context 22 --d-model 16 --dtype float64 "
        "--steps 300 --lr 0.01 --eval-every 0 --quiet")
RUNS = {  # options of heed train
    "learned, GELU, biases": "--positions learned --heads 2 --mlp --bias",
    "RoPE, RMSNorm, shared keys, SwiGLU":
        "--norm-kind rmsnorm --heads 4 --kv-heads 2 --d-head 6 --d-value 5 --mlp --mlp-act swiglu",
    "sinusoidal, no norm, soft cap": "--norm none --positions sinusoidal --heads 2 --soft-cap 2 --mlp --mlp-act relu --bias",
    "RoPE, QK-norm, 3 layers, no MLP": "--layers 3 --heads 2 --qk-norm --bias",
    "ALiBi, window, RMSNorm": "--norm-kind rmsnorm --positions alibi --heads 4 --window 7 --mlp",
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

    def hidden(self, n):
        distance = torch.arange(n)[:, None] - torch.arange(n)
        return (distance < 0) | (distance >= (self.o["window"] or self.T))

    def head(self, l, h, streams, patterns):
        """Returns z, A and v of a head whose q, k and v read the three streams."""
        q, k, v = (self.project(n, l, h, self.norm(f"blocks.{l}.ln1", x)) for n, x in zip("QKV", streams))
        positions, cap = torch.arange(q.shape[1]), self.o["soft-cap"]
        scores = self.rotate(q, positions) @ self.rotate(k, positions).mT
        scores = cap * torch.tanh(scores / cap) if cap else scores
        scores = scores - self.slope(h) * (positions[:, None] - positions)
        A = scores.masked_fill(self.hidden(len(positions)), -torch.inf).softmax(-1)
        A = patterns(f"L{l}H{h}", A)
        return A @ v, A, v

    def mlp(self, l, x):
        at, act, x = f"blocks.{l}.", torch.nn.functional, self.norm(f"blocks.{l}.ln2", x)
        linear = lambda name, x: x @ self.w[at + name + ".weight"].T + self.w.get(at + name + ".bias", 0)
        up, kind = linear("up", x), self.o["mlp-act"]
        y = act.silu(linear("gate", x)) * up if kind == "swiglu" else {"gelu": act.gelu, "relu": act.relu}[kind](up)
        return linear("down", y)

    def forward(self, ids, start=None, cut={}, add={}, edges=(), patterns=lambda name, A: A):
        """Returns the values of a pass. start: the stream before the first block. cut: component -> value that replaces z
        or the output of an MLP. add: the same, added. edges: (component, receiver, change), where the receiver reads
        change(out) more, if the component's output is out. patterns: name, A -> A of a head."""
        r = {name: {} for name in ("out", "mid", "z", "A", "v")}  # by component, mid by layer
        replaced = lambda name, x: cut[name] if name in cut else x + add[name] if name in add else x

        def read(x, receiver):
            return x + sum(change(r["out"][component]) for component, to, change in edges if to == receiver)
        x = start if start is not None else self.w["tok.weight"][ids] + self.w.get("pos.weight", torch.zeros(self.T, 1))[:ids.shape[1]]
        r["out"]["embed"] = x
        for l in range(self.layers):
            r["mid"][l] = x + self.w[f"bO{l}"]
            for h in range(self.H):
                name = f"L{l}H{h}"
                streams = [read(x, self.receiver(n, name)) for n in "QKV"]
                z, r["A"][name], r["v"][name] = self.head(l, h, streams, patterns)
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

    def edge(self, text):
        """Returns component and receiver of an edge such as L0H0:K:L1H1."""
        component, kind, name = re.fullmatch(r"(\w+?):(?:([QKV]):)?(\w+)", text).groups()
        return component, self.receiver(kind or "", name)


def log_prob(logits, at, tokens):
    return logits[:, at].log_softmax(-1).gather(1, tokens[:, None])[:, 0]


def values_of(m, r):
    """Returns what replaces z of the heads and the outputs of MLPs."""
    return {n: r["z"].get(n, x) for n, x in r["out"].items() if n != "embed"}


class Effects:
    """Sequences ids [B, T] and their donors, a list of ids [B, T]. L is the log probability of `tokens` at a position."""

    def __init__(self, m, ids, donors, at, tokens):
        self.m, self.ids, self.L_of = m, ids, lambda logits: log_prob(logits, at, tokens)
        with torch.no_grad():
            self.base, self.donors = m.forward(ids), [m.forward(d) for d in donors]
        self.L = self.L_of(self.base["logits"])

    def summary(self, changed):
        """Returns mean, standard error and deviation over donors. `changed` has L by donor."""
        change = torch.stack(changed) - self.L
        of = change.mean(0)
        deviation = change.mean(1).std().item() if len(change) > 1 else None
        return [of.mean().item(), of.std().item() / len(of) ** 0.5, deviation], of

    def effect(self, f):
        """f(donor) returns the arguments of a pass."""
        with torch.no_grad():
            return self.summary([self.L_of(self.m.forward(self.ids, **f(d))["logits"]) for d in self.donors])

    def without(self, names):
        return self.effect(lambda d: {"cut": {n: values_of(self.m, d)[n] for n in names}})

    def slopes(self, share, d, changes):
        """Returns dL/dt at t = 0 of the mean L for each change: (arguments of a pass for t times the change)."""
        t = torch.zeros(len(changes), dtype=torch.float64, requires_grad=True)
        start = d["out"]["embed"] + share * (self.base["out"]["embed"] - d["out"]["embed"])
        add, edges = {}, []
        for k, (kind, at, delta) in enumerate(changes):
            if kind == "add":
                add[at] = add.get(at, 0) + t[k] * delta
            else:
                edges.append((*at, lambda out, k=k, delta=delta: t[k] * delta))
        r = self.m.forward(self.ids, start=start, add=add, edges=edges)
        return torch.autograd.grad(self.L_of(r["logits"]).mean(), t)[0].numpy()

    def predictions(self, changes):
        """changes(donor) returns a list. Returns for each change path gradient and gradient, means over donors."""
        path = sum(self.slopes(s, d, changes(d)) for d in self.donors for s in POINTS) / len(POINTS) / len(self.donors)
        return list(zip(path, sum(self.slopes(1, d, changes(d)) for d in self.donors) / len(self.donors)))


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


def ids_of(text):
    return [TOKENS.index(c) for c in text]


def keys_of(role, tokens):
    """Returns F [T, T]: 1 at the keys of a pattern."""
    T = len(tokens)
    F = torch.zeros(T, T).double()
    for i in range(1, T):
        copies = [j for j in range(i) if tokens[j] == tokens[i]]
        keys = {"previous-token": [i - 1], "first-token": [0], "current-token": [i], "duplicate-token": copies,
                "induction": [j + 1 for j in copies]}.get(role) or ([i - int(role.split()[0])] if role.endswith("back") else [])
        F[i, [j for j in keys if j >= 0]] = 1
    return F


def compare_components(c, m, all_ids):
    options = ["--samples", str(SAMPLES), "--of", "logprob", "--at", str(AT)]
    report = c.study("--ablate", "all", *options)
    e = Effects(m, all_ids, [all_ids[rows] for rows in report["sample"]["donors"]], AT, all_ids[:, AT + 1])
    names = list(values_of(m, e.base))
    single = {n: e.without([n]) for n in names}
    deltas = lambda d: [("add", n, values_of(m, d)[n] - values_of(m, e.base)[n]) for n in names]
    predicted = dict(zip(names, e.predictions(deltas)))
    kinds = {"zero": lambda x: 0 * x, "mean": lambda x: x.mean(0).expand_as(x)}
    check = {k: {n: e.effect(lambda d: {"cut": {n: f(values_of(m, e.base)[n])}})[0][0] for n in names} for k, f in kinds.items()}
    ours = table(report, "components", ["component", "effect", "error", "donors", "path", "gradient", "zero", "mean"])
    c.add("components", [row[1:] for row in ours], [[*single[n][0], *predicted[n], check["zero"][n], check["mean"][n]] for n, *_ in ours])
    if len(single) - m.layers * m.o["mlp"] <= 8:
        ours, theirs = table(report, "components", ["heads", "interaction", "error"], "Pairs"), []
        for pair, *_ in ours:
            a, b = pair.split(", ")
            of = e.without([a, b])[1] - single[a][1] - single[b][1]
            theirs.append([of.mean().item(), of.std().item() / len(of) ** 0.5])
        c.add("components", [row[1:] for row in ours], theirs)
    sets = [["L0H0", "L1H1"] + ["L0MLP"] * m.o["mlp"], ["L0H1", "L1H0"] + ["L1MLP"] * m.o["mlp"]]
    report = c.study("--ablate", ",".join(sets[0]), "--keep", ",".join(sets[1]), *options)
    c.add("components", table(report, "sets", ["effect", "error", "donors"]),
          [e.without(s)[0] for s in (sets[0], [n for n in names if n not in sets[1]])])

    report = c.study("--show", "edges", *options)
    ours = table(report, "edges", ["edge", "effect", "error", "path", "gradient"])
    at = [m.edge(row[0]) for row in ours]
    effects = [e.effect(lambda d: {"edges": [(*edge, lambda out: d["out"][edge[0]] - out)]})[0][:2] for edge in at]
    predicted = e.predictions(lambda d: [("edge", edge, d["out"][edge[0]] - e.base["out"][edge[0]]) for edge in at])
    c.add("edges", [row[1:] for row in ours], [[*x, *p] for x, p in zip(effects, predicted)])

    try:
        ours = table(report, "components", ["head", "role", "score", "imposed"], "What the heads")
    except KeyError:
        return  # no head counts
    grads = {n: 0 for n, *_ in ours}  # where the head matters
    for d in e.donors:
        mean = {n: 0 for n in grads}
        for s in POINTS:
            start = d["out"]["embed"] + s * (e.base["out"]["embed"] - d["out"]["embed"])
            r = m.forward(all_ids, start=start.detach().requires_grad_())
            for n, g in zip(mean, torch.autograd.grad(e.L_of(r["logits"]).sum(), [r["z"][n] for n in mean])):
                mean[n] = mean[n] + g / len(POINTS)
        for n in grads:
            grads[n] = grads[n] + ((d["z"][n] - e.base["z"][n]) * mean[n]).sum(-1).abs() / len(e.donors)
    rows, theirs = [], []
    for n, role, score, imposed in ours:
        if role == "-":
            continue
        F = torch.stack([keys_of(role, ids.tolist()) for ids in all_ids]) * ~m.hidden(all_ids.shape[1])
        weight = (e.base["A"][n] * F).sum(-1)
        exact = lambda name, A: torch.where(F.sum(-1, True) > 0, F / F.sum(-1, True).clamp(min=1), A) if name == n else A
        with torch.no_grad():
            change = (e.L_of(m.forward(all_ids, patterns=exact)["logits"]) - e.L).mean().item()
        rows.append([score, imposed])
        theirs.append([(grads[n] * weight).sum().item() / grads[n].sum().item(), change])
    if rows:
        c.add("roles", rows, theirs)


def compare_cells(c, m, donors):
    report = c.study("--prompt", "abcdeabcd", "--show", "cells", "--of", "logprob:e")
    ids = torch.tensor([ids_of(report["tokens"])] * len(donors))
    e = Effects(m, ids, [donors[:, :ids.shape[1]]], -1, torch.tensor([TOKENS.index("e")] * len(donors)))
    ours = table(report, "cells", ["cell", "A", "effect", "error", "path", "gradient"])
    cells = [numbers(row[0]) for row in ours]

    def delta(d, cell):
        l, h, i, j = cell
        n, change = f"L{l}H{h}", torch.zeros_like(e.base["z"][f"L{l}H{h}"])
        change[:, i] = e.base["A"][n][:, i, j, None] * (d["v"][n][:, j] - e.base["v"][n][:, j])
        return n, change
    effects = [e.effect(lambda d: {"add": dict([delta(d, cell)])})[0][:2] for cell in cells]
    predicted = e.predictions(lambda d: [("add", *delta(d, cell)) for cell in cells])
    A = [e.base["A"][f"L{l}H{h}"][0, i, j].item() for l, h, i, j in cells]
    c.add("cells", [row[1:] for row in ours], [[a, *x, *p] for a, x, p in zip(A, effects, predicted)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heed", type=Path, metavar="HEED", help="path of heed, such as build/release/heed")
    heed, failed = str(parser.parse_args().heed.resolve()), 0
    print(f"{'largest error':38s}" + "".join(f"{column:>10s}" for column in COLUMNS))
    ids = None
    for name, options in RUNS.items():
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            subprocess.run([heed, *TASK.split(), *options.split(), "--out", run], check=True, stdout=subprocess.DEVNULL)
            c, m = Comparison(heed, run), Model(run)
            if ids is None:  # all runs have the sequences of the first
                ids = torch.tensor([ids_of(c.study("--sample", str(i), "--samples", "5")["tokens"]) for i in range(16)])
            compare_components(c, m, ids[:SAMPLES]), compare_cells(c, m, ids)
        errors = {column: np.max(e) for column, e in c.found.items() if e}  # NaN if an error is NaN
        bad = [column for column, e in errors.items() if not (e <= BOUND)]
        failed += bool(bad)
        cells = "".join(f"{errors[column]:10.1e}" if column in errors else f"{'-':>10s}" for column in COLUMNS)
        print(f"{name:38s}{cells}  " + ("FAIL: " + ", ".join(bad) if bad else "PASS"), flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
