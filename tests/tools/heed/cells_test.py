"""README's prompt on a stored model: its table of cells against golden/cells.json, and the numbers of the guides
tools/heed/study/READ_A_STUDY.md and tools/heed/study/FIND_A_CIRCUIT.md against the studies.

Usage: cells_test.py HEED [--write]. SIMD targets sum in different orders, so values may differ by 0.1 %.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "golden")


def study(*options):
    with tempfile.TemporaryDirectory() as out:
        return subprocess.run([os.path.abspath(sys.argv[1]), "study", GOLDEN, "--prompt", "abcab", "--of", "diff:c-d",
                               "--out", out + "/study", *options], capture_output=True, text=True, check=True).stdout


# --- the golden file
cells = next(table for table in json.loads(study("--json"))["tables"] if table["title"].startswith("Cells"))
found = {"columns": [column["name"] for column in cells["columns"]], "rows": cells["rows"][:20]}
if "--write" in sys.argv:
    with open(GOLDEN + "/cells.json", "w") as file:
        file.write(json.dumps(found, indent=1) + "\n")
with open(GOLDEN + "/cells.json") as file:
    golden = json.load(file)
assert found["columns"] == golden["columns"], found["columns"]
largest = max(abs(row[6]) for row in golden["rows"])
by_name = {row[0]: row for row in found["rows"]}
assert len(golden["rows"]) == 20
for row in golden["rows"]:
    assert row[0] in by_name, f"{row[0]} is not among the 20 rows"
    pair = [[float(x[1:]) if str(x).startswith("x") else x for x in r] for r in (row, by_name[row[0]])]  # x3.4
    for k, (x, y) in enumerate(zip(*pair)):
        good = x == y if isinstance(x, str) else abs(x - y) <= (0.05 * x if k == 7 else 1e-3 * max(abs(x), largest))
        assert good, f"{row[0]}, {golden['columns'][k]}: {x}, now {y}"

# --- the guide
NUMBER = r"[+-]?\d+\.\d+"
text = study()
with open(os.path.join(HERE, "../../../tools/heed/study/READ_A_STUDY.md")) as file:
    guide = file.read()
seen = [float(x) for x in re.findall(NUMBER, text)]
stated = [float(x) for x in re.findall(NUMBER, guide)]
assert len(stated) >= 30, len(stated)
for x in stated:
    assert any(abs(x - y) <= max(0.006, 0.01 * abs(y)) for y in seen), f"the guide states {x}, which the study does not show"
skeleton = lambda line: re.sub(NUMBER, "N", " ".join(line.split()))
lines = {skeleton(line) for line in text.splitlines()}
shown = [line for line in guide.splitlines() if line.startswith("    ") and not line.strip().startswith("heed ")]
assert len(shown) == 10, shown
for line in shown:
    assert skeleton(line) in lines, f"the guide shows a line that the study does not have: {line}"
for head, mark in (("L0H1", "redundant"), ("L1H1", "missed"), ("L0H0", "reversed")):
    assert re.search(rf"(?m)^{head} .*{mark}$", text), f"{head} is not marked {mark}"
assert "phantom" not in [row[7] for row in golden["rows"]]
print(f"{len(golden['rows'])} rows, {len(stated)} numbers and {len(shown)} lines are as stated")

# --- the second guide: each command on the stored model; --over-time needs checkpoints, which it does not have
with open(os.path.join(HERE, "../../../tools/heed/study/FIND_A_CIRCUIT.md")) as file:
    guide = file.read()
commands = [line.split()[3:] for line in guide.splitlines() if line.startswith("    heed study runs/first")]
assert len(commands) == 6, commands
shown = ""
for options in commands:
    if "--over-time" in options:
        continue
    with tempfile.TemporaryDirectory() as out:
        shown += subprocess.run([os.path.abspath(sys.argv[1]), "study", GOLDEN, "--out", out + "/study", *options],
                                capture_output=True, text=True, check=True).stdout
        for picture in {"--corruption": ["patching_heads.png"], "--edges-into": ["edges.png"], "--path": ["paths.png"],
                        "--circuits": ["composed.png", "distance_curves.png"], "--prompt": ["effects.png"]}[options[0]]:
            assert os.path.getsize(f"{out}/study/{picture}") > 0 and picture in guide, picture
seen = [float(x) for x in re.findall(NUMBER, shown)]
stated = [float(x) for x in re.findall(NUMBER, guide) if x != "0.26"]
assert len(stated) >= 20, len(stated)
for x in stated:
    assert any(abs(x - y) <= max(0.006, 0.01 * abs(y)) for y in seen), f"the guide states {x}, which no study shows"
paths = re.findall(r"(?m)^(L\dH\d:[QKV]:L\dH\d:logits) +([+-][\d.]+)", shown)
assert len(paths) >= 8, paths
for name, effect in paths:
    assert name.startswith("L0H0:K:L1H") or abs(float(effect)) < 0.26, (name, effect)
patterns = [float(x) for x in re.findall(r"(?m)^L\dH\d pattern +(-?[\d.]+)", shown)]
assert patterns and max(map(abs, patterns)) < 0.01, patterns
