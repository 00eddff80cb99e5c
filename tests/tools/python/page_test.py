#!/usr/bin/env python3
"""Tests that tools/python/README.md shows the output of its programs, and that its lines for CI work.

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
PAGE = (pathlib.Path(__file__).resolve().parents[3] / "tools/python/README.md").read_text()


def installed(module):
    return subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode == 0


def run(command, folder):
    words = [sys.executable if word == "python" else word for word in command.split()]
    return subprocess.run(words, capture_output=True, text=True, cwd=folder, env=ENVIRONMENT)


def normalized(text):
    """Removes line breaks, and decimals that may depend on the machine."""
    return re.sub(r"(\.[0-9]{6})[0-9]+", r"\1", " ".join(text.split()))


def main():
    has_torch, has_pytest = installed("torch"), installed("pytest")
    assert len(PAGE.splitlines()) <= 130, "the page has more than 130 lines"
    with tempfile.TemporaryDirectory() as folder:
        programs = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL)
        assert len(programs) == PAGE.count("```python") == 4
        for name, text in programs:
            (pathlib.Path(folder) / name).write_text(text)
        commands = re.findall(r"^    \$ (.*)\n((?:    [^$].*\n)+)", PAGE, re.MULTILINE)
        assert len(commands) == PAGE.count("    $ ") == 4
        for command, shown in commands:
            if not has_torch and any("torch" in text for name, text in programs if name in command):
                print(f"left out, because PyTorch is not installed: {command}")
                continue
            done = run(command, folder)
            expected = ".*".join(map(re.escape, normalized(shown).split("...")))
            assert re.fullmatch(expected, normalized(done.stdout)), f"{command}: {done}"
        steps = re.findall("- run: (python .*)", PAGE)
        assert len(steps) == 2
        for step in steps:
            if "pytest" in step and not has_pytest:
                print(f"left out, because pytest is not installed: {step}")
                continue
            done = run(step, folder)
            assert done.returncode == 1 and "wrong: input 0 at [1]" in done.stdout, f"{step}: {done}"
            # With the right gradient, the step passes.
            right = (pathlib.Path(folder) / "softmax.py").read_text()
            right = right.replace("return softmax(x) * dy", "return softmax(x) * (dy - (softmax(x) * dy).sum())")
            with tempfile.TemporaryDirectory() as other:
                (pathlib.Path(other) / "softmax.py").write_text(right)
                (pathlib.Path(other) / "test_softmax.py").write_text(dict(programs)["test_softmax.py"])
                done = run(step, other)
                assert done.returncode == 0, f"{step}: {done}"


if __name__ == "__main__":
    main()
