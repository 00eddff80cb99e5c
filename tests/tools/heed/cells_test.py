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

from heed_program import HEED, heed, table_of

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "golden")
COLUMNS = ["cell", "query", "key", "A", "A |v W_O|", "gradient", "effect", "mark"]


def study(*options, model=GOLDEN):
    with tempfile.TemporaryDirectory() as out:
        return heed("study", model, "--prompt", "abcab", "--of", "diff:c-d", "--out", out + "/study", *options)


# --- the golden file
cells = table_of(json.loads(study("--json")), "cells")
if "--write" in sys.argv:
    with open(GOLDEN + "/cells.json", "w") as file:
        rows = [[row[name] for name in COLUMNS] for row in cells[:20]]
        file.write(json.dumps({"columns": COLUMNS, "rows": rows}, indent=1) + "\n")
with open(GOLDEN + "/cells.json") as file:
    golden = json.load(file)
assert golden["columns"] == COLUMNS
largest = max(abs(row[6]) for row in golden["rows"])
by_name = {row["cell"]: [row[name] for name in COLUMNS] for row in cells}
assert len(golden["rows"]) == 20
for row in golden["rows"]:
    assert row[0] in by_name, f"{row[0]} is not among the rows"
    pair = [[float(x[1:]) if str(x).startswith("x") else x for x in r] for r in (row, by_name[row[0]])]  # x3.4
    for k, (x, y) in enumerate(zip(*pair)):
        good = x == y if isinstance(x, str) else abs(x - y) <= (0.05 * x if k == 7 else 1e-3 * max(abs(x), largest))
        assert good, f"{row[0]}, {golden['columns'][k]}: {x}, now {y}"

# --- the guide, with each SIMD target of this machine: its numbers on the stored model, its marks also on a trained one
NUMBER = r"[+-]?\d+\.\d+"
with open(os.path.join(HERE, "../../../tools/heed/study/READ_A_STUDY.md")) as file:
    guide = file.read()
stated = [float(x) for x in re.findall(NUMBER, guide)]
assert len(stated) >= 30, len(stated)
skeleton = lambda line: re.sub(NUMBER, "N", " ".join(line.split()))
shown = [line for line in guide.splitlines() if line.startswith("    ") and not line.strip().startswith("heed ")]
assert len(shown) == 8, shown
examples = re.findall(r"(?m)^\| (?:`(.*?)`|\(no mark\)) \| .* \| (?:the cell )?(L\dH\d(?:\[\d,\d\])?).* \|$", guide)
assert len(examples) == 5, examples


def check_marks(text):
    for mark, name in examples:
        found = re.search(rf"(?m)^{re.escape(name)} .*?(?: ([a-z]+|x[\d.]+))?$", text[text.index("Effects of heads"):])[1]
        same = found == mark or not found and not mark
        assert same or mark.startswith("x") and float(found[1:]) > 3, f"{name} is marked {found}, not {mark}"


for simd in subprocess.run([HEED, "info"], env={"HEED_SIMD": "?"}, capture_output=True, text=True).stderr.split():
    if simd.strip(",") not in ("avx3", "avx2", "neon"):
        continue
    os.environ["HEED_SIMD"] = simd.strip(",")
    text = study("--ablate", "all", "--show", "all")  # even if this machine is busy
    seen = [float(x) for x in re.findall(NUMBER, text)]
    for x in stated:
        assert any(abs(x - y) <= max(0.006, 0.01 * abs(y)) for y in seen), f"{simd} the study does not show {x}"
    lines = {skeleton(line) for line in text.splitlines()}
    for line in shown:
        assert skeleton(line) in lines, f"the guide shows a line that the study does not have: {line}"
    check_marks(text)
    with tempfile.TemporaryDirectory() as folder:
        heed("train", "--quiet", "--eval-every", "400", "--out", folder + "/first")
        text = study("--ablate", "all", "--show", "all", model=folder + "/first")
    check_marks(text)
    for head, role in (("L0H0", "a previous-token"), ("L1H0", "an induction"), ("L1H1", "an induction")):
        assert f"{head} is {role} head" in text, f"{simd} README: {head} is {role} head"
    print(f"{simd} {len(golden['rows'])} rows, {len(stated)} numbers and {len(shown)} lines are as stated")
assert "phantom" not in [row[7] for row in golden["rows"]]

# --- a model that predicts no better than token frequencies has no roles, marks and claims, but a trained model has
for seed in range(1, 6):
    with tempfile.TemporaryDirectory() as folder:
        heed("train", "--mlp", "--steps", "1", "--seed", seed, "--quiet", "--eval-batch", "8", "--out", folder + "/r")
        more = ["--corruption", "value"] if seed == 1 else []
        untrained = json.loads(heed("study", folder + "/r", "--edge", "embed:logits", "--json", *more))
        with open(folder + "/r/study/report.html") as file:
            page = file.read()
        if seed == 1:
            text = heed("study", folder + "/r")
    marks = [head["mark"] for head in untrained["heads"]]
    for table in sum((section["tables"] for section in untrained["sections"]), []):
        names = [column["name"] for column in table["columns"]]
        marks += [row[names.index("mark")] for row in table["rows"]] if "mark" in names else []
    assert len(marks) > 25 and set(marks) == {None}, (seed, set(marks))
    assert not any(claim["components"] for claim in untrained["claims"]), (seed, untrained["claims"])
    assert not re.search(r"is an? \S+ head|attends like", text), text
    for place in (untrained["not_measured"], " ".join(text.split()), page):
        assert "predicts no better than token frequencies" in place, (seed, place[:200])
trained = json.loads(study("--json", "--ablate", "all"))
assert sum(len(claim["numbers"]) for claim in trained["claims"]) >= 8, trained["claims"]
assert all(head["mark"] for head in trained["heads"]) and not trained["not_measured"]

# --- the second guide: each command on the stored model; --over-time needs checkpoints, which it does not have
with open(os.path.join(HERE, "../../../tools/heed/study/FIND_A_CIRCUIT.md")) as file:
    guide = file.read()
commands = [line.split()[3:] for line in guide.splitlines() if line.startswith("    heed study runs/circuit")]
assert len(commands) == 4, commands
shown = ""
for options in commands:
    if "--over-time" in options:
        continue
    with tempfile.TemporaryDirectory() as out:
        shown += heed("study", GOLDEN, "--out", out + "/study", *options)
        for picture in {"--corruption": ["patching_heads.png"], "--show": ["network.png"],
                        "--prompt": ["effects.png"]}[options[0]]:
            assert os.path.getsize(f"{out}/study/{picture}") > 0 and picture in guide, picture
seen = [float(x) for x in re.findall(NUMBER, shown)]
stated = [float(x) for x in re.findall(NUMBER, guide) if x != "0.26"]
assert len(stated) >= 15, len(stated)
for x in stated:
    assert any(abs(x - y) <= max(0.006, 0.01 * abs(y)) for y in seen), f"the guide states {x}, which no study shows"
edges = re.findall(r"(?m)^(L\dH\d:[QKV]:L\dH\d) +([+-][\d.]+)", shown)
assert len(edges) >= 8, edges
for name, effect in edges:
    assert name.startswith("L0H0:K:L1H") or abs(float(effect)) < 0.26, (name, effect)
patterns = [float(x) for x in re.findall(r"(?m)^L\dH\d pattern +(-?[\d.]+)", shown)]
assert patterns and max(map(abs, patterns)) < 0.01, patterns
