"""`heed train --from`: the default text, and `heed info`. source_test.cpp tests the weights.

Usage: from_test.py HEED. It uses only the standard library.
"""

import json
import subprocess
import tempfile

from heed_program import HEED, check, finish, heed, read_tensors

SMALL = ["--layers", 2, "--heads", 4, "--d-model", 64, "--context", 64, "--dropout", 0, "--batch", 16]


def train(*arguments):
    heed("train", *arguments, "--quiet", "--threads", 2)


def tensors_that_differ(a, b):
    """Returns the names of the weights that differ between two runs."""
    a, b = (read_tensors(f"{run}/model.safetensors") for run in (a, b))
    return {name for name in a.keys() | b.keys() if a.get(name) != b.get(name)}


def own_text(folder):
    """A run on a text: its file is the default of runs from its weights, also from a checkpoint."""
    with open(f"{folder}/t.txt", "w") as file:
        file.write("to be or not to be, that is the question\n" * 40)
    source = f"{folder}/own"
    train("--text", f"{folder}/t.txt", *SMALL, "--context", 16, "--steps", 5, "--save-every", 5, "--out", source)
    for name in ("", "/checkpoints/000005.safetensors"):
        plan = heed("train", "--from", source + name, "--print-config")
        check("the task of the source", 'task = "text"' in plan, plan)
    done = subprocess.run([HEED, "train", "--from", source, "--out", source, "--overwrite"], capture_output=True, text=True)
    check("--from inside --out", done.returncode == 2 and "is inside --out" in done.stderr, done.stderr)
    other = f"{folder}/other"
    train("--from", source, "--steps", 2, "--out", other)
    train("--config", f"{other}/config.toml", "--from", other, "--out", f"{folder}/third")
    check("another source than in the file", "step 2" in open(f"{folder}/third/config.toml").read())


def built_in(folder):
    source, part, more = (f"{folder}/{name}" for name in ("source", "part", "more"))
    train("induction", "--steps", 60, "--out", source)
    train("--from", source, "--steps", 20, "--out", part)
    config = json.loads(heed("info", part, "--json"))["config"]
    check("heed info shows the source", config["from"] == f"{source}/state.safetensors", config)
    train("--config", f"{part}/config.toml", "--out", more)
    check("config.toml repeats the run", not tensors_that_differ(part, more))


with tempfile.TemporaryDirectory() as folder:
    built_in(folder)
    own_text(folder)
finish()
