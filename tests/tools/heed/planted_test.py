"""What must follow from each other in studies of trained models, and in studies of copies whose weights are changed.

Usage: planted_test.py HEED [TASK:SEED ...]. It trains small models in float64, and prints the largest deviation of each
implication. Changes that keep the function (permuted heads, a rotated stream) may change no number of a table. Of
copies with a known circuit (a head that is silent, split, cancelled, doubled, sharp or random), the first lines must say
what was planted. "-" is an implication that the model cannot show.
"""

import json
import os
import re
import struct
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    sys.exit(print("skipped: NumPy is not installed"))

from heed_program import check, finish, heed, read_tensors, table_of

NO_BETTER = "This model predicts no better than token frequencies"
TASKS = {
    "induction": "--task-vocabulary 10 --task-periods 3..8 --context 22 --positions learned --bias --steps 600 --lr 0.01",
    "recall": "--task-pairs 3 --context 16 --norm-kind rmsnorm --heads 4 --kv-heads 2 --steps 1000 --lr 0.01",
    "reverse": "--task-vocabulary 8 --context 12 --positions learned --heads 2 --mlp --steps 120 --lr 0.005",
    "modadd": "--task-modulus 13 --task-train-share 0.8 --layers 1 --heads 2 --mlp --bias --steps 1000 --lr 0.01 --weight-decay 1",
}
WIDTH = 32
COMMON = f"--d-model {WIDTH} --dtype float64 --eval-every 0 --quiet --out"
largest = {}  # implication -> largest deviation


def deviation(what, name, value, limit):
    largest[name] = max(largest.get(name, 0.0), value)
    check(f"{what}: {name}", value <= limit, value)


class Weights:
    """A copy of a run whose weights are changed. Heads of a layer: "q", "k", "v" [heads, d, WIDTH + 1] with the bias as the
    last column, and "o" [heads, d, WIDTH]."""

    def __init__(self, run, name):
        self.folder, tensors = f"{run}-{name}", read_tensors(f"{run}/model.safetensors")
        self.w = {tensor: np.frombuffer(data).reshape(shape).copy() for tensor, (shape, data) in tensors.items()}
        with open(f"{run}/config.toml") as file:
            self.config = file.read()
        option = lambda key: self.config.split(f"\n{key} = ")[1].split("\n")[0].strip('"')
        self.heads, self.norm, self.positions = int(option("heads")), option("norm-kind"), option("positions")
        self.group = self.heads // (int(option("kv-heads")) or self.heads)  # heads that share keys and values
        self.has_bias, self.layers = "blocks.0.qkv.bias" in self.w, []
        for l in range(int(option("layers"))):
            qkv, o = self.w.pop(f"blocks.{l}.qkv.weight"), self.w.pop(f"blocks.{l}.proj.weight").T
            qkv = np.column_stack([qkv, self.w.pop(f"blocks.{l}.qkv.bias", np.zeros(len(qkv)))])
            heads, d = (self.heads, self.heads // self.group), len(o) // self.heads
            parts = np.split(qkv.reshape(-1, d, WIDTH + 1), np.cumsum([heads[0], heads[1]]))
            self.layers.append(dict(zip("qkvo", [*parts, o.reshape(-1, d, WIDTH).copy()])))

    def with_heads(self, *by_layer):
        """Makes each layer out of copies of its heads, a list of (head, factor of its output)."""
        for layer, heads in zip(self.layers, by_layer):
            for part in "qkvo":
                layer[part] = layer[part][[head for head, _ in heads]]
            layer["o"] = layer["o"] * np.array([factor for _, factor in heads])[:, None, None]
        self.config = self.config.replace(f"\nheads = {self.heads}\n", f"\nheads = {len(by_layer[0])}\n")
        self.config = self.config.replace("\nd-head = 0\n", f"\nd-head = {self.layers[0]['q'].shape[1]}\n")
        return self

    def study(self, *arguments):
        w = dict(self.w)
        for l, layer in enumerate(self.layers):
            qkv = np.concatenate([layer[part].reshape(-1, WIDTH + 1) for part in "qkv"])
            w[f"blocks.{l}.qkv.weight"], w[f"blocks.{l}.proj.weight"] = qkv[:, :WIDTH], layer["o"].reshape(-1, WIDTH).T
            if self.has_bias:
                w[f"blocks.{l}.qkv.bias"] = qkv[:, WIDTH]
        header, at = {}, 0
        for name, x in w.items():
            header[name] = {"dtype": "F64", "shape": x.shape, "data_offsets": [at, at + x.nbytes]}
            at += x.nbytes
        text = json.dumps(header).encode()
        os.makedirs(self.folder, exist_ok=True)
        with open(f"{self.folder}/config.toml", "w") as file:
            file.write(self.config)
        with open(f"{self.folder}/model.safetensors", "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + b"".join(x.tobytes() for x in w.values()))
        return Study(self.folder, *arguments)

    def readers(self):
        """Yields the name of each norm, and the matrices [..., WIDTH] that read its output."""
        for l, layer in enumerate(self.layers):
            yield f"blocks.{l}.ln1", [layer[part][..., :WIDTH] for part in "qkv"]
            yield f"blocks.{l}.ln2", [self.w[name] for name in (f"blocks.{l}.up.weight", f"blocks.{l}.gate.weight") if name in self.w]
        yield "ln", [self.w["head.weight"]]


# --- changes that keep the function. They return the columns that may change, or None if the model cannot have the change
def heads_rescaled(m, rng):
    for layer in m.layers:
        for shared, other in (("v", "o"), ("k", "q")):
            a = rng.uniform(0.2, 5, (len(layer[shared]), 1, 1))
            layer[shared] *= a
            layer[other] /= np.repeat(a, m.group, 0)
    return ()


def norms_folded(m, rng):
    for norm, matrices in m.readers():
        for x in matrices:
            x *= m.w[norm + ".weight"]
        if norm + ".bias" in m.w:
            m.w[norm + ".bias"] /= m.w[norm + ".weight"]
        if matrices:
            m.w[norm + ".weight"][:] = 1
    return ()


def stream_rotated(m, rng):
    norms_folded(m, rng)
    x = rng.normal(size=(WIDTH, WIDTH))
    x[:, 0] = 1
    Q = np.linalg.qr(x)[0]  # its first column is the direction of the all-ones vector, which a LayerNorm needs
    inner = np.eye(WIDTH)
    inner[1:, 1:] = np.linalg.qr(rng.normal(size=(WIDTH - 1,) * 2))[0]
    R = Q @ inner @ Q.T
    rotated = [x for _, matrices in m.readers() for x in matrices] + [layer["o"] for layer in m.layers]
    rotated += [x for name, x in m.w.items() if name in ("tok.weight", "pos.weight", "ln.bias") or
                name.endswith((".ln1.bias", ".ln2.bias", "proj.bias", "down.bias"))]
    rotated += [x.T for name, x in m.w.items() if name.endswith("down.weight")]
    for x in rotated:
        x[...] = x @ R.T
    return ()


def key_constant(m, rng):
    if m.positions == "rope" or not m.has_bias:
        return None
    for layer in m.layers:
        layer["k"][..., WIDTH] += rng.normal(size=layer["k"].shape[:2])
    return ("S",)


def value_bias_moved(m, rng):
    if not m.has_bias:
        return None
    for l, layer in enumerate(m.layers):
        m.w[f"blocks.{l}.proj.bias"] += np.einsum("hdo,hd->o", layer["o"], np.repeat(layer["v"][..., WIDTH], m.group, 0))
        layer["v"][..., WIDTH] = 0
    return ("v.dL/dv", "dL/dA")  # v includes the bias; it adds a constant to each row of dL/dA, which leaves dL/dS


def ones_added(m, rng):
    for layer in m.layers:
        layer["o"] += rng.normal(size=(*layer["o"].shape[:2], 1))
    return () if m.norm == "layernorm" else None


def logits_shifted(m, rng):
    m.w["head.weight"] += rng.normal(size=WIDTH)
    return ()


def heads_reversed(m, rng):
    for layer in m.layers:
        for part in "qkvo":
            layer[part] = layer[part][::-1]
    return ()


class Study:
    def __init__(self, run, *arguments):
        self.json = json.loads(heed("study", run, "--samples", 16, *arguments, "--json"))
        self.claims = self.json["claims"]
        self.text = " ".join(claim["text"] for claim in self.claims)
        self.rows = {row["component"]: row for row in table_of(self.json, "components")} if self.json["sample"] else {}

    def named(self, role):
        """Returns the heads that one of the first lines names with this role."""
        return {c["components"][0] for c in self.claims if c["components"] and c["role"] == role}

    def tables(self):
        """Yields a name, columns and rows of each table."""
        for section in self.json["sections"]:
            for t in section["tables"]:
                yield section["key"] + t["title"], [column["name"] for column in t["columns"]], t["rows"]


def renamed(name, m):
    """Returns the name of a row of the model whose heads are reversed, in the order of the original model."""
    name = re.sub(r"H(\d+)", lambda h: f"H{m.heads - 1 - int(h[1])}", name)
    # The first of the heads that share keys and values stands for all.
    name = re.sub(r"(:[KV]:L\d+H)(\d+)", lambda h: f"{h[1]}{int(h[2]) // m.group * m.group}", name)
    return ", ".join(sorted(name.split(", ")))


def largest_change(a, b, left_out=(), name_of=lambda name: name):
    """Returns the largest change of a number in all tables, relative to the largest of its column."""
    worst = 0
    theirs = {title: {name_of(row[0]): row for row in rows} for title, _, rows in b.tables()}
    for title, columns, rows in a.tables():
        for k, column in enumerate(columns):
            values = [(row[k], theirs[title][row[0]][k]) for row in rows if isinstance(row[k], float)]
            if values and column not in ("zero", *left_out):
                worst = max(worst, max(abs(x - y) for x, y in values) / max(max(abs(x) for x, _ in values), 1e-9))
    return worst


def check_kept(what, run, study, prompt):
    for change in (heads_rescaled, norms_folded, stream_rotated, key_constant, value_bias_moved, ones_added, logits_shifted):
        copy = Weights(run, change.__name__)
        left_out = change(copy, np.random.default_rng(1))
        if left_out is not None:
            deviation(what, f"3 {change.__name__}", largest_change(study, copy.study(*prompt), left_out), 1e-4)
    copy = Weights(run, "reversed")
    heads_reversed(copy, None)
    other = copy.study(*prompt)
    deviation(what, "2 heads permuted", largest_change(study, other, (), lambda name: renamed(name, copy)), 1e-4)
    for role in ("induction", "previous-token"):
        names = {renamed(name, copy) for name in other.named(role)}
        check(f"{what}: permuted heads are {role}", names == study.named(role), names, study.claims)


def set_effect(run, option, names, key):
    return table_of(Study(run, option, ",".join(names), "--show", "components").json, key)[0]["effect"]


def check_edges(what, run, study, model):
    edges = table_of(study.json, "edges")
    sizes = [abs(edge["effect"]) for edge in edges]
    check(f"{what}: 9 the largest edge is the first of all", sizes == sorted(sizes, reverse=True) and
          f"{len(edges)} of {len(edges)} measured" in str(study.json["sections"]), edges[:2])
    out = next(iter(study.rows))
    effect = set_effect(run, "--edge", [e["edge"] for e in edges if e["edge"].startswith(out + ":")], "edges")
    deviation(what, "4 all edges out", abs(effect - study.rows[out]["effect"]), 1e-9)
    heads = [f"L{len(model.layers) - 1}H{head}" for head in range(model.group)]
    into = [e["edge"] for e in edges if re.search(f":[QKV]:({'|'.join(heads)})$", e["edge"])]
    ablated = study.rows[heads[0]]["effect"] if model.group == 1 else set_effect(run, "--ablate", heads, "sets")
    deviation(what, "4 all edges into Q, K, V", abs(set_effect(run, "--edge", into, "edges") - ablated), 1e-9)


def check_silent(what, run, layer, head):
    """1: a head that writes nothing. 5: a head whose scores are constant."""
    name, model = f"L{layer}H{head}", Weights(run, "silent")
    model.layers[layer]["o"][head] = 0
    silent = model.study()
    check(f"{what} silent: {name} is not named", not any(name in c["components"] for c in silent.claims), silent.claims)
    numbers = [silent.rows[name][key] for key in ("effect", "path", "gradient", "zero", "mean")]
    numbers += [edge["effect"] for edge in table_of(silent.json, "edges") if edge["edge"].startswith(name + ":")]
    numbers += [pair["interaction"] for pair in table_of(silent.json, "components", "Pairs") if name in pair["heads"].split(", ")]
    deviation(what, "1 a silent head", max(map(abs, numbers)), 1e-12)
    model = Weights(run, "constant")
    model.layers[layer]["q"][head] = 0
    of = [edge["effect"] for edge in table_of(model.study().json, "edges") if re.search(f":[QK]:{name}$", edge["edge"])]
    if model.group == 1:
        deviation(what, "5 edges into Q and K if W_Q = 0", max(map(abs, of)), 1e-12)


def check_nothing(what, study):
    check(f"{what}: 10 nothing is named", not any(c["components"] for c in study.claims) and NO_BETTER in study.text, study.text)


def check_roles(what, run, study):
    """11 and 12."""
    for row in table_of(study.json, "components", "What the heads"):
        if row["role"] != "-":
            effect = study.rows[row["head"]]
            deviation(what, "11 imposed role, beside 0.2 |effect|, over its errors",
                      max(0, abs(row["imposed"]) - 0.2 * abs(effect["effect"])) / effect["error"], 2)
    loss = Study(run, "--of", "loss").rows
    for name, row in study.rows.items():
        if abs(row["effect"]) >= max(0.1, 2 * row["error"]):
            check(f"{what}: 12 sign of {name} on the loss", row["effect"] * loss[name]["effect"] < 0, row, loss[name])


def check_planted(what, run, study):
    """Changes of an induction model whose first lines are known."""
    induction, previous = sorted(study.named("induction")), sorted(study.named("previous-token"))
    for heads, layer in ((previous, "0"), (induction, "1")):
        check(f"{what}: heads of layer {layer} are named", heads and all(head[1] == layer for head in heads), study.claims)
        check(f"{what}: without them L falls by 1 nat", set_effect(run, "--ablate", heads, "sets") <= -1, heads)
    first = [(0, 1), (1, 1)]

    split = Weights(run, "split").with_heads(*[[(0, 0.5), (1, 1), (0, 0.5)]] * 2).study()
    for a, b in (("L0H0", "L0H2"), ("L1H0", "L1H2")):
        for key in ("effect", "path", "gradient"):
            check(f"{what} split: equal halves", abs(split.rows[a][key] - split.rows[b][key]) <= 1e-9, a, key)
        check(f"{what} split: both halves have the same role",
              [c["role"] for c in split.claims if c["components"] == [a]] == [c["role"] for c in split.claims if c["components"] == [b]], split.claims)

    twins = Weights(run, "twins").with_heads(first + [(0, 0)] * 2, [(0, 0.5), (0, 0.5), (1, 0.5), (1, 0.5)])
    twins.w["head.weight"] *= 3  # L is saturated, so one half is nearly enough
    twins = twins.study()
    for head in ("L1H0", "L1H1", "L1H2", "L1H3"):
        check(f"{what} twins: {head} is redundant or an induction head", head in twins.named("redundant") | twins.named("induction"), twins.claims)

    head = int(induction[0][3:])
    cancelled = Weights(run, "cancelled").with_heads(first + [(0, 0)] * 2, first + [(head, 1), (head, -1)]).study()
    for name in study.rows:
        for key in ("effect", "path", "gradient"):
            check(f"{what} cancelled: the others do not change", abs(cancelled.rows[name][key] - study.rows[name][key]) <= 1e-9, name, key)
    both = next(pair["interaction"] for pair in table_of(cancelled.json, "components", "Pairs") if pair["heads"] == "L1H2, L1H3")
    both += cancelled.rows["L1H2"]["effect"] + cancelled.rows["L1H3"]["effect"]
    check(f"{what} cancelled: both together have no effect", abs(both) <= 1e-9, both)

    sharp = Weights(run, "sharp")
    for name in induction:
        for part in "qk":
            sharp.layers[1][part][int(name[3:])] *= 4
    sharp = sharp.study()
    check(f"{what} sharp: still named", sharp.named("induction") >= set(induction), sharp.claims)

    noise, rng = Weights(run, "random"), np.random.default_rng(1)
    for part in "qkvo":
        noise.layers[1][part][head] = rng.normal(0, WIDTH ** -0.5, noise.layers[1][part][head].shape)
    noise = noise.study()
    for role in ("induction", "previous-token", "redundant"):
        check(f"{what} random head: 11 not {role}", induction[0] not in noise.named(role), noise.claims)


def study_task(task, seed):
    what, run = f"{task} {seed}", f"{task}{seed}"
    heed("train", task, "--seed", seed, *TASKS[task].split(), *COMMON.split(), run)
    prompt = ["--prompt", "abcdeabc"] if task == "induction" else []
    study = Study(run, *prompt)
    model = Weights(run, "copy")
    check_kept(what, run, study, prompt)
    check_edges(what, run, study, model)
    check_silent(what, run, len(model.layers) - 1, 0)
    check_roles(what, run, study)
    check_nothing(f"{what} step 0", Study(run, "--weights", "checkpoints/000000.safetensors"))
    swapped = Weights(run, "swapped")
    swapped.w["tok.weight"] = np.random.default_rng(seed).permutation(swapped.w["tok.weight"])
    check_nothing(f"{what} swapped", swapped.study())
    if task == "induction":
        check_planted(what, run, study)


with tempfile.TemporaryDirectory() as scratch:
    os.chdir(scratch)
    for model in sys.argv[2:] or ["induction:1"]:
        task, seed = model.split(":")
        study_task(task, int(seed))
    heed("train", "random", "--steps", 60, "--quiet", "--out", "noise")
    check_nothing("random", Study("noise"))
for name, value in sorted(largest.items()):
    print(f"{name:60s} {value:.1e}")
finish()
