#!/usr/bin/env python3
"""Tests every input of every command: a path that cannot be read is an error that states the reason.

The list of inputs is read from the help of the commands: each option or argument whose value is a file or a
directory. For each of them, the input is replaced by a link to itself, a pipe, a file of /proc and a file of
100 GB, and system calls on the input fail (failing_calls.cpp): stat with EACCES, as below a directory without
permission, and open and read with EIO, read also in the middle of a file.
- heed ends with 4, or 2 for an input of a wrong kind, and prints one line with the path and the reason.
- The reason is never that the input does not exist or is not a run directory.
- No text of std::filesystem is printed, and no control character.
Usage: inputs_test.py PATH-TO-HEED PATH-TO-failing_calls.so
"""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

from heed_program import HEED, check, finish, heed

CALLS = os.path.abspath(sys.argv[2])
UNITS = {"FILE", "DIR", "PATH", "RUN|FILE", "A,B,...|FILE", "RUN"}
OUTPUTS = {"out", "path"}
TINY = "--layers 1 --heads 1 --d-model 16 --batch 4 --eval-batch 8 --steps 2 --threads 1 --quiet".split()
PROMPT = ["--prompt", "abcdefghijklmnop"]
EVALUATE = ["--sequences", "2"]
# For each input: its path, and the arguments, in which {} is the path.
RUNS = {"eval run": EVALUATE, "generate run": PROMPT + ["--tokens", "2"],
        "study run": ["--sample", "2", "--out", "out"], "gradcheck run": [], "info run": [],
        "export run": ["--names", "transformerlens", "--out", "e.safetensors"], "compare runs": ["--out", "out"]}
CASES = {name: ("in/run", ["--" + name.split()[1], "{}"] + rest) for name, rest in RUNS.items()}
CASES |= {
    "train resume": ("in/run", ["--resume", "{}", "--steps", "3"]),
    "train from": ("in/run", ["--from", "{}", "--steps", "1", "--print-config"]),
    "train text": ("in/text.txt", ["--text", "{}", "--context", "8", *TINY, "--out", "out"]),
    "train lines": ("in/text.txt", ["--lines", "{}", *TINY, "--out", "out"]),
    "eval text": ("in/text.txt", ["text-run", "--text", "{}", *EVALUATE]),
    "eval lines": ("in/text.txt", ["text-run", "--lines", "{}", *EVALUATE]),
    "import file": ("in/run/model.safetensors", ["{}", "--out", "out"]),
    "import like": ("in/run", ["run/model.safetensors", "--like", "{}", "--out", "out"]),
    "study pairs": ("in/pairs.txt", ["run", "--pairs", "{}", "--out", "out"]),
    "plot file": ("in/m.safetensors", ["{}", "--out", "m.png"]),
    "plot x-labels": ("in/labels.txt", ["m.safetensors", "--x-labels", "{}"]),
    "plot y-labels": ("in/labels.txt", ["m.safetensors", "--y-labels", "{}"]),
}
# Inputs of several commands: the option --config, and --weights, which names a file in the run directory.
CONFIGURED = {"train": ["--print-config"], "import": ["run/model.safetensors", "--out", "out"]}
# These may succeed: --resume writes again the copies in a run that it cannot read.
MAY_PASS = {("train resume", "open"), ("train resume", "read")}


def inputs():
    """Returns all inputs of the program as {"COMMAND KEY"}."""
    found = set()
    for text in re.split(r"^heed (?=[a-z]+: )", heed("--help", "all"), flags=re.M)[1:]:
        command = text.split(":")[0]
        for key, unit in re.findall(r"^  (?:[A-Z.]+, )?--([a-z-]+) (\S+)", text, re.M):
            if unit in UNITS and key not in OUTPUTS:
                found.add(f"{command} {key}")
    return found


def prepare():
    os.mkdir("in")
    heed("train", "reverse", *TINY, "--out", "in/run")
    shutil.copytree("in/run", "run")
    with open("in/text.txt", "w") as file:
        file.writelines(f"{i} fox\n" for i in range(3000))
    shutil.copy("in/text.txt", "text.txt")
    heed("train", "--text", "text.txt", "--context", "16", *TINY, "--out", "text-run")
    pairs = {"pairs.txt": "abcdefghijklmnop\tbacdefghijklmnop\n" * 2500, "labels.txt": "a\nb\n",
             "config.toml": ""}
    for name, text in pairs.items():
        with open("in/" + name, "w") as file:
            file.write(text)
    with open("in/m.safetensors", "wb") as file:
        header = json.dumps({"m": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}).encode()
        file.write(struct.pack("<Q", len(header)) + header + struct.pack("<4f", 1, 2, 3, 4))
    shutil.copy("in/m.safetensors", "m.safetensors")
    os.symlink("loop.safetensors", "loop.safetensors")
    os.mkfifo("fifo.safetensors")
    with open("sparse.safetensors", "w") as file:
        file.truncate(100_000_000_000)
    shutil.copytree("in", "kept")


def call(name, path, arguments, **environment):
    shutil.rmtree("in")
    shutil.copytree("kept", "in")
    shutil.rmtree("out", ignore_errors=True)
    line = [HEED, name.split()[0]] + [a.replace("{}", path) for a in arguments]
    try:
        done = subprocess.run(line, capture_output=True, stdin=subprocess.DEVNULL, timeout=60,
                              env=dict(os.environ, **environment))
    except subprocess.TimeoutExpired:
        check(f"{name} with {path} ends", False)
        return 0, ""
    text = " ".join((done.stdout + done.stderr).decode().split())  # tables wrap their lines
    check(f"{name} {path} {environment}: messages without control characters and raw exceptions",
          not re.search("[\x00-\x08\x0b-\x1f\x7f]|filesystem error|std::|bug in heed", done.stderr.decode()) and (done.returncode in (0, 1) or done.stderr.count(b"\n") == 1), text)
    return done.returncode, text


def hostile(name, path, arguments):
    for other, reason in (("loop.safetensors", "Too many levels"), ("fifo.safetensors", ""), ("/proc/self/status", ""), ("sparse.safetensors", "")):
        code, text = call(name, other, arguments)
        check(f"{name} with {other} is an error", code in (2, 4), code, text)
        check(f"{name} with {other}: reason", reason in text and other in text, text)


def failing(name, path, arguments):
    for function, error, first, reason in (("stat", "EACCES", 1, "Permission denied"),
                                           ("open", "EIO", 1, "Input/output error"),
                                           ("read", "EIO", 1, "Input/output error"),
                                           ("read", "EIO", 3, "Input/output error")):
        if os.path.exists("failed"):
            os.remove("failed")
        code, text = call(name, path, arguments, LD_PRELOAD=CALLS, HEED_FAIL_AT=str(first), HEED_FAIL_ON=function,
                          HEED_FAIL_WITH=error, HEED_FAILED=os.path.abspath("failed"),
                          HEED_FAIL_BELOW=os.path.abspath(path if os.path.isdir(path) else os.path.dirname(path)))
        if not os.path.exists("failed"):
            check(f"{name}: calls {function}", first > 1 or function == "stat")
            continue
        what = f"{name}, {function} {first} fails"
        # A file is opened, and most commands do not call stat for it.
        if code == 0 and ((name, function) in MAY_PASS or (function == "stat" and not os.path.isdir(path))):
            continue
        check(f"{what}: code", code == 4, code, text)
        check(f"{what}: reason", reason in text, text)
        check(f"{what}: no guess", not re.search("not a run directory|found no run|does not exist", text), text)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    prepare()
    for name in sorted(inputs()):
        command, key = name.split()
        if key == "config":
            with open("kept/config.toml", "w") as file:
                file.write(f"[{command}]\n")
            case = ("in/config.toml", CONFIGURED[command] + ["--config", "{}"])
        elif key == "weights":
            case = ("in/run", CASES[f"{command} run"][1] + ["--weights", "model.safetensors"])
        else:
            case = CASES.get(name)
        check(f"this test has arguments for the input {name}", case)
        if not case:
            continue
        if key == "weights":
            failing(name, *case)
            continue
        code, text = call(name, *case)
        check(f"{name}: the arguments are right", code in (0, 1), code, text)
        hostile(name, *case)
        failing(name, *case)
finish()
