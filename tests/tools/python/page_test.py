#!/usr/bin/env python3
"""Tests that the pages of tools/python show the output of their programs, and that a test of them works in pytest.

    PYTHONPATH=build/release/python python3 tests/tools/python/page_test.py
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy  # noqa: F401 (the programs need it)
except ImportError:
    sys.exit(print("skipped: python3-numpy is not installed"))

import heed

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(pathlib.Path(heed.__file__).absolute().parents[1])}
ROOT = pathlib.Path(__file__).resolve().parents[3]


def installed(module):
    return subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode == 0


def run(command, folder):
    words = [sys.executable if word == "python" else word for word in command.split()]
    return subprocess.run(words, capture_output=True, text=True, cwd=folder, env=ENVIRONMENT)


def normalized(text):
    """Removes line breaks, and decimals that may depend on the machine."""
    return re.sub(r"(\.[0-9]{6})[0-9]+", r"\1", " ".join(text.split()))


def run_programs(page, folder):
    """Runs the programs of a page in `folder`, and compares their outputs. Returns their texts by name."""
    programs = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", page, re.DOTALL))
    assert len(programs) == page.count("```python")
    for name, text in programs.items():
        (pathlib.Path(folder) / name).write_text(text)
    commands = re.findall(r"^    \$ (.*)\n((?:    [^$].*\n)+)", page, re.MULTILINE)
    assert len(commands) == page.count("    $ ") > 0
    for command, shown in commands:
        if not installed("torch") and any("torch" in text for name, text in programs.items() if name in command):
            print(f"left out, because PyTorch is not installed: {command}")
            continue
        done = run(command, folder)
        expected = ".*".join(map(re.escape, normalized(shown).split("...")))
        assert re.fullmatch(expected, normalized(done.stdout)), f"{command}: {done}"
    return programs


def main():
    with tempfile.TemporaryDirectory() as folder:
        page = (ROOT / "tools/python/README.md").read_text()
        assert len(page.splitlines()) <= 60, "tools/python/README.md has more than 60 lines"
        assert len(run_programs(page, folder)) == 2
        assert len(run_programs((ROOT / "examples/python/README.md").read_text(), folder)) == 1  # of the same run
        page = (ROOT / "tools/python/CHECKS.md").read_text()
        assert len(page.splitlines()) <= 130, "tools/python/CHECKS.md has more than 130 lines"
        assert len(run_programs(page, folder)) == 4
        if not installed("pytest"):
            return print("left out, because pytest is not installed: test_softmax.py")
        step = "python -m pytest test_softmax.py"
        done = run(step, folder)
        assert done.returncode == 1 and "wrong: input 0 at [1]" in done.stdout, f"{step}: {done}"
        softmax = pathlib.Path(folder) / "softmax.py"  # with the right gradient, the test passes
        right = "return softmax(x) * (dy - (softmax(x) * dy).sum())"
        softmax.write_text(softmax.read_text().replace("return softmax(x) * dy", right))
        done = run(step, folder)
        assert done.returncode == 0, f"{step}: {done}"


if __name__ == "__main__":
    main()
