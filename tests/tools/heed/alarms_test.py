"""Alarms of `heed train`: none in the presets and tasks, and the right heads in runs that cannot learn.

Usage: alarms_test.py HEED [--all]. Without --all, it trains a few runs with seed 1; with --all, every preset and task
with its default steps and seeds 1 to 5. It uses only the standard library.
"""

import array
import csv
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

from heed_program import HEED, check, finish

ALL = "--all" in sys.argv
SEEDS = range(1, 6) if ALL else [1]
README = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../README.md")
HEADS = {"L0H0", "L0H1", "L1H0", "L1H1"}


def train(*arguments):
    """Returns the heads of each alarm in the messages: {"stuck": {"L0H1"}, "exploding": set()}."""
    done = subprocess.run([HEED, "train", *map(str, arguments), "--quiet"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"heed train {arguments} failed: {done.stderr}")
    said = re.findall(r"^warning: step \d+: (L\d+H\d+) is (stuck|exploding): ", done.stderr, re.M)
    check(f"{arguments}: one message for each head and alarm", len(said) == len(set(said)), said)
    return {alarm: {head for head, kind in said if kind == alarm} for alarm in ("stuck", "exploding")}


def in_file(run):
    """Returns the same from heads.csv of the run."""
    named = {"stuck": set(), "exploding": set()}
    with open(f"{run}/heads.csv") as file:
        for row in csv.DictReader(file):
            if row["quantity"] in named:
                named[row["quantity"]].add(f"L{row['layer']}H{row['head']}")
    return named


def enlarge_queries(path, head, factor):
    """Multiplies W_Q of a head by a factor, in the state of a run of the preset induction."""
    layer, index = int(head[1]), int(head[3])
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = bytearray(file.read())
    del header["__metadata__"]["heed_checksum"]
    size = 4 * 32 * 64  # bytes of W_Q of one head: float32, d_head 32, d_model 64
    begin = header[f"model.blocks.{layer}.qkv.weight"]["data_offsets"][0] + index * size
    weights = array.array("f", bytes(data[begin:begin + size]))
    data[begin:begin + size] = array.array("f", [factor * x for x in weights]).tobytes()
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def healthy_runs():
    with open(README) as file:
        words = re.findall(r"[a-z]{3,12}", file.read().lower())
    with open("words.txt", "w") as file:
        file.write("\n".join(words) + "\n")
    short = ["--steps", 100 if ALL else 30, "--eval-every", 10]
    for preset in ["micro", "toy", "chargpt"][:3 if ALL else 1]:
        yield ["--preset", preset, "--text", README, *short]
    yield ["modadd", *short]
    yield ["--lines", "words.txt", *short]
    tasks = json.loads(subprocess.check_output([HEED, "tasks", "--json"]))["tasks"]
    for task in [task["task"] for task in tasks] if ALL else ["induction"]:
        yield [task]
    if ALL:  # options that make heads sharp, bias their scores or share their keys, without an alarm
        for options in (["--scale", "none"], ["--positions", "alibi"], ["--kv-heads", 1]):
            yield ["induction", *options]


os.chdir(folder := tempfile.mkdtemp())
for seed in SEEDS:
    for number, arguments in enumerate(healthy_runs()):
        run = f"healthy-{seed}-{number}"
        alarms = train(*arguments, "--seed", seed, "--out", run)
        check(f"{arguments}, seed {seed}: no alarm", not alarms["stuck"] | alarms["exploding"], alarms)
        check(f"{arguments}, seed {seed}: no alarm in heads.csv", in_file(run) == alarms, in_file(run))

    # --- unscaled scores of 256 products and a large learning rate: the scores of all heads explode, and their softmax
    # then gets no gradient
    run = f"unscaled-{seed}"
    alarms = train("--scale", "none", "--d-head", 256, "--lr", 0.03, "--eval-every", 50 if ALL else 20, "--steps", 400 if ALL else 20, "--seed", seed,
                   "--out", run)
    check(f"{run}: all heads explode", alarms["exploding"] == HEADS, alarms)
    check(f"{run}: heads.csv", in_file(run) == alarms, in_file(run))
    if ALL:
        check(f"{run}: heads are stuck", len(alarms["stuck"]) >= 1, alarms)

    # --- after step 1, the queries of one head are made 50 times as large, and only this head has an alarm
    train("--steps", 1, "--seed", seed, "--out", f"start-{seed}")
    for head in sorted(HEADS) if ALL else ["L0H1", "L1H0"]:
        run = f"large-{seed}-{head}"
        shutil.copytree(f"start-{seed}", run)
        enlarge_queries(f"{run}/state.safetensors", head, 50)
        alarms = train("--resume", run, "--steps", 400 if ALL else 50)
        check(f"{run}: this head alone", alarms["stuck"] | alarms["exploding"] == {head}, alarms)
        check(f"{run}: heads.csv", in_file(run) == alarms, in_file(run))
shutil.rmtree(folder)
finish()
