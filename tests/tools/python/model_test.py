#!/usr/bin/env python3
"""Tests of heed.torch.load and save: random models of heed train, whose logits and losses are compared with heed's.

    PYTHONPATH=build/release/python python3 tests/tools/python/model_test.py build/release/heed [--all] [--seed N]
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import torch
except ImportError:
    sys.exit(print("skipped: PyTorch is not installed"))

import heed.torch
from heed import _safetensors

parser = argparse.ArgumentParser()
parser.add_argument("heed", type=Path)
parser.add_argument("--all", action="store_true", help="60 models instead of 6")
parser.add_argument("--seed", type=int, default=1)
ARGUMENTS, REST = parser.parse_known_args()
BOUNDS = {"float32": 1e-5, "float64": 1e-12}  # of a difference of logits, divided by the largest logit
LETTERS = "abcdefgh"

torch.set_num_threads(1)


def call(*arguments):
    """Returns the output of heed. A refused command raises CalledProcessError, whose stderr has the reason."""
    command = [ARGUMENTS.heed.resolve(), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def random_options(draw):
    """Returns options of heed train for a small model. heed refuses some combinations."""
    yes = lambda key: f"--{key}" if draw.random() < 0.5 else f"--no-{key}"
    options = {"layers": [1, 2, 3], "context": [12, 17], "d-model": [8, 12, 24], "heads": [1, 2, 3, 4],
               "d-head": [0, 0, 2, 5, 6], "d-value": [0, 0, 3, 7], "kv-heads": [0, 0, 1, 2],
               "scale": ["1/sqrt-d-head", "none", "1/d-head", "1/sqrt-d-model", "learned", "0.3"],
               "soft-cap": [0, 0, 0.5, 3], "sink": ["none", "zero", "learned"], "window": [0, 0, 1, 5],
               "positions": ["learned", "sinusoidal", "rope", "alibi", "none"], "norm": ["pre", "pre", "post", "none"],
               "norm-kind": ["layernorm", "rmsnorm"], "residual-scale": ["1", "0.5", "1/sqrt-2-layers"],
               "form": ["packed_qkv", "separate", "packed_heads", "per_head"], "dtype": ["float32", "float64"],
               "dropout": [0, 0.1], "seed": range(1000)}
    words = [word for key, values in options.items() for word in (f"--{key}", str(draw.choice(values)))]
    words += map(yes, ["qk-norm", "bias", "norm-bias", "tied"])
    if draw.random() < 0.5:
        words += [x for key in "qkvo" for x in (f"--{key}-bias", draw.choice(["as-bias", "yes", "no"]))]
    if draw.random() < 0.7:
        words += ["--mlp", "--mlp-ratio", draw.choice(["4", "0.3125", "2.67"]),  # 0.3125: a half neuron for 8 and 24
                  "--mlp-act", draw.choice(["gelu", "gelu-tanh", "relu", "silu", "swiglu"])]
    return words


def equal_bits(a, b):
    return a.keys() == b.keys() and all(
        a[n].dtype == b[n].dtype and a[n].shape == b[n].shape and a[n].tobytes() == b[n].tobytes() for n in a)


class Model(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.text = self.folder / "text.txt"
        self.text.write_text("".join(random.Random(1).choices(LETTERS, k=1500)))

    def train(self, *options, out="a"):
        call("train", *options, *"--steps 2 --batch 4 --eval-batch 4 --eval-every 0 --quiet --overwrite --out".split(),
             self.folder / out)
        return self.folder / out

    def error(self, run, module):
        """Returns the largest difference of the logits of heed and of the module, divided by the largest logit."""
        saved, prompt = self.folder / "logits.safetensors", "abcdabcdhgab"[:11]
        tokens = json.loads(call("score", run, "--prompt", prompt, "--save", saved, "--json"))["tokens"]
        ours = torch.from_numpy(_safetensors.read(saved)[0]["logits"])
        with torch.no_grad():
            theirs = module(torch.tensor([[row["id"] for row in tokens]]))[0]
        self.assertEqual((ours.shape, ours.dtype), (theirs.shape, theirs.dtype))
        return ((ours - theirs).abs().max() / ours.abs().max()).item()

    def compare(self, options):
        """Compares the run in the folder a: logits, all bits after there and back, and logits of random weights."""
        run, draw = self.folder / "a", torch.Generator().manual_seed(1)
        module = heed.torch.load(run)
        errors = [self.error(run, module)]
        back, other = self.folder / "b", self.folder / "c"
        heed.torch.save(module, back)
        self.assertTrue(equal_bits(*(_safetensors.read(x / "model.safetensors")[0] for x in (run, back))))
        self.assertEqual(*(json.loads(call("eval", x, "--json"))["loss"] for x in (run, back)))
        with torch.no_grad():  # biases of 0 and norms of 1 would hide mistakes
            for x in module.parameters():
                x += 0.3 * torch.randn(x.shape, generator=draw, dtype=x.dtype)
        heed.torch.save(module, other)
        errors.append(self.error(other, module))
        self.assertTrue(max(errors) <= BOUNDS[options[options.index("--dtype") + 1]], (errors, options))
        return max(errors)

    def test_random_models(self):
        draw, refused, errors = random.Random(ARGUMENTS.seed), {}, {"float32": [], "float64": []}
        while len(errors["float32"]) + len(errors["float64"]) < (60 if ARGUMENTS.all else 6):
            options = random_options(draw)
            options = draw.choice([["induction", "--task-periods", "3..5"], ["--text", self.text]]) + options
            try:
                self.train(*options)
            except subprocess.CalledProcessError as e:
                self.assertEqual(e.returncode, 2, e.stderr)
                refused[e.stderr.strip()] = refused.get(e.stderr.strip(), 0) + 1
                continue
            errors[options[options.index("--dtype") + 1]].append(self.compare(options))
            for name in "bc":
                for file in (self.folder / name).iterdir():
                    file.unlink()
                (self.folder / name).rmdir()
        for reason, count in sorted(refused.items(), key=lambda item: -item[1]):
            print(f"refused {count} times: {reason}")
        for dtype, values in errors.items():
            print(f"{dtype}: {len(values)} models, largest error {max(values, default=0):.1e}")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *REST])
