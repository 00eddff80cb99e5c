"""The numbers of the guide tools/heed/study/READ_A_STUDY.md and of README.md, against studies of a stored model.

Usage: guide_test.py HEED. SIMD targets sum in different orders, so values may differ by 1 %.
"""

import os
import re
import tempfile

from heed_program import heed

HERE = os.path.dirname(os.path.abspath(__file__))


def study(*options):
    with tempfile.TemporaryDirectory() as out:
        return heed("study", os.path.join(HERE, "golden"), "--out", out + "/study", *options)


NUMBER = r"[+-]?\d+\.\d+"
with open(os.path.join(HERE, "../../../tools/heed/study/READ_A_STUDY.md")) as file:
    guide = file.read()
with open(os.path.join(HERE, "../../../README.md")) as file:
    readme = re.search(r"## Reading a study(.*?)\n## ", file.read(), re.S)[1]
OTHER = {"0.01", "0.6"}  # numbers of definitions
stated = [float(x) for x in re.findall(NUMBER, guide + readme) if x not in OTHER]
assert len(stated) >= 30, len(stated)
skeleton = lambda line: re.sub(r"[+-]?\d+(\.\d+)?(?=\s|$)", "N", " ".join(line.split()))
commands = [re.sub(r"^heed study runs/read *", "", line).split() for line in
            re.findall(r"heed study runs/read[^`\n]*", guide)]
shown = [line for line in guide.splitlines() if re.match("    +(?!heed )", line)]
assert len(shown) == 11 and len(commands) == 4, (shown, commands)
commands = [["--show", "components,edges"] if "--show" in options else options for options in commands]
text = "".join(study(*options) for options in commands if "--over-time" not in options) + study("--corruption", "key")
seen = [float(x) for x in re.findall(NUMBER, text)]
for x in stated:
    assert any(abs(x - y) <= max(0.006, 0.01 * abs(y)) for y in seen), f"the study does not show {x}"
known = {skeleton(line) for line in text.splitlines()}
for line in shown:
    assert skeleton(line) in known, f"the guide shows a line that the study does not have: {line}"
for head, role in (("L0H0", "previous-token"), ("L1H0", "induction"), ("L1H1", "induction")):
    assert re.search(f"^{head} .* {role} [0-9.]+$", text, re.M), f"{head} {role}"
print(f"{len(stated)} numbers and {len(shown)} lines are as stated")
assert "L0H1 is redundant with L0H0" in text
assert study("--prompt", "abcab").count("\n") <= 37  # 35 with short paths
