"""Tests of `heed study --circuits` on trained runs: do the weights alone show the circuit of induction?

Usage: circuits_test.py HEED [SEED ...]. Each seed trains the preset induction. The heads with roles come from the
claims of `heed study`, which cuts heads. For these heads:
- the distance curve of the previous-token head with the largest previous-token score has its maximum at 1
- the largest edges into the keys of induction heads, and the largest path through two heads, begin at a previous-token
  head
- the K-composed map of each previous-token head and each induction head has its row maximum on the diagonal for at
  least 0.9 of the tokens
The script also reads circuits.safetensors. It uses only the standard library.
"""

import json
import os
import sys
import tempfile

from heed_program import check, finish, heed, read_tensors

SEEDS = [int(seed) for seed in sys.argv[2:]] or [1]


def head_name(row):
    return f"L{row['layer']}H{row['head']}"


def check_edges(run, seed, previous, induction):
    """The largest edges into the keys of induction heads come from a previous-token head, and of the paths through two
    heads those from a previous-token head through the keys of an induction head are the largest."""
    for name in induction:
        table = tables_of(run, "--edges-into", f"{name}.K")[f"Edges into {name}.K"]
        print(f"seed {seed}: {table[0][0]} changes L by {table[0][1]:+.2f}; then {table[1][0]} {table[1][1]:+.2f}")
        check(f"seed {seed}: the largest edge into {name}.K", table[0][0].split(":")[0] in previous, table[:3])
    rows = next(t for title, t in tables_of(run, "--path", "all").items() if title.startswith("Paths through one head"))
    heads = [row for row in rows if not row[0].startswith("embed")]
    sender, kind, reader, _ = heads[0][0].split(":")
    print(f"seed {seed}: {heads[0][0]} changes L by {heads[0][1]:+.2f}; then {heads[1][0]} {heads[1][1]:+.2f}")
    check(f"seed {seed}: the largest path through two heads", sender in previous and kind == "K" and reader in induction,
          heads[:3])


def tables_of(run, *options):
    """Returns {title: rows} of the tables of a study; the title ends at its first colon or comma."""
    found = json.loads(heed("study", run, "--json", "--overwrite", *options))
    return {table["title"].split(":")[0].split(",")[0]: table["rows"] for table in found["tables"]}


def check_run(run, seed):
    claims = json.loads(heed("study", run, "--json", "--overwrite"))["claims"]
    heads_of = lambda role: sorted({c["heads"][0] for c in claims if c["role"] == role and len(c["heads"]) == 1})
    previous, induction = heads_of("previous-token"), heads_of("induction")
    check(f"seed {seed}: heads with roles", previous and induction, claims)
    scores = {c["heads"][0]: c["value"] for c in claims if c["quantity"] == "previous_token"}
    strongest = max(previous, key=scores.get)
    found = json.loads(heed("study", run, "--circuits", "--json", "--overwrite"))
    heads = {head_name(row): row for row in found["heads"]}
    for name in previous:
        row = heads[name]
        curve = row["curve"]
        print(f"seed {seed}: {name} previous token {scores[name]:.2f}, curve {curve[0]:.2f} {curve[1]:.2f} {curve[2]:.2f}, "
              f"maximum at {row['curve_maximum']}")
        check(f"seed {seed}: the curve of {name} has its maximum at 1", name != strongest or row["curve_maximum"] == 1, curve)
        check("the maximum is that of the curve", curve.index(max(curve)) == row["curve_maximum"])
    maps = 0
    for row in found["compositions"]:
        if row["kind"] == "K" and row["a"] in previous and row["b"] in induction:
            maps += 1
            print(f"seed {seed}: {row['a']}:K:{row['b']} diagonal {row['matching_diagonal']:.3f}, matching "
                  f"{row['matching']:.3f}, composition above random {row['above_random']:+.4f}")
            check(f"seed {seed}: diagonal of {row['a']}:K:{row['b']}", row["matching_diagonal"] >= 0.9, row)
    check("there is a map for each pair", maps == len(previous) * len(induction))
    check("pairs are sorted by their effects",
          found["compositions"] == sorted(found["compositions"], key=lambda r: -abs(r["effect"])))
    check_edges(run, seed, previous, induction)

    files = {os.path.basename(name): name for name in found["files"]}
    for name in ("circuits.safetensors", "qk.png", "ov.png", "composed.png", "distance_curves.png", "report.html"):
        check(f"the study has {name}", name in files and os.path.getsize(files[name]) > 0, files)
    arrays, _ = read_tensors(files["circuits.safetensors"])
    n = arrays["blocks.0.qk"][0][1]
    classes = arrays["blocks.0.ov"][0][2]
    for row in found["heads"]:
        shape, ov = arrays[f"blocks.{row['layer']}.ov"]
        first = row["head"] * n * classes
        lines = [ov[first + i * classes:first + (i + 1) * classes] for i in range(classes)]
        share = sum(max(line) == line[i] for i, line in enumerate(lines)) / classes
        check(f"ov_diagonal of {head_name(row)} is that of the array", abs(share - row["ov_diagonal"]) < 1e-12)
    far = json.loads(heed("study", run, "--circuits", "--distance", 1, "--json", "--overwrite"))
    at_one, _ = read_tensors({os.path.basename(name): name for name in far["files"]}["circuits.safetensors"])
    for row in found["heads"]:
        shape, qk = at_one[f"blocks.{row['layer']}.qk"]
        first = row["head"] * n * n
        mean = sum(qk[first:first + n * n]) / (n * n)
        scale = max(map(abs, qk))
        check("the curve is the mean of the map at its distance", abs(mean - row["curve"][1]) < 1e-9 * scale, mean, row["curve"][1])


with tempfile.TemporaryDirectory() as folder:
    for seed in SEEDS:
        run = os.path.join(folder, str(seed))
        heed("train", "induction", "--seed", seed, "--quiet", "--out", run)
        check_run(run, seed)
finish()
