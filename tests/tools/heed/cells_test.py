"""The table of cells of README's prompt, for a stored model, against golden/cells.json.

Usage: cells_test.py HEED [--write]. SIMD targets sum in different orders, so values may differ by 0.1 %.
"""

import json
import os
import subprocess
import sys
import tempfile

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")

with tempfile.TemporaryDirectory() as out:
    done = subprocess.run([os.path.abspath(sys.argv[1]), "study", GOLDEN, "--prompt", "abcab", "--of", "diff:c-d",
                           "--json", "--out", out + "/study"], capture_output=True, text=True, check=True)
tables = json.loads(done.stdout)["tables"]
cells = next(table for table in tables if table["title"].startswith("Cells"))
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
    same = by_name.get(row[0])
    assert same, f"{row[0]} is not among the 20 rows"
    row, same = [[float(x[1:]) if str(x).startswith("x") else x for x in r] for r in (row, same)]  # x3.4
    for k, (x, y) in enumerate(zip(row, same)):
        good = x == y if isinstance(x, str) else abs(x - y) <= (0.05 * x if k == 7 else 1e-3 * max(abs(x), largest))
        assert good, f"{row[0]}, {golden['columns'][k]}: {x}, now {y}"
print(f"{len(golden['rows'])} rows are those of cells.json")
