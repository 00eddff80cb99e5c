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
OPTIONS = ["--prompt", "abcab", "--of", "diff:c-d", "--ablate", "L0H1", "--keep", "L0H0,L1H0", "--block", "L1H0[5,3]", "--corrupt", "cbcab", "--format", "svg"]


def close(x, y):
    return len(x) == len(y) and all(abs(a - b) <= 1e-6 * max(1, abs(b)) for a, b in zip(x, y))


os.chdir(tempfile.mkdtemp())
found = json.loads(heed("study", GOLDEN, *OPTIONS, "--out", "out", "--json"))
sections = {s["key"]: s for s in found["sections"]}
check("sections", list(sections) == "components gradient sets edges cells patching".split(), list(sections))
column = lambda key, name, title="": [row[name] for row in table_of(found, key, title)]

nodes = [node["name"] for node in sections["edges"]["network"]["nodes"]]
for edge in sections["edges"]["network"]["edges"]:
    row = next(row for row in table_of(found, "edges") if row["edge"] == edge["name"])
    check("network: value", close([edge["value"]], [row["effect"]]), edge)
    check("network: ends", edge["name"].startswith(nodes[edge["from"]] + ":") and nodes[edge["to"]] in edge["name"], edge)
floor = max(0.01, 0.05 * max(map(abs, column("edges", "effect"))))
counted = {row["edge"] for row in table_of(found, "edges")
           if abs(row["effect"]) >= max(floor, 2 * row["error"]) and not row["note"]}
check("network: all edges that count", counted == {edge["name"] for edge in sections["edges"]["network"]["edges"]}, counted)

rows = table_of(found, "components")
for points, predicted in zip(sections["components"]["charts"][0]["series"], ("path", "gradient"), strict=True):
    check("effects.png: measured", close(sorted(points["y"]), sorted(row["effect"] for row in rows)), points)
    check("effects.png: predicted", close(sorted(points["x"]), sorted(row[predicted] for row in rows)), points)
cells = table_of(found, "cells", "", 1)
check("cells: all visible ones are measured", len(cells) == 4 * 21, len(cells))
check("cells: blocked", table_of(found, "cells", "Blocked")[0]["cells"] == "L1H0[5,3]")
for direction in ("denoise", "noise"):
    shares = {row["place"]: row["share"] for row in table_of(found, "patching", direction)}
    for place, share in shares.items():
        layer, heads, site, at = re.match(r"L(\d+)(?:H([\d-]+))? (\w+)(?: at (\d+) .*)?$", place).groups()
        panel = next(p for m in sections["patching"]["maps"] for p in m["panels"] if p["title"] == f"{site}, {direction}")
        index = at or heads.split("-")[0]
        check(f"patching: {place}", close([panel["values"][int(layer)][int(index)]], [share]), panel)
    check(f"patching: {direction} has places", len(shares) > 30)

svg = {os.path.basename(name): open(name).read() for name in found["files"] if name.endswith(".svg")}
for picture, texts in {"effects": ["predicted effect"], "network": ["Edges that count"], "patching": ["L: 7.559 clean"]}.items():
    check(f"{picture}.svg", all(text in svg[picture + ".svg"] for text in texts), picture)

# --- the page shows all rows; text has the numbers of the section that --show names
page = open("out/report.html").read()
for section in found["sections"]:
    check("page: rows", all(str(row[0]) in page for table in section["tables"] for row in table["rows"]), section["key"])
text = heed("study", GOLDEN, *OPTIONS, "--out", "text", "--show", "components")
for row in rows:
    check("text: components", re.search(rf"(?m)^{row['component']} .*{re.escape(format(row['effect'], '+.3g'))} ", text), text)

# --- over time, the effects are those of a study of the checkpoint, with one donor
heed("train", "induction", "--steps", 4, "--save-every", 2, "--out", "run", "--quiet")
over_time = json.loads(heed("study", "run", "--over-time", "--samples", 8, "--json", "--out", "time"))
check("over time: steps", over_time["steps"] == [0, 2, 4] and len(over_time["components"]) == 4)
for step, value, accuracy in zip(over_time["steps"], over_time["values"], over_time["accuracy"], strict=True):
    one = json.loads(heed("study", "run", "--weights", f"checkpoints/{step:06}.safetensors", "--samples", 8, "--json", "--out", f"at-{step}"))
    check(f"over time: step {step}", close([value, accuracy], [one["sample"][key] for key in ("value", "accuracy")]), value)
check("over time: picture", os.path.exists("time/over_time.png"))
finish()
