"""README's prompt on a stored model: its cells against golden/cells.json, and the numbers of the guide
tools/heed/study/READ_A_STUDY.md and of README.md against the studies.

Usage: cells_test.py HEED [--write]. SIMD targets sum in different orders, so values may differ by 0.1 %.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

from heed_program import HEED, heed, table_of

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "golden")
COLUMNS = ["cell", "query", "key", "S", "A", "dL/dA", "dL/dS", "effect", "error", "path", "gradient"]


def study(*options, model=GOLDEN):
    with tempfile.TemporaryDirectory() as out:
        return heed("study", model, "--out", out + "/study", *options)


# --- the golden file
cells = table_of(json.loads(study("--prompt", "abcab", "--of", "diff:c-d", "--json")), "cells")
if "--write" in sys.argv:
    with open(GOLDEN + "/cells.json", "w") as file:
        rows = [[row[name] for name in COLUMNS] for row in cells[:20]]
        file.write(json.dumps({"columns": COLUMNS, "rows": rows}, indent=1) + "\n")
with open(GOLDEN + "/cells.json") as file:
    golden = json.load(file)
assert golden["columns"] == COLUMNS and len(golden["rows"]) == 20
by_name = {row["cell"]: [row[name] for name in COLUMNS] for row in cells}
for k, column in enumerate(COLUMNS):
    for row in golden["rows"]:
        x, y = row[k], by_name[row[0]][k]
        largest = 0 if isinstance(x, str) else max(abs(r[k]) for r in golden["rows"])
        good = x == y if isinstance(x, str) else abs(x - y) <= 2e-3 * max(abs(x), 0.1 * largest)
        assert good, f"{row[0]}, {column}: {x}, now {y}"

# --- the guide and README: their numbers on the stored model, with each SIMD target of this machine
NUMBER = r"[+-]?\d+\.\d+"
with open(os.path.join(HERE, "../../../tools/heed/study/READ_A_STUDY.md")) as file:
    guide = file.read()
with open(os.path.join(HERE, "../../../README.md")) as file:
    readme = re.search(r"## Reading a study(.*?)\n## ", file.read(), re.S)[1]
OTHER = {"0.01", "0.6", "10.3", "2.1", "-9.7", "2.2"}  # numbers of definitions, and of 150 other strings
stated = [float(x) for x in re.findall(NUMBER, guide + readme) if x not in OTHER]
assert len(stated) >= 30, len(stated)
skeleton = lambda line: re.sub(r"[+-]?\d+(\.\d+)?(?=\s|$)", "N", " ".join(line.split()))
lines = [line for line in guide.splitlines() if line.startswith("    ")]
commands = [re.sub(r"^heed study runs/read *", "", line).split() for line in
            re.findall(r"heed study runs/read[^`\n]*", guide)]
shown = [line for line in lines if not line.strip().startswith("heed ")]
assert len(shown) == 11 and len(commands) == 4, (shown, commands)
for simd in subprocess.run([HEED, "info"], env={"HEED_SIMD": "?"}, capture_output=True, text=True).stderr.split():
    if simd.strip(",") not in ("avx3", "avx2", "neon"):
        continue
    os.environ["HEED_SIMD"] = simd.strip(",")
    text = "".join(study(*options) for options in commands if "--over-time" not in options)
    text += study("--corruption", "key") + study("--show", "components")
    seen = [float(x) for x in re.findall(NUMBER, text)]
    for x in stated:
        assert any(abs(x - y) <= max(0.006, 0.01 * abs(y)) for y in seen), f"{simd} the study does not show {x}"
    known = {skeleton(line) for line in text.splitlines()}
    for line in shown:
        assert skeleton(line) in known, f"the guide shows a line that the study does not have: {line}"
    for head, role in (("L0H0", "a previous-token"), ("L1H0", "an induction"), ("L1H1", "an induction")):
        assert f"{head} is {role} head" in text, f"{simd} {head} is {role} head"
    print(f"{simd} {len(golden['rows'])} rows, {len(stated)} numbers and {len(shown)} lines are as stated")
assert "L0H1 is redundant with L0H0" in text
assert study("--prompt", "abcab").count("\n") <= 37  # 35 with short paths

# --- a model that predicts no better than token frequencies has no roles and no components that count
for seed in range(1, 6):
    with tempfile.TemporaryDirectory() as folder:
        heed("train", "--mlp", "--steps", "1", "--seed", seed, "--quiet", "--eval-batch", "8", "--out", folder + "/r")
        untrained = json.loads(heed("study", folder + "/r", "--json"))
        with open(folder + "/r/study/report.html") as file:
            page = file.read()
    assert not any(claim["components"] for claim in untrained["claims"]), (seed, untrained["claims"])
    for place in (untrained["not_measured"], untrained["claims"][0]["text"], page):
        assert "predicts no better than token frequencies" in place, (seed, place[:200])
    assert not re.search(r"is an? \S+ head", page), seed
