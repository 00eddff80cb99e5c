#!/usr/bin/env python3
"""Compares heed study with TransformerLens: the same weights must give the same numbers.

    python3 -m venv V && V/bin/pip install -r tools/peers/requirements.txt
    V/bin/python tools/peers/transformerlens_parity.py build/release/heed

TransformerLens 4 does not have HookedTransformer. For each run below, the script trains a small model in float64
with heed, builds a HookedTransformer from model.safetensors (no folding, no centering, no added BOS), and prints one
line. The error of a table or an array is its largest difference, divided by its largest entry in TransformerLens.
A column is the largest error of:
  logits       L for each logit at the last position: the logit minus the mean logit
  values       arrays of arrays.safetensors for which TransformerLens has a hook
  gradients    gradients of L at these arrays
  patched      shares and jackknife errors of patches of pairs of prompts, in both directions
All errors must be at most 1e-9."""
import argparse
import itertools
import json
import math
import random
import subprocess
import sys
import tempfile
import tomllib
import warnings
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformer_lens import HookedTransformer, HookedTransformerConfig

BOUND = 1e-9
COLUMNS = ["logits", "values", "gradients", "patched"]
TOKENS = "abcdefghij^"  # token i of the task; ^ is never predicted
TASK = ("train induction --task-vocabulary 10 --task-periods 3..8 --context 24 --layers 2 --d-model 16 "
        "--dtype float64 --steps 80 --lr 0.01 --eval-every 0 --quiet")
RUNS = {
    "learned positions, LayerNorm, GELU": "--positions learned --heads 2 --mlp --bias",
    "RoPE, RMSNorm, attention only": "--norm-kind rmsnorm --heads 2",
    "RoPE, shared keys, soft cap, SwiGLU": "--heads 4 --kv-heads 2 --soft-cap 2 --mlp --mlp-act swiglu "
                                           "--o-bias yes",
    "ALiBi, no norm, ReLU": "--positions alibi --norm none --heads 4 --mlp --mlp-act relu --bias --scale none",
    "RoPE, window, QK-norm": "--heads 2 --window 6 --qk-norm --mlp --mlp-act gelu-tanh",
}


def empty_model(o, vocab, classes, dtype):
    """Returns a HookedTransformer for the options of a run, with its own initial weights."""
    D, H, groups = o["d-model"], o["heads"], o["kv-heads"] or o["heads"]
    return HookedTransformer(HookedTransformerConfig(
        n_layers=o["layers"], d_model=D, n_ctx=o["context"], d_head=D // H, n_heads=H, attn_only=not o["mlp"],
        n_key_value_heads=groups if groups < H else None, d_mlp=int(o["mlp-ratio"] * D), eps=1e-5,
        act_fn={"gelu-tanh": "gelu_new", "swiglu": "silu"}.get(o["mlp-act"], o["mlp-act"]),
        gated_mlp=o["mlp-act"] == "swiglu", d_vocab=vocab, d_vocab_out=classes,
        normalization_type={"layernorm": "LN", "rmsnorm": "RMS"}[o["norm-kind"]] if o["norm"] == "pre" else None,
        positional_embedding_type={"learned": "standard", "rope": "rotary"}.get(o["positions"], o["positions"]),
        rotary_dim=D // H, rotary_base=10000, rotary_adjacent_pairs=False, use_qk_norm=o["qk-norm"],
        use_attn_scale=o["scale"] != "none", attn_scores_soft_cap=o["soft-cap"] or -1.0,
        use_local_attn=o["window"] > 0, window_size=o["window"] or None,
        attn_types=["local"] * o["layers"] if o["window"] else None, default_prepend_bos=False, device="cpu",
        dtype=dtype))


def build(heed, run):
    """Returns a HookedTransformer with the weights of a run."""
    o, file = tomllib.loads((run / "config.toml").read_text())["train"], run.parent / "transformerlens.safetensors"
    subprocess.run([heed, "export", run, "--names", "transformerlens", "--out", file], check=True,
                   stdout=subprocess.DEVNULL)
    w = load_file(file)
    model = empty_model(o, len(w["embed.W_E"]), w["unembed.W_U"].shape[1], torch.float64)
    own = model.state_dict()  # the biases are 0, also those that the run does not have
    model.load_state_dict(own | w, strict=True)
    return model.eval()


def run_with_gradients(model, ids, objective):
    """Returns values by hook and L of each sequence. The .grad of each value is that of its sequence's L."""
    cache = {}

    def keep(x, hook):
        x.retain_grad()
        cache[hook.name] = x
    L = objective(model.run_with_hooks(ids, fwd_hooks=[(lambda name: True, keep)], prepend_bos=False))
    L.sum().backward()
    return cache, L.detach()


def error(ours, theirs):
    """Returns the largest difference, divided by the largest magnitude of `theirs`; NaN if a -inf or NaN differs."""
    a, b = (torch.as_tensor(x, dtype=torch.float64).detach() for x in (ours, theirs))
    difference = torch.where(a == b, 0, a - b).abs().max()
    return (difference / b[b.isfinite()].abs().max()).item()


def table(report, key, title=""):
    tables = next(s["tables"] for s in report["sections"] if s["key"] == key)
    return next(t["rows"] for t in tables if t["title"].startswith(title))


def ids_of(text):
    return torch.tensor([[TOKENS.index(c) for c in text]])


def compare_arrays(model, report, right, wrong, arrays, found):
    ids = ids_of(report["tokens"])
    cache, _ = run_with_gradients(model, ids, lambda x: x[:, -1, TOKENS.index(right)] - x[:, -1, TOKENS.index(wrong)])
    for name, ours in arrays.items():
        site = name.removesuffix("_grad")
        if site in cache:
            x = cache[site]
            found["values" if site == name else "gradients"].append(error(ours, x if site == name else x.grad))


def patches(model, clean_ids, corrupt_ids, objective, denoise):
    """Returns share and jackknife error of each place by name. L of a pair has the sign of its gap."""
    clean, L_clean = run_with_gradients(model, clean_ids, objective)
    corrupt, L_corrupt = run_with_gradients(model, corrupt_ids, objective)
    ids, base, L_base, other, sign = ((corrupt_ids, corrupt, L_corrupt, clean, 1) if denoise else
                                      (clean_ids, clean, L_clean, corrupt, -1))
    used = (L_clean - L_corrupt).abs() >= 0.1 * torch.quantile((L_clean - L_corrupt).abs(), 0.5)
    signs = (L_clean - L_corrupt).sign()
    gap, n, places = (L_clean - L_corrupt).abs()[used], int(used.sum()), {}
    total = gap.sum()
    by_position, by_head = ["resid_pre", "attn_out", "mlp_out"], ["q", "k", "v", "z", "pattern"]
    for l, site in itertools.product(range(model.cfg.n_layers), by_position + by_head):
        name = f"blocks.{l}.{'attn.' if site in by_head else ''}hook_{site}"
        axis = 2 if site in ("q", "k", "v", "z") else 1
        for i in range(base[name].shape[axis]) if name in base else []:
            def patch(x, hook):
                return x.index_copy(axis, torch.tensor([i]), other[name].select(axis, i).unsqueeze(axis))
            with torch.no_grad():
                L = objective(model.run_with_hooks(ids, fwd_hooks=[(name, patch)], prepend_bos=False))
            gain = (signs * sign * (L - L_base))[used]
            without = (gain.sum() - gain) / (total - gap)
            jackknife = ((n - 1) / n * ((without - without.mean()) ** 2).sum()).sqrt()
            group = model.cfg.n_heads // base[name].shape[axis]  # of heads that share keys and values
            heads = f"{i * group}" + (f"-{i * group + group - 1}" if group > 1 else "")
            label = f"L{l}H{heads} {site}" if site in by_head else f"L{l} {site} at {i}"
            places[label] = [gain.sum() / total, jackknife]
    return places


def compare_patches(model, study, file, found):
    """Patches pairs of prompts that differ in one token, with random tokens as the right and the wrong token."""
    pairs = []
    for _ in range(8):
        clean, at = "".join(random.choices(TOKENS[:10], k=4)) * 3, random.randrange(12)
        corrupt = clean[:at] + random.choice(TOKENS[:10].replace(clean[at], "")) + clean[at + 1:]
        pairs.append((clean, corrupt, *random.sample(TOKENS[:10], 2)))
    file.write_text("".join("\t".join(pair) + "\n" for pair in pairs))
    report = study("--prompt", "abcab", "--samples", "5", "--pairs", str(file))
    clean, corrupt = (torch.cat([ids_of("^" + pair[i]) for pair in pairs]) for i in (0, 1))
    rows, right, wrong = range(len(pairs)), *([TOKENS.index(pair[i]) for pair in pairs] for i in (2, 3))
    for title, denoise in [("denoise", True), ("noise", False)]:
        theirs = patches(model, clean, corrupt, lambda x: x[rows, -1, right] - x[rows, -1, wrong], denoise)
        ours = {row[0]: row[1:3] for row in table(report, "patching", title)}
        names = sorted(ours.keys() | theirs.keys())
        for i in range(2):
            found["patched"].append(error(*([x.get(n, [math.nan] * 2)[i] for n in names] for x in (ours, theirs))))


def compare_logits(model, study, prompt, found):
    theirs = model(ids_of("^" + prompt), prepend_bos=False)[0, -1]
    ours = [study("--prompt", prompt, "--of", f"logit:{c}", "--samples", "5")["value"] for c in TOKENS[:10]]
    found["logits"].append(error(ours, theirs - theirs.mean()))


def compare(heed, options, folder):
    run, prompt, found = folder / "run", "".join(random.choices(TOKENS[:10], k=5)) * 3, {c: [] for c in COLUMNS}
    subprocess.run([heed, *TASK.split(), *options.split(), "--out", run], check=True, stdout=subprocess.DEVNULL)
    model = build(heed, run)

    def study(*arguments):
        command = [heed, "study", run, *arguments, "--json"]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    right, wrong = random.sample(TOKENS[:10], 2)
    report = study("--prompt", prompt, "--of", f"diff:{right}-{wrong}", "--samples", "5")
    compare_arrays(model, report, right, wrong, load_file(run / "study/arrays.safetensors"), found)
    with torch.no_grad():
        compare_logits(model, study, prompt, found)
    try:
        compare_patches(model, study, folder / "pairs.tsv", found)
    except subprocess.CalledProcessError:  # heed has printed the reason
        found["patched"] = [math.nan]
    return {column: torch.tensor(errors, dtype=torch.float64).max().item() for column, errors in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heed", type=Path, metavar="HEED", help="path of heed, such as build/release/heed")
    heed, failed = str(parser.parse_args().heed.resolve()), 0
    random.seed(1)
    warnings.simplefilter("ignore")  # TransformerLens 3 warns that HookedTransformer is deprecated
    print(f"{'largest error':38s}" + "".join(f"{column:>12s}" for column in COLUMNS))
    for name, options in RUNS.items():
        with tempfile.TemporaryDirectory() as folder:
            errors = compare(heed, options, Path(folder))
        bad = [column for column in COLUMNS if not (errors[column] <= BOUND)]
        failed += bool(bad)
        print(f"{name:38s}" + "".join(f"{errors[column]:12.1e}" for column in COLUMNS)
              + ("  FAIL: " + ", ".join(bad) if bad else "  PASS"), flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
