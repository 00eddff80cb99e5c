#!/usr/bin/env python3
"""Compares heed eval and heed score on a text with PyTorch: the same weights must give the same numbers.

    V/bin/python tools/peers/score_parity.py build/release/heed

The script trains a small GPT in float64 with heed on the pages of this repository, loads model.safetensors into the
GPT of gpt_torch.py, and evaluates another text in windows of T tokens that advance by each of several strides, as
Hugging Face's page "Perplexity of fixed-length models" does. It prints one line for each stride: the perplexity, and
the largest relative difference of the loss, the bits per byte, the log-probabilities, entropies and logits, and the
number of different ranks and alternatives. All differences must be at most 1e-9."""
import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import torch
from safetensors.torch import load_file

from gpt_torch import GPT

ROOT = Path(__file__).parents[2]
BOUND, CONTEXT, STRIDES = 1e-9, 32, (1, 7, 32)
TRAIN = (f"--context {CONTEXT} --layers 2 --d-model 32 --heads 4 --dtype float64 --positions learned --mlp --bias "
         "--norm-bias --no-tied --steps 60 --lr 0.01 --eval-every 0 --quiet")


def windows(ids, stride):
    """Yields the start of each window, and the index of its first counted target."""
    for start in range(0, len(ids), stride):
        yield start, 1 if start == 0 else start + CONTEXT - stride + 1
        if start + CONTEXT >= len(ids) - 1:
            return


@torch.no_grad()
def logits_of(model, ids, stride):
    """Returns logits [len(ids) - 1, V]: row t predicts token t + 1, and each is computed in one window."""
    rows = []
    for start, first in windows(ids, stride):
        window = ids[start:min(start + CONTEXT, len(ids) - 1)]
        rows.append(model(window[None])[0, first - 1 - start:])
    return torch.cat(rows)


def difference(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heed", help="path of the program heed")
    heed = Path(parser.parse_args().heed).resolve()
    torch.set_default_dtype(torch.float64)
    text = "".join(page.read_text() for page in sorted(ROOT.glob("nn/*/README.md")))
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        def run(arguments):
            return subprocess.run([heed, *arguments.split()], cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout

        Path(folder, "text.txt").write_text(text)
        other = "".join(c for c in (ROOT / "README.md").read_text() if c in text)[:2000] + "\n"
        Path(folder, "other.txt").write_text(other)
        run("train --text text.txt --out run " + TRAIN)
        vocabulary = sorted(set(text))
        model = GPT(SimpleNamespace(vocab=len(vocabulary), d_model=32, heads=4, layers=2, context=CONTEXT))
        model.load_state_dict(load_file(Path(folder, "run/model.safetensors")), strict=True)
        ids = torch.tensor([vocabulary.index(c) for c in other])
        print("stride  perplexity     loss  bits/byte    log p  entropy   logits  ranks  alternatives")
        for stride in STRIDES:
            options = f"run --text other.txt --stride {stride} --json"
            evaluation = json.loads(run("eval " + options))
            scores = json.loads(run(f"score {options} --save logits.safetensors"))["tokens"][1:]
            logits = logits_of(model, ids, stride)
            log_p = logits.log_softmax(-1)
            own = log_p.gather(1, ids[1:, None])
            total = -own.sum().item()
            others = log_p.scatter(1, ids[1:, None], -math.inf)
            column = {key: torch.tensor([row[key] for row in scores]) for key in ("log_probability", "rank", "entropy")}
            errors = [abs(evaluation["loss"] / (total / len(own)) - 1),
                      abs(evaluation["bits_per_byte"] / (total / math.log(2) / len(other[1:].encode())) - 1),
                      difference(column["log_probability"], own[:, 0]),
                      difference(column["entropy"], -(log_p.exp() * log_p).sum(-1)),
                      difference(load_file(Path(folder, "logits.safetensors"))["logits"], logits)]
            ranks = int((column["rank"] != 1 + (log_p > own).sum(-1)).sum())
            alternatives = sum(row["alternative"] != vocabulary[i] for row, i in zip(scores, others.argmax(-1)))
            print(f"{stride:6}  {evaluation['perplexity']:10.4f} " + " ".join(f"{e:8.1e}" for e in errors)
                  + f"  {ranks:5}  {alternatives:12}")
            failed += not (max(errors) <= BOUND) or ranks > 0 or alternatives > 0
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
