#!/usr/bin/env python3
"""Tests tools/peers. All scripts compile. `speed` runs heed and the peer in turns, divides the peer's time by heed's,
and works with and without PyTorch. Usage: speed_test.py PATH-TO-HEED"""
import importlib.machinery
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import types
from pathlib import Path

sys.dont_write_bytecode = True
PEERS = Path(__file__).resolve().parents[3] / "tools/peers"
os.environ["HEED"] = sys.argv[1]
sys.path.insert(0, str(PEERS))
for script in [PEERS / "speed", *PEERS.glob("*.py")]:
    compile(script.read_text(), str(script), "exec")
loader = importlib.machinery.SourceFileLoader("speed", str(PEERS / "speed"))
speed = importlib.util.module_from_spec(importlib.util.spec_from_loader("speed", loader))
loader.exec_module(speed)


class Fake:
    """Replaces a process that `speed` measures. Block i takes times[i] seconds."""
    log = []

    def __init__(self, name, times):
        self.name, self.threads, self.times = name, 1, times

    def block(self, work, size, seconds):
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
# the ratios is correct.
sides = {"heed": Fake("heed", [9, 9, 10, 10, 1]), "torch": Fake("torch", [2, 2, 20, 20, 2])}
real_resident, speed.Resident = speed.Resident, lambda name, threads: sides[name]
how = types.SimpleNamespace(rounds=5, seconds=1, threads=1, peer_threads=[1], variants=["torch"], matmul="float32")
row = speed.compared("train", "micro", how, {})
assert Fake.log == (["heed", "torch", "torch", "heed"] * 3)[:10], Fake.log
assert row["ratio"] == 2 and row["largest"] == 2 and abs(row["smallest"] - 2 / 9) < 1e-12, row
assert row["heed_ms"] == 9000 and row["peer_ms"] == 2000, row
speed.Resident = real_resident

# A program that replaces heed and prints known numbers: 2 ms per step with products of bfloat16, otherwise 5 ms per
# step, and products whose median ratios differ from the ratios of their median speeds.
STAND_IN = r'''#!/usr/bin/env python3
import json, sys
if "gemm" in sys.argv:
    row = {"m": 1, "n": 2, "k": 3, "gflops": 100, "ratio": 0.5, "reference_gflops": 100, "reference_ratio": 0.5,
           "openblas_gflops": 100, "openblas_ratio": 2, "mkl_gflops": None, "mkl_ratio": None}
    print(json.dumps({"rows": [row, row | {"m": 4, "ratio": 0.125, "reference_ratio": 0.125}]}))
for line in sys.stdin if "gemm" not in sys.argv else []:
    work, size, seconds = line.split()
    print({"toy": 0.005, "toy,matmul=bfloat16": 0.002}[size], 0, flush=True)
'''


def run(*arguments):
    return subprocess.run([sys.executable, PEERS / "speed", *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)


with tempfile.TemporaryDirectory() as folder:
    stand_in = Path(folder, "heed")
    stand_in_blocks = Path(folder, "tools/peers/heed_blocks")
    stand_in_blocks.parent.mkdir(parents=True)
    for program in (stand_in, stand_in_blocks):
        program.write_text(STAND_IN)
        program.chmod(0o755)
    os.environ["HEED"] = str(stand_in)
    in_bfloat16 = ["--matmul", "bfloat16", "--preset", "toy", "--rounds", "2", "--seconds", "0.01"]
    done = run("train", *in_bfloat16, "--variants", "heed", "--json")
    [row] = json.loads(done.stdout)["rows"]
    assert row["heed"] == "heed+bf16" and row["peer"] == "heed" and row["ratio"] == 2.5, row
    assert "works with train only" in run("gemm", *in_bfloat16).stderr
    assert "invalid variant" in run("train", *in_bfloat16, "--variants", "jax").stderr
    assert "invalid variant" in run("train", "--variants", "heed").stderr
    for flag, value in [("--rounds", "0"), ("--threads", "0"), ("--peer-threads", "0"), ("--seconds", "nan")]:
        assert f"{flag} must be" in run("train", flag, value).stderr, (flag, value)
    assert {"torch+bf16+fused", "torch+bf16+compile+fused"} <= {n for v in speed.lines_of("bfloat16").values() for n in v}

    absent, speed.HEED = {}, str(stand_in)
    by_library = {t["library"]: t for t in speed.products(1, absent)}
    assert list(by_library) == ["oneDNN", "OpenBLAS", "the fastest"] and list(absent) == ["MKL"], by_library
    assert abs(by_library["oneDNN"]["geometric_mean"] - math.sqrt(0.5 * 0.125)) < 1e-12, by_library
    assert by_library["oneDNN"]["smallest_at"] == [4, 2, 3] and by_library["OpenBLAS"]["geometric_mean"] == 1, by_library
os.environ["HEED"] = sys.argv[1]

quick = ["train", "--preset", "micro", "--peer-threads", "1", "--threads", "1", "--rounds", "1", "--seconds", "0.05",
         "--json", "--variants"]
[row] = json.loads(run(*quick, "heed", "--matmul", "bfloat16").stdout)["rows"]
assert row["ratio"] > 0 and row["work"] == "train, heed in float32", row
result = json.loads(run(*quick, "torch+fused").stdout)
if result["rows"]:
    assert result["rows"][0]["ratio"] > 0 and result["rows"][0]["peer"] == "torch+fused", result
else:
    assert "No module named" in result["absent"]["train, torch+fused"], result
    print("the comparison with PyTorch is skipped: " + result["absent"]["train, torch+fused"])
print("speed: passed")
