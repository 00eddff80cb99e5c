#!/usr/bin/env python3
"""Tests tools/costs: exponents of known curves, error messages, and a short run. Usage: costs_test.py PATH-TO-HEED"""
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import xml.dom.minidom
from pathlib import Path

sys.dont_write_bytecode = True
COSTS = Path(__file__).resolve().parents[2] / "tools/costs"
os.environ["HEED"] = sys.argv[1]
loader = importlib.machinery.SourceFileLoader("costs", str(COSTS))
costs = importlib.util.module_from_spec(importlib.util.spec_from_loader("costs", loader))
loader.exec_module(costs)
sizes = [256, 512, 1024, 4096]
assert abs(costs.exponent(sizes, [3 * n ** 1.5 for n in sizes]) - 1.5) < 1e-9
assert abs(costs.exponent(sizes, [7] * 4)) < 1e-9
# The curve in a panel with few sizes uses the full width, so the last point is at the right edge.
[line] = [x for x in costs.panel("context", [("seconds", [256, 512, 1024], [1, 2, 4])], 50) if "polyline" in x]
assert line.split('"')[1].split() == ["50.0,240.0", "155.0,140.0", "260.0,40.0"], line

with tempfile.TemporaryDirectory() as folder:
    costs.measure = None
    [run] = costs.dry_run([1], folder, 0.1)
    assert run["steps"] >= 0.1 / run["said_seconds_per_step"] and run["seconds_per_step"] > 0, run
    command = [sys.executable, COSTS, "layers", "--most", "2", "--seconds", "0", "--json", "--out", f"{folder}/c.svg"]
    result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
    xml.dom.minidom.parse(f"{folder}/c.svg")
    for out in (folder, f"{folder}/absent/c.svg"):
        refused = subprocess.run([sys.executable, COSTS, "layers", "--out", out], stderr=subprocess.PIPE, text=True)
        assert refused.returncode == 2 and f"--out {out} must be a file" in refused.stderr, refused
    for wrong, error in [(["--seconds", "nan"], "--seconds must be 0 to 60, got nan"), (["--out", "c.png"], "must end in .svg"),
                        (["batch", "d-model", "--most", "32"], "--most 32 leaves fewer than two sizes of d-model")]:
        refused = subprocess.run([sys.executable, COSTS, *wrong], stderr=subprocess.PIPE, text=True)
        assert refused.returncode == 2 and error in refused.stderr, refused
    Path(folder, "tools/peers").mkdir(parents=True)
    for program in ("heed", "tools/peers/heed_blocks"):
        Path(folder, program).symlink_to("/bin/false")
    for heed, error, code in [("/absent", "/absent is missing", 2), (f"{folder}/heed", "did not measure", 1)]:
        refused = subprocess.run([sys.executable, COSTS, "layers", "--out", f"{folder}/c.svg"], stderr=subprocess.PIPE,
                                 text=True, env=os.environ | {"HEED": heed})
        assert refused.returncode == code and error in refused.stderr, refused
memory = result["rows"][-1]
assert memory["cost"] == "bytes" and memory["sizes"] == [1, 2], memory
# Most of the memory belongs to the blocks and is proportional to the number of layers. The memory of embeddings
# and logits does not depend on it, so the exponent is below 1.
assert 0.5 < memory["exponent"] < 1, memory
for row in result["rows"]:
    assert min(row["values"]) > 0, row
# The measured peak memory of a run must be between 0.8 and 1.25 times the prediction of --dry-run. The time per
# step is measured in the same run of `heed train`, not with the program heed_blocks, whose models have another
# vocabulary.
assert [run["batch"] for run in result["dry_run"]] == [1, 2]
for run in result["dry_run"]:
    assert 0.8 < run["peak_bytes"] / run["said_bytes"] < 1.25, run
    assert run["steps"] >= 3, run
    assert run["seconds_per_step"] > 0 and run["said_seconds_per_step"] > 0, run  # times_test.sh compares these times
print("costs: passed")
