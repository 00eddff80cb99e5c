#!/usr/bin/env python3
"""Tests that examples/python/first_hour.ipynb runs, and that the file has the outputs. Numbers may differ.

    PYTHONPATH=build/release/python python3 tests/examples/python_notebook_test.py
"""
import pathlib
import re
import sys
import tempfile

try:
    import nbformat
    from nbclient import NotebookClient
except ImportError:
    sys.exit(print("skipped: nbclient is not installed"))

NOTEBOOK = pathlib.Path(__file__).resolve().parents[2] / "examples/python/first_hour.ipynb"


def texts(notebook):
    """Returns what each output prints, without numbers, or the formats in which it is shown. Leaves out progress."""
    outputs = [o for cell in notebook.cells for o in cell.get("outputs", ())]
    shown = [re.sub("[0-9.]+", "N", o.text) if "text" in o else sorted(o.data) for o in outputs]
    return [text for text in shown if not re.match("Running|Measuring|Drawing", str(text))]


saved = nbformat.read(NOTEBOOK, 4)
run = nbformat.read(NOTEBOOK, 4)
with tempfile.TemporaryDirectory() as folder:
    NotebookClient(run, timeout=600).execute(cwd=folder)  # replaces the outputs; raises the errors of cells
assert len(texts(saved)) == 6 and texts(run) == texts(saved), f"{texts(run)}\n{texts(saved)}"
