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

from heed_program import check, finish, heed, read_tensors, table_of

SEEDS = [int(seed) for seed in sys.argv[2:]] or [1]


def study(run, *options):
    return json.loads(heed("study", run, "--json", "--overwrite", *options))


def check_edges(run, seed, previous, induction):
    """The largest edges into the keys of induction heads come from a previous-token head, and of the paths through two
    heads those from a previous-token head through the keys of an induction head are the largest."""
    for name in induction:
        rows = table_of(study(run, "--edges-into", f"{name}.K"), "edges")
        print(f"seed {seed}: {rows[0]['cut']} changes L by {rows[0]['effect']:+.2f}; then {rows[1]['cut']} {rows[1]['effect']:+.2f}")
        check(f"seed {seed}: the largest edge into {name}.K", rows[0]["cut"].split(":")[0] in previous, rows[:3])
    rows = [row for row in table_of(study(run, "--path", "all"), "paths") if not row["cut"].startswith("embed")]
    sender, kind, reader, _ = rows[0]["cut"].split(":")
    print(f"seed {seed}: {rows[0]['cut']} changes L by {rows[0]['effect']:+.2f}; then {rows[1]['cut']} {rows[1]['effect']:+.2f}")
    check(f"seed {seed}: the largest path through two heads", sender in previous and kind == "K" and reader in induction,
          rows[:3])


def check_run(run, seed):
    claims = study(run)["claims"]
    heads_of = lambda role: sorted(c["components"][0] for c in claims if c["role"] == role and len(c["components"]) == 1)
    previous, induction = heads_of("previous-token"), heads_of("induction")
    check(f"seed {seed}: heads with roles", previous and induction, claims)
    scores = {c["components"][0]: c["numbers"]["previous_token"] for c in claims if "previous_token" in c["numbers"]}
    strongest = max(previous, key=scores.get)
    found = study(run, "--circuits")
    circuits = table_of(found, "weights", "Heads, from their weights")
    heads = {row["head"]: row for row in circuits}
    pairs = table_of(found, "weights", "Pairs of heads")
    for name in previous:
        row = heads[name]
        curve = row["curve"]
        print(f"seed {seed}: {name} previous token {scores[name]:.2f}, curve {curve[0]:.2f} {curve[1]:.2f} {curve[2]:.2f}, "
              f"maximum at {row['peak distance']}")
        check(f"seed {seed}: the curve of {name} has its maximum at 1", name != strongest or row["peak distance"] == 1, curve)
        check("the maximum is that of the curve", curve.index(max(curve)) == row["peak distance"])
    maps = 0
    for row in pairs:
        if row["kind"] == "K" and row["a"] in previous and row["b"] in induction:
            maps += 1
            print(f"seed {seed}: {row['a']}:K:{row['b']} diagonal {row['diagonal']:.3f}, matching "
                  f"{row['matching']:.3f}, composition above random {row['above random']:+.4f}")
            check(f"seed {seed}: diagonal of {row['a']}:K:{row['b']}", row["diagonal"] >= 0.9, row)
    check("there is a map for each pair", maps == len(previous) * len(induction))
    check("pairs are sorted by their effects", pairs == sorted(pairs, key=lambda r: -abs(r["effect"])))
    check_edges(run, seed, previous, induction)

    files = {os.path.basename(name): name for name in found["files"]}
    for name in ("circuits.safetensors", "qk.png", "ov.png", "composed.png", "distance_curves.png", "report.html"):
        check(f"the study has {name}", name in files and os.path.getsize(files[name]) > 0, files)
    arrays, _ = read_tensors(files["circuits.safetensors"])
    n = arrays["blocks.0.qk"][0][1]
    classes = arrays["blocks.0.ov"][0][2]
    for row in circuits:
        ov = arrays[f"blocks.{row['layer']}.ov"][1]
        first = int(row["head"][3:]) * n * classes
        lines = [ov[first + i * classes:first + (i + 1) * classes] for i in range(classes)]
        share = sum(max(line) == line[i] for i, line in enumerate(lines)) / classes
        check(f"OV diagonal of {row['head']} is that of the array", abs(share - row["OV diagonal"]) < 1e-12)
    far = study(run, "--circuits", "--distance", 1)
    at_one, _ = read_tensors({os.path.basename(name): name for name in far["files"]}["circuits.safetensors"])
    for row in circuits:
        qk = at_one[f"blocks.{row['layer']}.qk"][1]
        first = int(row["head"][3:]) * n * n
        mean = sum(qk[first:first + n * n]) / (n * n)
        scale = max(map(abs, qk))
        check("the curve is the mean of the map at its distance", abs(mean - row["curve"][1]) < 1e-9 * scale, mean, row["curve"][1])


with tempfile.TemporaryDirectory() as folder:
    for seed in SEEDS:
        run = os.path.join(folder, str(seed))
        heed("train", "induction", "--seed", seed, "--quiet", "--out", run)
        check_run(run, seed)
finish()
