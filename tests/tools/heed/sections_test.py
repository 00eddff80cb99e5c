"""Pictures, text and page of a study show the numbers of its tables: the maps, charts and networks of all sections
of the stored model are compared with the tables of the same section.

Usage: sections_test.py HEED
"""

import json
import os
import re
import tempfile

from heed_program import check, finish, heed, table_of

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
OPTIONS = ["--prompt", "abcab", "--of", "diff:c-d", "--ablate", "all", "--keep", "L0H0,L1H0", "--samples", "16", "--cut",
           "L1H0[5,3]", "--corrupt", "cbcab", "--format", "svg"]


def close(x, y):
    return len(x) == len(y) and all(abs(a - b) <= 1e-6 * max(1, abs(b)) for a, b in zip(x, y))


os.chdir(tempfile.mkdtemp())
found = json.loads(heed("study", GOLDEN, *OPTIONS, "--out", "out", "--json"))
sections = {s["key"]: s for s in found["sections"]}
check("sections", list(sections) == "heads sets pairs edges cells patching".split(), list(sections))
column = lambda key, name, title="": [row[name] for row in table_of(found, key, title)]

nodes = [node["name"] for node in sections["edges"]["network"]["nodes"]]
for edge in sections["edges"]["network"]["edges"]:
    row = next(row for row in table_of(found, "edges") if row["cut"] == edge["name"])
    check("network: value", close([edge["value"]], [row["effect"]]), edge)
    check("network: ends", edge["name"].startswith(nodes[edge["from"]] + ":") and nodes[edge["to"]] in edge["name"], edge)
floor = max(0.05, 0.05 * max(map(abs, column("edges", "effect"))))
counted = {row["cut"] for row in table_of(found, "edges") if abs(row["effect"]) >= max(floor, 2 * row["error"])}
check("network: all edges that count", counted == {edge["name"] for edge in sections["edges"]["network"]["edges"]}, counted)

heads, cells = (chart["series"][0] for chart in sections["heads"]["charts"][:2])
for points, rows, effect in ((heads, table_of(found, "heads"), "needed"), (cells, table_of(found, "cells", "", 1), "effect")):
    check("effects.png: measured", close(sorted(points["y"]), sorted(row[effect] for row in rows)), points)
    check("effects.png: predicted", close(sorted(points["x"]), sorted(row["gradient"] for row in rows)), points)
for direction in ("denoise", "noise"):
    shares = {row["place"]: row["share"] for row in table_of(found, "patching", direction)}
    for place, share in shares.items():
        layer, heads, site, at = re.match(r"L(\d+)(?:H([\d-]+))? (\w+)(?: at (\d+) .*)?$", place).groups()
        panel = next(p for m in sections["patching"]["maps"] for p in m["panels"] if p["title"] == f"{site}, {direction}")
        index = at or heads.split("-")[0]
        check(f"patching: {place}", close([panel["values"][int(layer)][int(index)]], [share]), panel)
    check(f"patching: {direction} has places", len(shares) > 30)

svg = {os.path.basename(name): open(name).read() for name in found["files"] if name.endswith(".svg")}
for picture, texts in {"effects": ["predicted by the gradient"], "network": ["Edges that count"], "patching": ["L: 7.559 clean"]}.items():
    check(f"{picture}.svg", all(text in svg[picture + ".svg"] for text in texts), picture)

# --- the page shows all rows; text has the numbers of the section that --show names
page = open("out/report.html").read()
for section in found["sections"]:
    check("page: rows", all(str(row[0]) in page for table in section["tables"] for row in table["rows"]), section["key"])
text = heed("study", GOLDEN, *OPTIONS, "--out", "text", "--show", "heads")
for row in table_of(found, "heads"):
    check("text: heads", re.search(rf"(?m)^{row['component']} .*{re.escape(format(row['needed'], '+.3g'))} ", text), text)

# --- over time, an analysis has the numbers of each checkpoint
heed("train", "induction", "--steps", 4, "--save-every", 2, "--out", "run", "--quiet")
options = ["--prompt", "abcabc", "--of", "diff:a-b", "--cut", "L1H1[6,4]", "--json", "--out"]
over_time = json.loads(heed("study", "run", "--over-time", *options, "time"))
for step in (0, 2, 4):
    one = json.loads(heed("study", "run", "--weights", f"checkpoints/{step:06}.safetensors", *options, f"at-{step}"))
    measured = [row["effect"] for row in table_of(over_time, "cells") if row["step"] == step]
    alone = table_of(one, "cells")[0]["effect"]
    check(f"over time: step {step}", len(measured) == 1 and abs(measured[0] / alone - 1) <= 1e-4, measured, alone)
check("over time: picture", os.path.exists("time/cells_over_time.png"))
finish()
