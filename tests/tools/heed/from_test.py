"""`heed train --from`: fine-tuning on another text, --steps 0, and `heed info`.

Usage: from_test.py HEED SEED...  The text is tinyshakespeare.txt in HEED_TEST_DATA or ../shared/data; without it, only
the checks on built-in tasks run. It uses only the standard library.
"""

import json
import math
import os
import subprocess
import sys
import tempfile

from heed_program import HEED, check, finish, heed, read_tensors

SEEDS = sys.argv[2:]
DATA = os.environ.get("HEED_TEST_DATA", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../shared/data"))
TEXT = os.path.join(DATA, "tinyshakespeare.txt")
SMALL = ["--layers", 2, "--heads", 4, "--d-model", 64, "--context", 64, "--dropout", 0, "--batch", 16]


def result(run):
    return json.loads(heed("info", run, "--json"))["result"]


def train(*arguments):
    heed("train", *arguments, "--quiet", "--threads", 2)


def above(a, b):
    """Returns how many standard errors of the difference the loss of run `a` is above that of run `b`."""
    a, b = result(a), result(b)
    return (a["loss"] - b["loss"]) / math.hypot(a["standard_error"], b["standard_error"])


def fine_tune(folder, seed):
    """Trains on the first half of the text, then 200 steps on its last part."""
    with open(TEXT) as file:
        text = file.read()
    parts = {"first": text[:500_000], "last": text[-300_000:]}
    for name, part in parts.items():
        with open(f"{folder}/{name}.txt", "w") as file:
            file.write(part)
    source, tuned, fresh, before = (f"{folder}/{name}-{seed}" for name in ("source", "tuned", "fresh", "before"))
    train("--text", f"{folder}/first.txt", *SMALL, "--steps", 600, "--seed", seed, "--out", source)
    train("--from", source, "--text", f"{folder}/last.txt", "--batch", 16, "--steps", 200, "--seed", seed, "--out", tuned)
    train("--from", source, "--text", f"{folder}/last.txt", "--steps", 0, "--out", before)
    train("--text", f"{folder}/last.txt", *SMALL, "--steps", 200, "--seed", seed, "--out", fresh)
    for other in (before, fresh):
        sigmas = above(other, tuned)
        print(f"seed {seed}: {os.path.basename(other)} is {sigmas:.1f} standard errors above {os.path.basename(tuned)}")
        check(f"{other} has a higher loss than {tuned}", sigmas > 4, sigmas)


def tensors_that_differ(a, b):
    """Returns the names of the weights that differ between two runs."""
    a, b = (read_tensors(f"{run}/model.safetensors")[0] for run in (a, b))
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
    source, same, part, more = (f"{folder}/{name}" for name in ("source", "same", "part", "more"))
    train("induction", "--steps", 60, "--out", source)
    train("--from", source, "--steps", 0, "--out", same)
    check("--steps 0 has the source's weights", not tensors_that_differ(source, same))
    check("--steps 0 has the source's loss", result(same)["loss"] == result(source)["loss"])
    train("--from", source, "--steps", 20, "--out", part)
    config = json.loads(heed("info", part, "--json"))["config"]
    check("heed info shows the source", config["from"] == f"{source}/state.safetensors", config)
    train("--config", f"{part}/config.toml", "--out", more)
    check("config.toml repeats the run", not tensors_that_differ(part, more))
    done = subprocess.run([HEED, "train", "recall", "--from", source], capture_output=True, text=True)
    check("another vocabulary", done.returncode == 2 and "does not know" in done.stderr, done.stderr)


with tempfile.TemporaryDirectory() as folder:
    built_in(folder)
    own_text(folder)
    if os.path.exists(TEXT):
        for seed in SEEDS:
            fine_tune(folder, seed)
    else:
        print(f"skipped fine-tuning: {TEXT} is missing")
finish()
