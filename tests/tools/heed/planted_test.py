"""Planted models: runs whose circuits are known, and what the first text of `heed study` must say of them.

Usage: planted_test.py HEED [SEED ...]. Each seed trains the preset induction, changes the weights in seven ways, and
compares the claims of `heed study --json` with what was changed. It uses only the standard library.
"""

import array
import functools
import json
import os
import random
import re
import struct
import sys
import tempfile

from heed_program import check, finish, heed, read_tensors, table_of

NO_BETTER = "This model predicts no better than token frequencies"
SEEDS = [int(seed) for seed in sys.argv[2:]] or [1]


def write_tensors(path, tensors):
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        raw = values.tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


D, D_HEAD = 64, 32


class Layer:
    """The weights of one layer by head: rows of W_Q, W_K and W_V, and columns of the output projection."""

    def __init__(self, tensors, layer):
        qkv = tensors[f"blocks.{layer}.qkv.weight"][1]
        proj = tensors[f"blocks.{layer}.proj.weight"][1]
        heads = len(qkv) // (3 * D * D_HEAD)
        rows = [qkv[i * D:(i + 1) * D] for i in range(len(qkv) // D)]
        width = heads * D_HEAD
        self.heads = []
        for head in range(heads):
            at = head * D_HEAD
            self.heads.append({
                **{part: [list(row) for row in rows[p * width + at:p * width + at + D_HEAD]]
                   for p, part in enumerate("qkv")},
                "o": [list(proj[i * width + at:i * width + at + D_HEAD]) for i in range(D)]})

    def store(self, tensors, layer):
        qkv = array.array("f", [x for part in "qkv" for head in self.heads for row in head[part] for x in row])
        proj = array.array("f", [x for i in range(D) for head in self.heads for x in head["o"][i]])
        width = len(self.heads) * D_HEAD
        tensors[f"blocks.{layer}.qkv.weight"] = ([3 * width, D], qkv)
        tensors[f"blocks.{layer}.proj.weight"] = ([D, width], proj)


def scaled(matrix, factor):
    return [[x * factor for x in row] for row in matrix]


class Planted:
    """A copy of a run whose weights are changed."""

    def __init__(self, run, name):
        self.tensors, _ = read_tensors(f"{run}/model.safetensors")
        self.layers = [Layer(self.tensors, 0), Layer(self.tensors, 1)]
        self.folder = f"{run}-{name}"
        os.makedirs(self.folder, exist_ok=True)
        with open(f"{run}/config.toml") as file:
            self.config = file.read()

    def study(self, *arguments):
        for number, layer in enumerate(self.layers):
            layer.store(self.tensors, number)
        config = re.sub(r"(?m)^heads = .*", f"heads = {len(self.layers[0].heads)}", self.config)
        config = re.sub(r"(?m)^d-head = .*", f"d-head = {D_HEAD}", config)
        with open(f"{self.folder}/config.toml", "w") as file:
            file.write(config)
        write_tensors(f"{self.folder}/model.safetensors", self.tensors)
        return Study(self.folder, *arguments)


class Study:
    def __init__(self, run, *arguments):
        self.arguments = ("study", run, *arguments)
        self.json = json.loads(heed(*self.arguments, "--json"))
        self.claims = self.json["claims"]

    @functools.cached_property
    def text(self):
        return " ".join(heed(*self.arguments).split())

    def named(self, role):
        """Returns the heads that one of the first lines names with this role."""
        return {c["components"][0] for c in self.claims if c["role"] == role and len(c["components"]) == 1}

    def value(self, name, quantity):
        return next((c["numbers"].get(quantity, 0.0) for c in self.claims if c["components"] == [name]), 0.0)


def loss_of_set(run, option, heads):
    """Returns the change of the loss without these heads (--ablate), or with them alone (--keep)."""
    found = json.loads(heed("study", run, "--of", "loss", option, ",".join(heads), "--json"))
    return table_of(found, "sets")[0]["effect"]


def check_named(what, study, roles):
    """`roles` maps a role to the heads that must be named with it, and no others."""
    for role, heads in roles.items():
        check(f"{what}: {role}", study.named(role) == set(heads), study.named(role), set(heads), study.text[:900])
        for head in heads:
            check(f"{what}: the text names {head}", re.search(rf"{head} is an? {role} head", study.text),
                  study.text[:900])


def patterns(run, heads, samples):
    """Returns {head: (previous-token score, induction score)} from arrays.safetensors, without heed's scores."""
    sums = {}
    for sample in range(samples):
        files = json.loads(heed("study", run, "--sample", sample, "--json"))["files"]
        tensors, metadata = read_tensors(next(name for name in files if name.endswith("/arrays.safetensors")))
        tokens = json.loads(metadata["labels"])
        length = len(tokens)
        for layer in range(2):
            A = tensors[f"blocks.{layer}.attn.hook_pattern"][1]
            for head in range(heads):
                rows = [A[(head * length + i) * length:(head * length + i + 1) * length] for i in range(length)]
                previous = sum(rows[i][i - 1] for i in range(1, length)) / (length - 1)
                copies = [(i, [j for j in range(i) if tokens[j] == tokens[i]]) for i in range(length)]
                repeats = [(i, js) for i, js in copies if js]
                induction = sum(rows[i][j + 1] for i, js in repeats for j in js) / len(repeats)
                sums.setdefault(f"L{layer}H{head}", []).append((previous, induction))
    return {head: tuple(sum(x) / len(values) for x in zip(*values)) for head, values in sums.items()}


def trained(seed, run):
    """The run as trained: the study names its heads, and the loss confirms it."""
    study = Study(run)
    scores = patterns(run, 2, 8)
    induction = [head for head, (_, score) in scores.items() if score >= 0.8]
    previous = [head for head, (score, _) in scores.items() if score >= 0.4]
    check(f"seed {seed}: trained heads were found", induction and previous, scores)
    pattern_only = study.named("no effect")
    for role, heads, column in (("induction", induction, 1), ("previous-token", previous, 0)):
        for head in heads:
            check(f"seed {seed}: {head} is named {role}, or has the pattern without the effect",
                  head in study.named(role) | pattern_only, study.claims)
        for head in study.named(role):
            check(f"seed {seed}: {head} is not named {role} below 0.4", scores[head][column] >= 0.4, scores)
        effect = loss_of_set(run, "--ablate", heads)
        check(f"seed {seed}: without {role} heads the loss rises by 1 nat", effect >= 1, effect)
    # If the named heads are all heads, no claim has the number left_alone.
    named = next((c["components"] for c in study.claims if "left_alone" in c["numbers"]), sorted(scores))
    effect = loss_of_set(run, "--keep", named)
    check(f"seed {seed}: the named heads alone have nearly the same loss", effect <= 0.15, effect)
    return study


def planted(seed, run, study):
    roles = {"induction": study.named("induction"), "previous-token": study.named("previous-token")}
    induction = sorted(roles["induction"])
    number = {head: int(head[3]) for head in induction}
    check(f"seed {seed}: induction heads are in layer 1", all(head[1] == "1" for head in induction), induction)

    model = Planted(run, "zero")
    silent = induction[1:] or induction  # without any induction head the model predicts no better than frequencies
    for head in silent:
        heads = model.layers[1].heads
        heads[number[head]]["o"] = scaled(heads[number[head]]["o"], 0)
    zero = model.study()
    check(f"seed {seed} zero: they are not named induction", not zero.named("induction") & set(silent), zero.text)
    for head in silent:
        expected = rf"{head} attends like an induction head \([^)]*\), but writes nothing" if silent != induction else NO_BETTER
        check(f"seed {seed} zero: {head} has the pattern without the effect", re.search(expected, zero.text), zero.text)

    model = Planted(run, "split")
    for layer in (0, 1):
        heads = model.layers[layer].heads
        half = dict(heads[0], o=scaled(heads[0]["o"], 0.5))
        model.layers[layer].heads = [half, heads[1], dict(half)]
    split = model.study()
    for role, names in roles.items():
        expected = names | {name[:3] + "2" for name in names if name[3] == "0"}
        check_named(f"seed {seed} split", split, {role: expected})
    for name in ("L0H0", "L1H0"):
        twin = name[:3] + "2"
        for quantity in ("needed", "suffices"):
            a, b = split.value(name, quantity), split.value(twin, quantity)
            check(f"seed {seed} split: equal halves", abs(a - b) <= 1e-3 * max(abs(a), 1e-3), name, quantity, a, b)

    model = Planted(run, "permuted")
    for layer in model.layers:
        layer.heads.reverse()
    other = {name: name[:3] + str(1 - int(name[3])) for name in ("L0H0", "L0H1", "L1H0", "L1H1")}
    check_named(f"seed {seed} permuted", model.study(),
                {role: {other[name] for name in names} for role, names in roles.items()})

    model = Planted(run, "sharp")
    for head in induction:
        weights = model.layers[1].heads[number[head]]
        weights["q"], weights["k"] = scaled(weights["q"], 4), scaled(weights["k"], 4)
    sharp = model.study()
    check(f"seed {seed} sharp: still named", sharp.named("induction") >= set(induction), sharp.claims)
    large = [row for row in table_of(sharp.json, "cells")[:20] if row["cell"][:4] in induction and row["A"] > 0.99]
    # dL/dS is nearly 0 at these weights, but the predicted change of a cut is not.
    check(f"seed {seed} sharp: cells of large weights have predictions",
          len(large) >= 5 and all(abs(row["gradient"]) > 0.02 for row in large), large)
    sizes = sorted(abs(row["gradient"]) / abs(row["effect"]) for row in large)
    check(f"seed {seed} sharp: the median prediction has the size of the effect",
          0.25 <= sizes[len(sizes) // 2] <= 4, sizes)

    model = Planted(run, "random")
    generator = random.Random(seed)
    head = induction[0]
    weights = model.layers[1].heads[number[head]]
    for part in "qkvo":
        weights[part] = [[generator.gauss(0, 0.125) for _ in row] for row in weights[part]]
    replaced = model.study()
    check(f"seed {seed} random head: not named", head not in replaced.named("induction"), replaced.claims)
    for name in induction[1:]:
        check(f"seed {seed} random head: {name} still named", name in replaced.named("induction"), replaced.claims)

    check_nothing(f"seed {seed} step 0", Study(run, "--weights", "checkpoints/000000.safetensors"))
    heed("train", "random", "--seed", seed, "--steps", 60, "--quiet", "--out", f"{run}-noise")
    check_nothing(f"seed {seed} trained on random", Study(f"{run}-noise"))


def check_nothing(what, study):
    check(f"{what}: no claim of an effect", not any(c["components"] for c in study.claims), study.claims)
    check(f"{what}: the text says so", NO_BETTER in study.text, study.text)


with tempfile.TemporaryDirectory() as scratch:
    os.chdir(scratch)
    for seed in SEEDS:
        run = f"seed{seed}"
        heed("train", "induction", "--seed", seed, "--save-every", 400, "--quiet", "--out", run)
        planted(seed, run, trained(seed, run))
finish()
