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


HEED = os.path.abspath(sys.argv[1])


def run(*arguments):
    return subprocess.run([HEED, *arguments], capture_output=True, text=True, check=True).stdout


def study(*options, model=GOLDEN):
    with tempfile.TemporaryDirectory() as out:
        return run("study", model, "--prompt", "abcab", "--of", "diff:c-d", "--out", out + "/study", *options)


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

# --- the guide, with each set of vector instructions of this machine: on the stored model, and its marks on a trained one
NUMBER = r"[+-]?\d+\.\d+"
with open(os.path.join(HERE, "../../../tools/heed/study/READ_A_STUDY.md")) as file:
    guide = file.read()
stated = [float(x) for x in re.findall(NUMBER, guide)]
assert len(stated) >= 30, len(stated)
skeleton = lambda line: re.sub(NUMBER, "N", " ".join(line.split()))
shown = [line for line in guide.splitlines() if line.startswith("    ") and not line.strip().startswith("heed ")]
assert len(shown) == 10, shown
examples = re.findall(r"(?m)^\| (?:`(.*?)`|none) \| .* \| (?:the cell )?(L\dH\d(?:\[\d,\d\])?).* \|$", guide)
assert len(examples) == 5, examples


def check_marks(text):
    for mark, name in examples:
        found = re.search(rf"(?m)^{re.escape(name)} .*?(?: ([a-z]+|x[\d.]+))?$", text[text.index("Effects of heads"):])[1]
        same = found == mark or not found and not mark
        assert same or mark.startswith("x") and float(found[1:]) > 3, f"{name} is marked {found}, not {mark}"


for simd in subprocess.run([HEED, "info"], env={"HEED_SIMD": "?"}, capture_output=True, text=True).stderr.split():
    if simd.strip(",") not in ("avx3", "avx2", "neon"):
        continue
    text = study("--simd", simd.strip(","), "--ablate", "all")  # even if this machine is busy
    seen = [float(x) for x in re.findall(NUMBER, text)]
    for x in stated:
        assert any(abs(x - y) <= max(0.006, 0.01 * abs(y)) for y in seen), f"{simd} the study does not show {x}"
    lines = {skeleton(line) for line in text.splitlines()}
    for line in shown:
        assert skeleton(line) in lines, f"the guide shows a line that the study does not have: {line}"
    check_marks(text)
    with tempfile.TemporaryDirectory() as folder:
        run("train", "--quiet", "--eval-every", "400", "--simd", simd.strip(","), "--out", folder + "/first")
        text = study("--simd", simd.strip(","), "--ablate", "all", model=folder + "/first")
    check_marks(text)
    for head, role in (("L0H0", "a previous-token"), ("L1H0", "an induction"), ("L1H1", "an induction")):
        assert f"{head} is {role} head" in text, f"{simd} README: {head} is {role} head"
    print(f"{simd} {len(golden['rows'])} rows, {len(stated)} numbers and {len(shown)} lines are as stated")
assert "phantom" not in [row[7] for row in golden["rows"]]

# --- a model that predicts no better than token frequencies has no roles, marks and claims; the trained one has
for seed in range(1, 6):
    with tempfile.TemporaryDirectory() as folder:
        run("train", "--mlp", "--steps", "1", "--seed", str(seed), "--quiet", "--eval-batch", "8", "--out", folder + "/r")
        out = run("study", folder + "/r", "--edge", "embed:logits", "--json", *(["--corruption", "value"] if seed == 1 else []))
        with open(folder + "/r/study/report.html") as file:
            page = file.read()
        if seed == 1:
            text, roles = run("study", folder + "/r", "--overwrite"), run("study", *[folder + "/r"] * 3)
    untrained = json.loads(out)
    marks = [head["mark"] for head in untrained["heads"]] + re.findall(r'"mark":("[^"]*"|null)', page)
    for table in untrained["tables"]:
        names = [column["name"] for column in table["columns"]]
        marks += [row[names.index("mark")] for row in table["rows"]] if "mark" in names else []
    assert len(marks) > 25 and set(marks) == {None, "null"}, (seed, set(marks))
    assert untrained["claims"] == [], (seed, untrained["claims"])
    assert not re.search(r"is an? \S+ head|attends like", text), text
    for place in (untrained["not_measured"], " ".join(text.split()), page, " ".join(roles.split())):
        assert "predicts no better than token frequencies" in place, (seed, place[:200])
    assert not re.search(r"L\dH\d", roles), roles
trained = json.loads(study("--json", "--ablate", "all"))
assert len(trained["claims"]) >= 8 and all(head["mark"] for head in trained["heads"]) and not trained["not_measured"]

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
        shown += run("study", GOLDEN, "--out", out + "/study", *options)
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
