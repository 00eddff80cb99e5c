#!/usr/bin/env python3
"""Tests that commands on the run directory of a stranger harm no other file, and that they end.

Each hostile run directory is made from a run of two steps, and each command is called with a new copy of it, beside a
directory `victim` of the user and a run `good`.
- No entry of `victim` and `good` changes, and no file of the user in the run directory.
- A command that reads a run changes no entry of it.
- The exit code is 0 to 4, after at most 20 s and with at most 500 MB of memory. If the code is 0, no file of r is a link.
Usage: hostile_test.py PATH-TO-HEED
"""

import concurrent.futures
import json
import multiprocessing
import os
import re
import shutil
import stat
import struct
import subprocess
import tempfile
import threading

import heed_program
from heed_program import HEED, check, finish, heed

TINY = "--layers 1 --heads 1 --d-model 16 --batch 4 --eval-batch 8 --quiet --threads 1".split()
FILES = "config.toml metrics.csv model.safetensors best.safetensors loss.png attention.png".split()
CHECKPOINT, STATE = "checkpoints/000001.safetensors", "state.safetensors"
ALL = [STATE, *FILES, CHECKPOINT]
COMMANDS = {
    "resume": ["train", "--resume", "r", "--steps", "4", "--save-every", "1", "--quiet"],
    "overwrite": ["train", "markov", *TINY, "--steps", "2", "--save-every", "1", "--out", "r", "--overwrite"],
    "import": "import good/model.safetensors --out r --overwrite",
    "from": ["train", "--from", "r", "--steps", "1", *TINY[6:], "--out", "new"],
    "eval": "eval r --sequences 2",
    "eval-best": "eval r --sequences 2 --weights best.safetensors",
    "generate": "generate r --prompt ab --tokens 2",
    "study": "study r --prompt abab --samples 5 --threads 1",
    "over-time": "study r --over-time --samples 5 --threads 1",
    "compare": "compare r good",
    "compare-out": "compare good --out r/study",
    "info": "info r",
    "list": "info .",
    "plot": "plot r",
    "export": "export r --names transformerlens --out x.safetensors",
}
WRITE = {"resume", "overwrite", "import"}


def each(names, make, *arguments):
    """Returns a function that replaces entries of r by make(*arguments, path). {} in an argument is the name."""

    def change():
        for name in names:
            path = f"r/{name}"
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if os.path.isdir(path):
                shutil.rmtree(path)
            elif os.path.lexists(path):
                os.remove(path)
            make(*(a.format(name, here=os.getcwd()) for a in arguments), path)

    return change


def write(text, path):
    with open(path, "w") as file:
        file.write(text)


def sparse(path):
    write("\2\0\0\0\0\0\0\0{}", path)
    os.truncate(path, 1 << 40)


def cut(divisor):
    return lambda: [os.truncate(f"r/{name}", os.path.getsize(f"r/{name}") // divisor) for name in ALL]


def overwritten(name, offset, data):
    """Returns a function that writes bytes into a file."""

    def change():
        with open(f"r/{name}", "r+b") as file:
            file.seek(offset, os.SEEK_SET if offset >= 0 else os.SEEK_END)
            file.write(data)

    return change


def edited(change, *names):
    """Returns a function that calls change(header, data) for safetensors files, which then have no checksum."""

    def call():
        for name in names or (STATE, "model.safetensors"):
            with open(f"r/{name}", "rb") as file:
                header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
                data = bytearray(file.read())
            header["__metadata__"].pop("heed_checksum")
            change(header, data)
            text = json.dumps(header).encode()
            with open(f"r/{name}", "wb") as file:
                file.write(struct.pack("<Q", len(text)) + text + data)

    return call


def nan(*prefixes):
    def change(header, data):
        for name, entry in header.items():
            if name.startswith(prefixes) and entry.get("dtype") == "F32":
                begin, end = entry["data_offsets"]
                data[begin:end] = struct.pack("<f", float("nan")) * ((end - begin) // 4)

    return change


def configured(**options):
    """Returns a function that changes options in both configurations of a file."""

    def change(header, _):
        texts = header["__metadata__"]
        for key, text in texts.items():
            if key in ("config", "recipe"):
                for option, value in options.items():
                    text = re.sub(rf"(?m)^{option.replace('_', '-')} = .*", "", text)
                    text += f"{option.replace('_', '-')} = {value}\n"
                texts[key] = text

    return change


def several(*changes):
    return lambda: [change() for change in changes]


def links(names, target):
    return each(names, os.symlink, target)


PIPE = lambda: os.mkfifo("pipe")
RESULTS = ["study", "study-2", "over-time", "comparison", "loss.svg"]
MANIFEST = "heed study 1\nstate.safetensors\nnotes.txt\n"
DIRECTORIES = {
    "intact": lambda: None,
    "links": links(FILES, "../victim/{}"),
    "absolute links": links([*FILES, STATE], "{here}/victim/{}"),
    "dangling links": links([*FILES, *RESULTS], "../victim/new-{}"),
    "dangling state": links([STATE], "../victim/new-{}"),
    "state of another run": links([STATE], "../victim/{}"),
    "loops": links([*FILES, *RESULTS, CHECKPOINT], "loop"),
    "devices": links(ALL, "/dev/zero"),
    "full devices": links([*FILES, *RESULTS, "checkpoints"], "/dev/full"),
    "link checkpoints": links(["checkpoints"], "../victim"),
    "links in checkpoints": links([f"checkpoints/00000{i}.safetensors" for i in range(5)], "../../victim/{}"),
    "links of results": links(RESULTS, "../victim"),
    "study is the run": several(links(["study"], "."), each(["heed-files.txt"], write, MANIFEST)),
    "manifests": each(["study/heed-files.txt", "heed-files.txt"], write, MANIFEST + "../../victim/notes.txt\n{here}/victim/notes.txt\ncomplete\n"),
    "results are files": each([*RESULTS, "checkpoints"], write, "mine"),
    "temporary links": links([f"{name}.tmp1.0" for name in ALL], "{here}/victim/notes.txt"),
    "temporary directories": each([f"{name}.tmp1.0" for name in ALL], os.makedirs),
    "pipes": each([*FILES, CHECKPOINT], os.mkfifo),
    "pipe as state": each([STATE, "model.safetensors"], os.mkfifo),
    "sparse": each([*FILES, CHECKPOINT], sparse),
    "sparse state": each([STATE], sparse),
    "directories": several(each([*FILES, CHECKPOINT], os.makedirs), each([f"{n}/notes.txt" for n in FILES], write, "mine")),
    "directory as state": each([STATE], os.makedirs),
    "checksums": several(*(overwritten(name, -1, b"\x7f") for name in (STATE, "model.safetensors"))),
    "truncated": cut(2),
    "empty": cut(1 << 30),
    "huge header": overwritten(STATE, 0, b"\xff\xff\xff\xff\xff\xff\0\0"),
    "deep header": each(ALL, write, "\0\0\x10\0\0\0\0\0" + "[" * (1 << 20)),
    "NaN weights": edited(nan("model.", "tok.")),
    "NaN moments": edited(nan("optimizer."), STATE),
    "another state": lambda: shutil.copy("good/state.safetensors", "r"),
    "another config": lambda: shutil.copy("good/config.toml", "r"),
    "huge model": edited(configured(layers=256, d_model=16384)),
    "text is a pipe": several(edited(configured(task='"text"', text='"pipe"')), PIPE),
    "from a pipe": several(edited(configured(**{"from": '"pipe"'}), STATE), PIPE),
    "weights of no step": several(edited(lambda header, _: header["__metadata__"].update(step="-1"), "model.safetensors"),
                                  lambda: os.remove("r/state.safetensors")),
}
CODES = {"intact": [0], "links of results": [0], "study is the run": [0]}  # others: 0 to 4
CODES |= {(directory, "plot"): [4] for directory in CODES}  # r.png is a link
CODES |= {(directory, "compare-out"): [2] for directory in ("links of results", "study is the run")}


def entries(folder, is_users=lambda path: True):
    """Returns what identifies each entry below a directory: kind, permissions, inode, and time and contents of a file."""
    found = {}
    for parent, folders, files in os.walk(folder):
        for path in (os.path.join(parent, name) for name in folders + files):
            s = os.lstat(path)
            if is_users(path):
                found[path] = (s.st_mode, s.st_ino, os.readlink(path) if stat.S_ISLNK(s.st_mode) else "")
            if is_users(path) and stat.S_ISREG(s.st_mode):
                found[path] += (s.st_size, s.st_mtime_ns, open(path, "rb").read(1 << 20))
    return found


def mine(path):
    return os.path.basename(path) in ("notes.txt", "mine.safetensors")


def call(words):
    """Returns the exit code, the output, and the largest memory in MB."""
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen([HEED, *words], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        timer = threading.Timer(20, child.kill)
        timer.start()
        _, status, usage = os.wait4(child.pid, 0)
        timer.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        return child.returncode, out.read().decode(errors="replace"), usage.ru_maxrss / 1024


def attack(directory):
    """Calls all commands on a hostile run directory. Returns the failures, as texts, and the number of checks."""
    failures, checks = [], 0
    for command, line in COMMANDS.items():
        with tempfile.TemporaryDirectory() as here:
            os.chdir(here)
            for name in ("victim", "good"):
                shutil.copytree(f"{BASE}/{name}", name, symlinks=True)
            shutil.copytree(f"{BASE}/run", "r")
            DIRECTORIES[directory]()
            os.symlink("victim/loss.png", "r.png")
            reads = command not in WRITE
            before = entries("victim"), entries("good"), entries("r", (lambda _: True) if reads else mine)
            code, text, megabytes = call(line if isinstance(line, list) else line.split())
            after = entries("victim"), entries("good"), entries("r")
            followed = [name for name in (STATE, *FILES) if not reads and code == 0 and os.path.islink(f"r/{name}")]
            results = {
                "victim": before[0] == after[0],
                "good": before[1] == after[1],
                "files of r": before[2].items() <= after[2].items(),
                f"links {followed}": not followed,
                "exit code": code in CODES.get((directory, command), CODES.get(directory, range(5))),
                "note": directory != "NaN moments" or command != "eval" or "has no checksum" in text,
                f"memory {megabytes:.0f} MB": megabytes < 500 and "a bug in heed" not in text,
            }
            checks += len(results)
            failures += [f"{directory}, {command}: {what} ({code}): {text[-400:]}" for what, good in results.items() if not good]
    os.chdir("/")
    return failures, checks


with tempfile.TemporaryDirectory() as BASE:
    os.chdir(BASE)
    heed("train", "markov", *TINY, "--steps", 2, "--save-every", 1, "--out", "run")
    heed("train", "reverse", *TINY, "--steps", 2, "--save-every", 1, "--out", "good")
    shutil.copytree("good", "victim")
    for name in ("run/notes.txt", "run/checkpoints/mine.safetensors", "victim/notes.txt"):
        write("mine", name)
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("fork")) as pool:
        for failed, done in pool.map(attack, DIRECTORIES):
            for text in failed:
                check(text, False)
            heed_program.checks += done
    os.chdir("/")
finish()
