#!/usr/bin/env python3
"""tools/peers: the scripts compile; compare takes turns and divides the peer's time by heed's; and runs,
with PyTorch or without. Usage: compare_test.py PATH-TO-HEED"""
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
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
    """Gets slower with every block of either side: only neighbors compare."""
    log = []

    def __init__(self, name, seconds):
        self.name, self.threads, self.seconds = name, 1, seconds

    def block(self, work, size, seconds):
        if seconds >= 1:  # less is the warm-up
            Fake.log.append(self.name)
        return self.seconds * 2 ** (len(Fake.log) // 2.001)

    def cpu_seconds(self):
        return 0

    def close(self):
        pass


sides = {"heed": Fake("heed", 1.0), "torch": Fake("torch", 3.0)}
compare.Resident = lambda name, threads: sides[name]
how = types.SimpleNamespace(rounds=8, seconds=1, threads=1, peer_threads=[1], variants=["torch"])
row = compare.compared("train", "micro", how, {})
turns = Fake.log[-16:]  # before: the block that chose the peer
assert turns == ["heed", "torch", "torch", "heed"] * 4, turns
assert abs(row["ratio"] - 3) < 1e-12 and row["heed_ms"] > 1e4, row

quick = ["train", "--preset", "micro", "--variants", "torch+fused", "--peer-threads", "1", "--threads", "1",
         "--rounds", "1", "--seconds", "0.05", "--json"]
done = subprocess.run([sys.executable, PEERS / "compare", *quick], stdout=subprocess.PIPE, text=True, check=True)
result = json.loads(done.stdout)
if result["rows"]:
    assert result["rows"][0]["ratio"] > 0 and result["rows"][0]["peer"] == "torch+fused", result
else:
    assert "No module named" in result["absent"]["train, torch+fused"], result
    print("the run beside PyTorch is skipped: " + result["absent"]["train, torch+fused"])
print("compare: passed")
