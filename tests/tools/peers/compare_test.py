#!/usr/bin/env python3
"""Tests tools/peers. All scripts compile. `compare` runs heed and the peer in turns, divides the peer's time by heed's,
sorts the rounds by the round trip between the cores, writes the rows of one machine, and works with and without
PyTorch. Usage: compare_test.py PATH-TO-HEED"""
import importlib.machinery
import importlib.util
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types
from pathlib import Path

sys.dont_write_bytecode = True
PEERS = Path(__file__).resolve().parents[3] / "tools/peers"
os.environ["HEED"] = sys.argv[1]
sys.path.insert(0, str(PEERS))
for script in [PEERS / "compare", *PEERS.glob("*.py")]:
    compile(script.read_text(), str(script), "exec")
loader = importlib.machinery.SourceFileLoader("compare", str(PEERS / "compare"))
compare = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", loader))
loader.exec_module(compare)


class Fake:
    """Replaces a process that `compare` measures. Block i takes times[i] seconds."""
    log = []

    def __init__(self, name, times):
        self.name, self.threads, self.times = name, 1, times

    def block(self, work, size, seconds):
        if work == "roundtrip":
            return self.times.pop(0)
        if seconds < 1:  # the warm-up, and the block that selects the fastest peer
            return self.times[0]
        Fake.log.append(self.name)
        return self.times[Fake.log.count(self.name) - 1]

    def cpu_seconds(self):
        return 0

    def close(self):
        pass


# On an idle machine, heed takes 1 s and the peer 2 s. In turns 0 and 1, only heed is slow, and in turns 2 and 3 the
# machine is ten times slower. So heed's median comes from a slow turn, and the peer's from a fast turn. The median of
# the ratios is correct. The cores are near in turns 0 and 1, move during turn 2, and are far in turns 3 and 4.
sides = {"heed": Fake("heed", [9, 9, 10, 10, 1]), "torch": Fake("torch", [2, 2, 20, 20, 2])}
real_resident, compare.Resident = compare.Resident, lambda name, threads: sides[name]
how = types.SimpleNamespace(rounds=5, seconds=1, threads=1, peer_threads=[1], variants=["torch"],
                            cores=Fake("cores", [60e-9, 249e-9, 70e-9, 251e-9, 500e-9, 300e-9]))
row = compare.compared("train", "micro", how, {})
assert Fake.log == (["heed", "torch", "torch", "heed"] * 3)[:10], Fake.log
assert row["ratio"] == 2 and row["largest"] == 2 and abs(row["smallest"] - 2 / 9) < 1e-12, row
assert row["heed_ms"] == 9000 and row["peer_ms"] == 2000, row
assert row["classes"] == ("near: 0.22 (0.22 to 0.22), 2 rounds at 160 ns; far and near: 2.00 (2.00 to 2.00), 1 round at "
                          "160 ns; far: 2.00 (2.00 to 2.00), 2 rounds at 400 ns"), row["classes"]
assert [turn["round_trip_ns"] for turn in row["rounds"]][2] == [70, 251], row
compare.Resident = real_resident

# A program that replaces heed and prints known numbers: 5 ms per step, and products whose median ratios differ from the ratios of their median speeds.
STAND_IN = r'''#!/usr/bin/env python3
import json, sys
if "--version" in sys.argv:
    print("heed 0.1.0 (GCC 12, SIMD target AVX2)")
    sys.exit()
if "gemm" in sys.argv:
    row = {"m": 1, "n": 2, "k": 3, "gflops": 100, "ratio": 0.5, "reference_gflops": 100, "reference_ratio": 0.5,
           "openblas_gflops": 100, "openblas_ratio": 2, "mkl_gflops": None, "mkl_ratio": None}
    print(json.dumps({"rows": [row, row | {"m": 4, "ratio": 0.125, "reference_ratio": 0.125}]}))
for line in sys.stdin if "gemm" not in sys.argv else []:
    work, size, seconds = line.split()
    if work == "roundtrip":
        print(6e-8, 0, flush=True)
        continue
    print({"toy": 0.005}[size], 0, flush=True)
'''


def run(*arguments, script=PEERS / "compare"):
    return subprocess.run([sys.executable, script, *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)


with tempfile.TemporaryDirectory() as folder:
    stand_in, stand_in_bench = Path(folder, "heed"), Path(folder, "heed-bench")
    stand_in_blocks = Path(folder, "tools/peers/heed_blocks")
    stand_in_blocks.parent.mkdir(parents=True)
    for program in (stand_in, stand_in_bench, stand_in_blocks):
        program.write_text(STAND_IN)
        program.chmod(0o755)
    os.environ["HEED"] = str(stand_in)
    assert "invalid variant" in run("train", "--variants", "heed").stderr
    for flag, value in [("--rounds", "0"), ("--threads", "0"), ("--peer-threads", "0"), ("--seconds", "nan")]:
        assert f"{flag} must be" in run("train", flag, value).stderr, (flag, value)

    # --write replaces the rows of the same work, size and machine, adds others, and keeps the rest of the file.
    copy = Path(folder, "copy")
    shutil.copytree(PEERS, copy)
    page, quick = copy / "README.md", ["--threads", "2", "--preset", "toy", "--rounds", "1", "--seconds", "0", "--write"]
    head = "A page.\n" + compare.BEGIN + "| work | size | machine | ratio |\n| --- | --- | --- | --- |\n"
    others = ["| threads | toy | another machine | 1.5 |\n", "| gemm, oneDNN | 1 thread | another machine | 0.9 |\n"]
    page.write_text(head + "".join(others) + compare.END + "The end.\n")
    done = run("threads", *quick, script=copy / "compare")
    assert done.returncode == 0, done.stderr
    [_, _, row] = done.stdout.splitlines(keepends=True)
    assert re.match(r"\| threads \| toy \| .* cores?, AVX2, (no )?AMX \| (near|one core): 1.00 \(1.00 to 1.00\), 1 round"
                    r".*\| heed unknown, 2 threads, 5.000 ms \| heed unknown, 1 thread, 5.000 ms \| \d{4}-\d\d-\d\d \|$", row), row
    assert page.read_text() == head + others[0] + row + others[1] + compare.END + "The end.\n", page.read_text()
    page.write_text(page.read_text().replace("1.00", "9.00"))
    assert run("threads", *quick, script=copy / "compare").stdout.endswith(row)
    assert page.read_text() == head + others[0] + row + others[1] + compare.END + "The end.\n", page.read_text()
    assert "threads needs --threads 2 or more" in run("threads", "--threads", "1").stderr

    absent, compare.BENCH = {}, str(stand_in_bench)
    by_library = {t["library"]: t for t in compare.products(1, absent, None)}
    assert list(by_library) == ["oneDNN", "OpenBLAS", "the fastest"] and list(absent) == ["MKL"], by_library
    assert abs(by_library["oneDNN"]["geometric_mean"] - math.sqrt(0.5 * 0.125)) < 1e-12, by_library
    assert by_library["oneDNN"]["smallest_at"] == [4, 2, 3] and by_library["OpenBLAS"]["geometric_mean"] == 1, by_library
os.environ["HEED"] = sys.argv[1]

quick = ["train", "--preset", "micro", "--peer-threads", "1", "--threads", "1", "--rounds", "1", "--seconds", "0.05",
         "--json", "--variants"]
result = json.loads(run(*quick, "torch+fused").stdout)
if result["rows"]:
    assert result["rows"][0]["ratio"] > 0 and result["rows"][0]["peer"] == "torch+fused", result
else:
    assert "No module named" in result["absent"]["train, torch+fused"], result
    print("the comparison with PyTorch is skipped: " + result["absent"]["train, torch+fused"])
print("compare: passed")
