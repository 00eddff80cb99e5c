#!/usr/bin/env python3
"""Tests that public_bugs.py prints what heed and gradcheck return for some of its cases, and that --check finds a changed
line. The test public_bugs_all requires that heed finds all wrong functions and accepts all right ones.

    python3 tests/tools/peers/public_bugs_test.py build/release
"""
import contextlib
import io
import os
import pathlib
import re
import signal
import sys
import tempfile
import time

sys.dont_write_bytecode = True
PEERS = pathlib.Path(__file__).resolve().parents[3] / "tools/peers"
sys.path.insert(0, str(PEERS))
try:
    import torch
except ImportError:
    sys.exit(print("skipped: PyTorch is not installed"))

import public_bugs
from public_bugs_cases import CASES

torch.set_num_threads(1)  # small tensors: several threads would mostly wait for each other


def run(*arguments):
    """Runs public_bugs.py. Returns what it prints, and its exit status or message."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            public_bugs.main(["--build", sys.argv[1], *arguments])
        except SystemExit as e:
            return printed.getvalue(), e.code
    return printed.getvalue(), 0


EXPECTED = {
    "pytorch-194719": "**passes** | - | found",
    "warp-1732-2": "**passes** | - | found",
    "warp-1350": "**passes** | - | found",
    "liger-262": "found | - | found",
    "pytorch-104040": "**passes** | found | found",
    "llm.c-763": "found | - | found",
    "raven-153": "found | - | found",
    "liger-1253": "**refuses both** | - | found",
    "nanochat-844-3": "not possible | - | found",
    "right-nvalchemi-64": "**raises** | - | passes",
}
COLUMNS = ["--checkers", "gradcheck", "gradgradcheck", "heed"]
out, status = run(*EXPECTED, *COLUMNS)
assert status == 0
for key, words in EXPECTED.items():
    [row] = re.findall(rf"^\| \[{key}\]\(https://github.com/.*", out, re.M)
    assert row.endswith(f" | {words} |"), (row, words)
assert "| wrong, all | 3 of 9 | 1 of 1 | 9 of 9 |" in out, out
with tempfile.TemporaryDirectory() as folder:
    page = pathlib.Path(folder, "page.txt")
    page.write_text(out)
    assert run("llm.c-763", *COLUMNS, "--check", str(page))[1] == 0
    page.write_text(out.replace("found", "passes"))
    changed, status = run("llm.c-763", *COLUMNS, "--check", str(page))
    assert status == 1 and changed.startswith("+| [llm.c-763]"), changed
assert run("x")[1].startswith("unknown keys: x")

# A checker that crashes or takes too long does not end the comparison.
public_bugs.CHECKERS["crash"] = lambda case, wrong: os.kill(os.getpid(), signal.SIGSEGV) if wrong else "accepted"
public_bugs.CHECKERS["sleep"] = lambda case, wrong: time.sleep(60) or "accepted"
assert public_bugs.isolated("crash", CASES[0], [False, True]) == ["accepted", "crashes: exit code -11"]
public_bugs.TIMEOUT = 0.1
assert public_bugs.isolated("sleep", CASES[0], [False, True]) == ["no answer: timeout"] * 2
print("public_bugs: passed")
