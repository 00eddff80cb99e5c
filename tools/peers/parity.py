#!/usr/bin/env python3
"""Compares heed with PyTorch: models with equal weights, exchanged as safetensors, must give equal numbers.

For each case, the script writes a state_dict and inputs and runs heed_parity. That program loads the files, runs
forward and backward, and takes 20 AdamW steps with clipped gradients (hyperparameters: presets.py). The script
does the same in PyTorch and prints one line. Most columns are errors. The error of a tensor is its largest
difference, divided by its largest entry in PyTorch. A column is the largest error of these tensors:
  exchange   the state_dict that heed saves after loading PyTorch's; it must have the same bits
  output     output of the forward pass (logits)
  weights    attention weights of each head
  gradients  gradients of parameters and float inputs
  losses     losses of the 20 steps
  norms      gradient norms of the 20 steps, before clipping
  trained    parameters after the steps
  back       output of a PyTorch model that loaded heed's trained state_dict with strict=True
  clipped    number of steps whose gradients were clipped
In cases with a bias, the key bias causes the error "trained". Its gradient is 0 except for rounding errors, which
differ between heed and PyTorch. AdamW divides them by little more than eps = 1e-8.
In float64, heed and PyTorch must agree within 1e-10. The cases in float32 test the exchange, and their outputs
must agree within 1e-5. No other part of heed needs PyTorch."""
import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

try:
    import torch
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(f"parity: {error}; python3 -m venv V && V/bin/pip install -r tools/peers/requirements.txt, "
          "then V/bin/python tools/peers/parity.py", file=sys.stderr)
    sys.exit(2)

from gpt_torch import GPT, make_optimizer
from presets import MAX_NORM, PRESETS

ROOT = Path(__file__).resolve().parents[2]
STEPS = 20
TOLERANCES = {
    torch.float64: {"exchange": 0} | dict.fromkeys(
        ["output", "weights", "gradients", "losses", "norms", "trained", "back"], 1e-10),
    torch.float32: {"exchange": 0, "output": 1e-5, "back": 1e-5},
}


@dataclass
class Case:
    name: str
    dtype: torch.dtype
    make: Callable[[], torch.nn.Module]
    inputs: dict[str, torch.Tensor]  # each is [STEPS, ...]
    options: dict[str, object]       # describes the model for heed_parity
    run: Callable                    # (model, one step's inputs) -> output, loss
    weights: Callable | None = None  # (model, one step's inputs) -> [B, H, Tq, Tk]


def attention_case(name, dtype=torch.float64, *, causal=False, cross=False, padded=False, bias=True):
    B, Tq, Tk, d, heads = 3, 7, 9 if cross else 7, 16, 4

    def make():
        return torch.nn.MultiheadAttention(d, heads, bias=bias, batch_first=True, dtype=dtype)

    inputs = {"query": torch.randn(STEPS, B, Tq, d, dtype=dtype),
              "target": torch.randn(STEPS, B, Tq, d, dtype=dtype)}
    if cross:
        inputs["memory"] = torch.randn(STEPS, B, Tk, d, dtype=dtype)
    if padded:
        inputs["lengths"] = torch.randint(1, Tk + 1, (STEPS, B))

    def attend(m, x, **how):
        memory = x.get("memory", x["query"])
        if causal:  # the last query can attend to the last key, as in heed's mask
            how["attn_mask"] = torch.ones(Tq, Tk, dtype=torch.bool).triu(1 + Tk - Tq)
        if padded:
            how["key_padding_mask"] = torch.arange(Tk) >= x["lengths"][:, None]
        return m(x["query"], memory, memory, **how)

    def run(m, x):
        output = attend(m, x, need_weights=False)[0]
        return output, ((output - x["target"]) ** 2).mean()

    def weights(m, x):
        return attend(m, x, need_weights=True, average_attn_weights=False)[1]

    options = dict(heads=heads, causal=causal, bias=bias)
    return Case(f"MHA: {name}", dtype, make, inputs, options, run, weights)


def gpt_case(name, dtype=torch.float64):
    preset = PRESETS[name]

    def run(m, x):
        logits = m(x["ids"])
        return logits, torch.nn.functional.cross_entropy(logits.flatten(0, 1),
                                                         x["target"].flatten())

    shape = (STEPS, preset.batch, preset.context)
    inputs = {key: torch.randint(preset.vocab, shape) for key in ("ids", "target")}
    options = dict(vocab=preset.vocab, d_model=preset.d_model, heads=preset.heads,
                   layers=preset.layers)
    return Case(f"GPT: {name}", dtype, lambda: GPT(preset).to(dtype), inputs, options, run)


def cases():
    yield attention_case("self, causal", causal=True)
    yield attention_case("self, causal, no bias", causal=True, bias=False)
    yield attention_case("self, padded keys", padded=True)
    yield attention_case("self, causal, padded keys", causal=True, padded=True)
    yield attention_case("cross", cross=True)
    yield attention_case("cross, causal, padded keys", cross=True, causal=True, padded=True)
    yield gpt_case("micro")
    yield gpt_case("toy")
    yield attention_case("self, causal", torch.float32, causal=True)
    yield gpt_case("micro", torch.float32)
    yield gpt_case("toy", torch.float32)


def dtype_name(case):
    return str(case.dtype).removeprefix("torch.")


def at_step(case, step, leaves=False):
    inputs = {name: x[step].clone() for name, x in case.inputs.items()}
    if leaves:
        for name in ("query", "memory"):
            if name in inputs:
                inputs[name].requires_grad_()
    return inputs


def train(case, model):
    """Returns everything that heed_parity writes into results.safetensors."""
    results, losses, norms = {}, [], []
    optimizer = make_optimizer(model)
    for step in range(STEPS):
        inputs = at_step(case, step, leaves=True)
        output, loss = case.run(model, inputs)
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            results["output"] = output.detach()
            for name, x in [*model.named_parameters(), *inputs.items()]:
                if x.requires_grad:
                    results["grad." + name] = x.grad.clone()
            if case.weights:
                results["pattern"] = case.weights(model, inputs).detach()
        losses.append(loss.item())
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM).item())
        optimizer.step()
    results["losses"] = torch.tensor(losses, dtype=torch.float64)
    results["norms"] = torch.tensor(norms, dtype=torch.float64)
    return results


def error(ours, theirs):
    """Returns the largest error of all tensors of two dicts with equal names. Returns NaN if an error is NaN."""
    if ours.keys() != theirs.keys():
        sys.exit(f"parity: names differ: {sorted(ours.keys() ^ theirs.keys())}")
    errors = []
    for name, b in theirs.items():
        a = ours[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            sys.exit(f"parity: {name} is {a.dtype} {list(a.shape)} in heed, "
                     f"{b.dtype} {list(b.shape)} in PyTorch")
        a, b = a.double(), b.double()
        errors.append((a - b).abs().max() / b.abs().max())
    return torch.stack(errors).max().item()


def compare(case, program):
    """Returns the errors by column, and the number of steps that clipped gradients."""
    model = case.make()
    with torch.no_grad():
        # A bias of 0 or a LayerNorm gain of 1 would hide mistakes. With these weights, only some steps clip gradients.
        for p in model.parameters():
            p += 0.2 * torch.randn_like(p)
    with tempfile.TemporaryDirectory() as folder:
        def read(name):
            return load_file(f"{folder}/{name}.safetensors")
        options = {"dtype": dtype_name(case)} | case.options
        metadata = {key: str(value) for key, value in options.items()}
        save_file(model.state_dict(), f"{folder}/state.safetensors")
        save_file(case.inputs, f"{folder}/inputs.safetensors", metadata)
        if subprocess.run([program, folder]).returncode:
            sys.exit(f"parity: {case.name}: {program} failed")
        ours, loaded, trained = read("results"), read("loaded"), read("trained")

    errors = {"exchange": error(loaded, dict(model.state_dict()))}
    theirs = train(case, model)
    again = case.make()
    again.load_state_dict(trained, strict=True)
    inputs = at_step(case, 0)
    with torch.no_grad():
        theirs["trained.output"] = case.run(again, inputs)[0]
        if case.weights:
            theirs["trained.pattern"] = case.weights(again, inputs)

    def part(results, prefix):
        return {name: x for name, x in results.items() if name.startswith(prefix)}
    for column, prefix in [("output", "output"), ("weights", "pattern"), ("gradients", "grad."),
                           ("losses", "losses"), ("norms", "norms"), ("back", "trained.")]:
        if part(theirs, prefix):
            errors[column] = error(part(ours, prefix), part(theirs, prefix))
    errors["trained"] = error(trained, dict(model.state_dict()))
    return errors, int((theirs["norms"] > MAX_NORM).sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heed-parity", type=Path, metavar="PROGRAM",
                        default=ROOT / "build/release/tools/peers/heed_parity",
                        help="path of heed_parity, built with the tools (default: %(default)s)")
    arguments = parser.parse_args()
    if not arguments.heed_parity.is_file():
        parser.error(f"{arguments.heed_parity} is missing; build it with tools/build")

    torch.manual_seed(1)
    columns = list(TOLERANCES[torch.float64])

    def line(head, cells, tail):
        print(f"{head:40s}" + "".join(f"{cell:>10s}" for cell in cells) + "  " + tail, flush=True)
    line(f"PyTorch {torch.__version__}", columns, "clipped")
    failed = 0
    for case in cases():
        errors, clipped = compare(case, arguments.heed_parity)
        bad = [c for c, most in TOLERANCES[case.dtype].items()
               if c in errors and not (errors[c] <= most)]
        failed += bool(bad)
        shown = TOLERANCES[case.dtype].keys() & errors.keys()
        line(f"{dtype_name(case)} {case.name}",
             [f"{errors[c]:.1e}" if c in shown else "-" for c in columns],
             f"{clipped:2d}/{STEPS}  " + ("FAIL: " + ", ".join(bad) if bad else "PASS"))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
