"""Pictures, text and page of a study of the stored model show the numbers of its tables.

Usage: sections_test.py HEED
"""

import array
import base64
import json
import os
import re
import tempfile

from heed_program import check, finish, heed, table_of

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
OPTIONS = ["--prompt", "abcab", "--of", "diff:c-d", "--ablate", "L0H1", "--keep", "L0H0,L1H0", "--block", "L1H0[5,3]", "--corrupt", "cbcab", "--format", "svg"]


def close(x, y):
    return len(x) == len(y) and all(abs(a - b) <= 1e-6 * max(1, abs(b)) for a, b in zip(x, y))


os.chdir(tempfile.mkdtemp())
found = json.loads(heed("study", GOLDEN, *OPTIONS, "--out", "out", "--json"))
sections = {s["key"]: s for s in found["sections"]}
check("sections", list(sections) == "components gradient sets edges cells patching".split(), list(sections))
column = lambda key, name, title="": [row[name] for row in table_of(found, key, title)]

svg = {os.path.basename(name): open(name).read() for name in found["files"] if name.endswith(".svg")}
page = open("out/report.html").read()
maps = [json.loads(text) for text in re.findall(r'<script type="application/json">(.*?)</script>', page)]

floor = max(0.01, 0.05 * max(map(abs, column("edges", "effect"))))
counted = {row["edge"]: abs(row["effect"]) for row in table_of(found, "edges")
           if abs(row["effect"]) >= max(floor, 2 * row["error"]) and not row["note"]}
widths = [float(width) for width in re.findall(r'stroke-width="([\d.]+)"[^>]* stroke-linecap', svg["network.svg"])]
expected = sorted(max(1, 9 * effect / max(counted.values())) for effect in counted.values())
check("network: the edges that count", len(widths) == len(expected) and all(
    abs(a - b) < 0.01 for a, b in zip(sorted(widths), expected)), widths, expected)
for name in {end for edge in counted for end in (edge.split(":")[0], edge.split(":")[-1])}:
    check("network: a node", f">{name}<" in svg["network.svg"], name)

rows = table_of(found, "components")
dots = [[float(n) for n in dot] for dot in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="5" fill="#(?!ffffff)', svg["effects.svg"])]
filled = dots[-len(rows):]  # after that of the legend; the white ones are inside of rings
low, high = min(y for _, y in filled), max(y for _, y in filled)
effects = column("components", "effect")
scale = (high - low) / (max(effects) - min(effects))  # pixels, on both axes
check("effects.svg: measured", all(abs(a - b) < 0.02 for a, b in zip(
    sorted(y for _, y in filled), sorted(low + scale * (max(effects) - effect) for effect in effects))), filled)
paths = sorted(column("components", "path"))
check("effects.svg: path gradient", all(abs(x - filled_x0 - scale * (p - paths[0])) < 0.02 for filled_x0 in [min(x for x, _ in filled)]
                                        for x, p in zip(sorted(x for x, _ in filled), paths)), filled)
cells = table_of(found, "cells", "", 1)
check("cells: all visible ones are measured", len(cells) == 4 * 21, len(cells))
check("cells: blocked", table_of(found, "cells", "Blocked")[0]["cells"] == "L1H0[5,3]")


def value_under_pointer(title, row, column):
    """Returns the value that the page shows for a cell of the panel with this title."""
    shown, panel = next((m, i) for m in maps for i, p in enumerate(m["panels"]) if p["title"] == title)
    codes = array.array("h", base64.b64decode(shown["codes"]))
    return codes[(panel * len(shown["rows"]) + row) * len(shown["columns"]) + column] * shown["scale"] / 32767


for direction in ("denoise", "noise"):
    shares = {row["place"]: row["share"] for row in table_of(found, "patching", direction)}
    for place, share in shares.items():
        layer, heads, site, at = re.match(r"L(\d+)(?:H([\d-]+))? (\w+)(?: at (\d+) .*)?$", place).groups()
        shown = value_under_pointer(f"{site}, {direction}", int(layer), int(at or heads.split("-")[0]))
        check(f"patching: {place}", abs(shown - share) < 1e-3, shown, share)
    check(f"patching: {direction} has places", len(shares) > 30)

for picture, texts in {"effects": ["predicted effect"], "network": ["Edges that count"], "patching": ["L: 7.559 clean"]}.items():
    check(f"{picture}.svg", all(text in svg[picture + ".svg"] for text in texts), picture)

# --- the page shows all rows; text has the numbers of the section that --show names
for section in found["sections"]:
    check("page: rows", all(str(row[0]) in page for table in section["tables"] for row in table["rows"]), section["key"])
text = heed("study", GOLDEN, *OPTIONS, "--out", "text", "--show", "components")
for row in rows:
    check("text: components", re.search(rf"(?m)^{row['component']} .*{re.escape(format(row['effect'], '+.3g'))} ", text), text)

# --- over time, the effects are those of a study of the checkpoint, with one donor
heed("train", "induction", "--steps", 4, "--save-every", 2, "--out", "run", "--quiet")
over_time = json.loads(heed("study", "run", "--over-time", "--samples", 8, "--json", "--out", "time"))
for step, value, accuracy in zip(over_time["steps"], over_time["values"], over_time["accuracy"], strict=True):
    one = json.loads(heed("study", "run", "--weights", f"checkpoints/{step:06}.safetensors", "--samples", 8, "--json", "--out", f"at-{step}"))
    check(f"over time: step {step}", close([value, accuracy], [one["sample"][key] for key in ("value", "accuracy")]), value)
finish()
