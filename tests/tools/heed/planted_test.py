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
        self.text = " ".join(claim["text"] for claim in self.claims)

    @functools.cached_property
    def rows(self):
        return {row["component"]: row for row in table_of(self.json, "components")}

    def named(self, role):
        """Returns the heads that one of the first lines names with this role."""
        return {c["components"][0] for c in self.claims if c["role"] == role}


def loss_without(run, heads):
    """Returns the change of the loss without these heads."""
    return table_of(json.loads(heed("study", run, "--of", "loss", "--ablate", ",".join(heads), "--json")), "sets")[0]["effect"]


def check_same(what, study, other, names, columns=("effect", "path", "gradient", "mean", "accuracy")):
    """Checks that no number of the components changed by more than 1e-4 of the column's largest. `names` maps the names."""
    for column in columns:
        largest = max(abs(row[column]) for row in study.rows.values())
        for name, row in study.rows.items():
            x, y = row[column], other.rows[names.get(name, name)][column]
            check(f"{what}: {name} {column}", abs(x - y) <= 1e-4 * largest, x, y, largest)


def trained(seed, run):
    """The run as trained: the study names its heads, and the loss confirms it."""
    study = Study(run)
    induction, previous = study.named("induction"), study.named("previous-token")
    check(f"seed {seed}: induction heads are in layer 1", induction and all(head[1] == "1" for head in induction), study.claims)
    check(f"seed {seed}: previous-token heads are in layer 0", previous and all(head[1] == "0" for head in previous), study.claims)
    for heads in (induction, previous):
        check(f"seed {seed}: without them the loss rises by 1 nat", loss_without(run, heads) >= 1, heads)
    for row in table_of(study.json, "components", "What the heads"):  # no role that imposing refutes
        if row["role"] != "-":
            check(f"seed {seed}: imposing keeps L", abs(row["imposed"]) <= 0.2 * abs(study.rows[row["head"]]["effect"]) + 0.1, row)
    wrong = [row for row in study.rows.values() if abs(row["effect"]) > 1 and row["effect"] * row["path"] < 0]
    check(f"seed {seed}: path gradients have the sign of large effects", not wrong, wrong)
    return study


def planted(seed, run, study):
    induction = sorted(study.named("induction"))
    number = {head: int(head[3]) for head in induction}

    model = Planted(run, "zero")
    for head in induction[1:] or induction:
        heads = model.layers[1].heads
        heads[number[head]]["o"] = scaled(heads[number[head]]["o"], 0)
    zero = model.study()
    for head in induction[1:] or induction:
        check(f"seed {seed} zero: {head} has no effect", all(zero.rows[head][key] == 0 for key in ("effect", "path", "gradient", "zero", "mean")),
              zero.rows[head])
        check(f"seed {seed} zero: {head} is not named", not any(head in c["components"] for c in zero.claims), zero.claims)

    model = Planted(run, "split")
    for layer in (0, 1):
        heads = model.layers[layer].heads
        half = dict(heads[0], o=scaled(heads[0]["o"], 0.5))
        model.layers[layer].heads = [half, heads[1], dict(half)]
    split = model.study()
    for name in ("L0H0", "L1H0"):
        a, b = split.rows[name], split.rows[name[:3] + "2"]
        for key in ("effect", "path", "gradient"):
            check(f"seed {seed} split: equal halves", abs(a[key] - b[key]) <= 1e-3 * max(abs(a[key]), 1e-3), name, key, a, b)
    for role in ("induction", "previous-token"):
        twins = {name for name in split.named(role) if name[3] in "02"}
        check(f"seed {seed} split: both halves or none is {role}", len(twins) % 2 == 0, split.claims)

    model = Planted(run, "permuted")
    for layer in model.layers:
        layer.heads.reverse()
    other = {name: name[:3] + str(1 - int(name[3])) for name in ("L0H0", "L0H1", "L1H0", "L1H1")}
    permuted = model.study()
    check_same(f"seed {seed} permuted", study, permuted, other)
    for role in ("induction", "previous-token"):
        check(f"seed {seed} permuted: {role}", permuted.named(role) == {other[name] for name in study.named(role)}, permuted.claims)

    model = Planted(run, "rescaled")  # the same function: W_V a, W_O / a; W_Q b, W_K / b
    for layer in model.layers:
        for head in layer.heads:
            for part, factor in (("v", 4), ("o", 1 / 4), ("q", 8), ("k", 1 / 8)):
                head[part] = scaled(head[part], factor)
    check_same(f"seed {seed} rescaled", study, model.study(), {})

    model = Planted(run, "sharp")
    for head in induction:
        weights = model.layers[1].heads[number[head]]
        weights["q"], weights["k"] = scaled(weights["q"], 4), scaled(weights["k"], 4)
    sharp = model.study()
    check(f"seed {seed} sharp: still named", sharp.named("induction") >= set(induction), sharp.claims)

    model = Planted(run, "random")
    generator = random.Random(seed)
    weights = model.layers[1].heads[number[induction[0]]]
    for part in "qkvo":
        weights[part] = [[generator.gauss(0, 0.125) for _ in row] for row in weights[part]]
    replaced = model.study()
    for role in ("induction", "redundant"):
        check(f"seed {seed} random head: not {role}", induction[0] not in replaced.named(role), replaced.claims)

    check_nothing(f"seed {seed} step 0", Study(run, "--weights", "checkpoints/000000.safetensors"))
    heed("train", "random", "--seed", seed, "--steps", 60, "--quiet", "--out", f"{run}-noise")
    check_nothing(f"seed {seed} trained on random", Study(f"{run}-noise"))


def check_nothing(what, study):
    check(f"{what}: nothing is named", not any(c["components"] for c in study.claims), study.claims)
    check(f"{what}: the text says so", NO_BETTER in study.text, study.text)


with tempfile.TemporaryDirectory() as scratch:
    os.chdir(scratch)
    for seed in SEEDS:
        run = f"seed{seed}"
        heed("train", "induction", "--seed", seed, "--save-every", 400, "--quiet", "--out", run)
        planted(seed, run, trained(seed, run))
finish()
