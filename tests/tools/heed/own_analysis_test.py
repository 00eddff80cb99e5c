"""An analysis of a study that only own_analysis.cpp names: its number of each head, its map, its chart and its
sentence are in text, JSON, pictures, the page and over time.

Usage: own_analysis_test.py HEED_OWN_ANALYSIS. Numbers are computed again from arrays.safetensors.
"""

import json
import os
import re
import tempfile

from heed_program import check, finish, heed, read_tensors


def reach(folder):
    """Returns {head: reach} from the attention weights of a study."""
    tensors, _ = read_tensors(f"{folder}/arrays.safetensors")
    numbers = {}
    for name, (shape, A) in tensors.items():
        if found := re.fullmatch(r"blocks\.(\d+)\.attn\.hook_pattern", name):
            _, heads, n, _ = shape
            for h in range(heads):
                numbers[f"L{found[1]}H{h}"] = sum(
                    (i - j) * A[(h * n + i) * n + j] for i in range(n) for j in range(i + 1)) / n
    return numbers


def close(x, y):
    return abs(x - y) <= 1e-5 * max(1, abs(y))


os.chdir(tempfile.mkdtemp())
heed("train", "induction", "--steps", 40, "--save-every", 20, "--out", "run", "--quiet")
one = json.loads(heed("study", "run", "--out", "study", "--json"))
expected = reach("study")
section = next(s for s in one["sections"] if s["key"] == "reach")
rows = dict(section["tables"][0]["rows"])
check("numbers of heads", rows.keys() == expected.keys() and all(close(rows[h], expected[h]) for h in rows), rows)
check("map in JSON", [x for row in section["maps"][0]["panels"][0]["values"] for x in row], section["maps"])
check("chart in JSON", close(section["charts"][0]["series"][0]["y"][0], expected["L0H0"]), section["charts"])
sentence = f"The farthest head reads {max(expected.values()):.3f} tokens back."
check("sentence", section["sentences"] == [sentence], section["sentences"])
for picture in ("reach.png", "reach_map.png"):
    check(picture, any(name.endswith("/" + picture) for name in one["files"]), one["files"])

text = heed("study", "run", "--out", "study", "--overwrite")
check("one line", f"reach: largest {max(expected.values()):.3f}; --show reach" in text, text)
text = heed("study", "run", "--out", "study", "--overwrite", "--show", "reach")
check("section in text", sentence in text and re.search(rf"L0H0 +{expected['L0H0']:.3f}", text), text)
page = open("study/report.html").read()
check("page", sentence in page and '"title":"Reach by layer and head"' in page)

over_time = json.loads(heed("study", "run", "--over-time", "--prompt", "abcabc", "--out", "time", "--json"))
section = next(s for s in over_time["sections"] if s["key"] == "reach")
last = {row[1]: row[2] for row in section["tables"][0]["rows"] if row[0] == 40}
heed("study", "run", "--prompt", "abcabc", "--out", "last", "--weights", "checkpoints/000040.safetensors")
expected = reach("last")
check("over time", all(close(last[h], expected[h]) for h in expected), last, expected)
check("over time, picture", os.path.exists("time/reach_over_time.png"))
finish()
