#!/usr/bin/env python3
"""Loads weights that heed export wrote into the models of other libraries, and compares what they predict.

    python3 -m venv V && V/bin/pip install -r tools/peers/requirements.txt
    V/bin/python tools/peers/export_parity.py build/release/heed

For each run below, the script trains one step in float32, replaces all weights, biases and norms by random numbers,
exports them, and prints one line. The columns are:
  log p   largest difference of the log probabilities of the tokens of a random prompt, from heed eval --prompt,
          divided by the largest magnitude; at most 1e-5
  back    tensors that have the same bytes as heed's after conversion back to heed's names and layouts
A run is skipped if its library is not installed. For the names
torch, the model is that of heed.torch.load with nn.MultiheadAttention; the package is in build/release/python."""
import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import warnings
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

BOUND, LETTERS, CONTEXT = 1e-5, "abcdefghij", 24
TASK = f"--layers 2 --d-model 16 --context {CONTEXT} --steps 1 --batch 4 --eval-batch 4 --eval-every 0 --quiet"
GPT = "--positions learned --norm pre --norm-kind layernorm --heads 2 --mlp --tied --mlp-act"
RUNS = {  # the argument of --names, and the options of heed train
    "torch, post-norm, GELU": ("torch", "--positions learned --heads 2 --norm post --mlp --bias --norm-bias"),
    "torch, ALiBi, window, RMSNorm, SwiGLU": (
        "torch", "--positions alibi --heads 4 --window 5 --norm-kind rmsnorm --mlp --mlp-act swiglu --mlp-ratio 2.5 "
                 "--no-bias --tied"),
    "nanoGPT": ("nanogpt", f"{GPT} gelu --bias --norm-bias"),
    "nanoGPT without biases": ("nanogpt", f"{GPT} gelu --no-bias --no-norm-bias"),
    "GPT-2": ("gpt2", f"{GPT} gelu-tanh --bias --norm-bias"),
    "TransformerLens, learned, tied": ("transformerlens", f"{GPT} gelu --bias --norm-bias"),
    "TransformerLens, RoPE, shared keys, SwiGLU": (
        "transformerlens", "--positions rope --heads 4 --kv-heads 2 --norm-kind rmsnorm --mlp --mlp-act swiglu --no-bias "
                           "--soft-cap 2"),
    "TransformerLens, ALiBi, QK-norm": (
        "transformerlens", "--positions alibi --heads 4 --qk-norm --window 6 --norm none --no-mlp --bias --scale none"),
}


def torch_model(o, run):
    """Returns the module of the run with nn.MultiheadAttention as its attention: --names torch."""
    from heed._model import alibi_slopes
    from heed.torch import load
    model, D = load(run), o["d-model"]
    distance = torch.arange(CONTEXT)[:, None] - torch.arange(CONTEXT)
    bias = -alibi_slopes(o["heads"]).float()[:, None, None] * distance * (o["positions"] == "alibi")
    mask = bias.masked_fill((distance < 0) | (distance >= (o["window"] or CONTEXT)), -torch.inf)
    if o["tied"]:
        model.head = nn.Linear(D, len(model.tok.weight), bias=False)
        model.head.weight = model.tok.weight
    for block in model.blocks:
        for name in ("qkv", "proj"):
            delattr(block, name)
        block.attn = attn = nn.MultiheadAttention(D, o["heads"], bias=o["bias"], batch_first=True)
        block.attention = lambda x, attn=attn: attn(x, x, x, attn_mask=mask, need_weights=False)[0]
    return model


class NanoBlock(nn.Module):
    def __init__(self, D, heads, bias):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(D, bias=bias), nn.LayerNorm(D, bias=bias)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(D, 3 * D, bias), "c_proj": nn.Linear(D, D, bias)})
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(D, 4 * D, bias), "c_proj": nn.Linear(4 * D, D, bias)})

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for y in self.attn["c_attn"](self.ln_1(x)).chunk(3, -1))
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn["c_proj"](z.transpose(1, 2).flatten(2))
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x))))


class NanoGPT(nn.Module):
    """GPT of nanoGPT (model.py), with its names of modules and without dropout: --names nanogpt."""

    def __init__(self, o, w):
        super().__init__()
        vocab, D = w["transformer.wte.weight"].shape
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocab, D), "wpe": nn.Embedding(o["context"], D), "ln_f": nn.LayerNorm(D, bias=o["bias"]),
            "h": nn.ModuleList(NanoBlock(D, o["heads"], o["bias"]) for _ in range(o["layers"]))})
        self.lm_head = nn.Linear(D, vocab, bias=False)
        self.transformer["wte"].weight = self.lm_head.weight

    def forward(self, ids):
        x = self.transformer["wte"](ids) + self.transformer["wpe"].weight[:ids.shape[1]]
        for block in self.transformer["h"]:
            x = block(x)
        return self.lm_head(self.transformer["ln_f"](x))


def gpt2(o, w, file):
    """Returns a GPT2LMHeadModel that from_pretrained() has read from the exported file."""
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers.utils import logging
    logging.disable_progress_bar()
    vocab, D = w["transformer.wte.weight"].shape
    config = GPT2Config(vocab_size=vocab, n_positions=o["context"], n_embd=D, n_layer=o["layers"], n_head=o["heads"],
                        n_inner=round(o["mlp-ratio"] * D), bos_token_id=0, eos_token_id=0)
    config.save_pretrained(file.parent)
    shutil.copy(file, file.parent / "model.safetensors")
    model, problems = GPT2LMHeadModel.from_pretrained(file.parent, output_loading_info=True)
    if any(problems.values()):
        raise RuntimeError(f"from_pretrained: {problems}")
    return model.eval()


def foreign_logits(names, o, file, ids):
    """Returns the logits of the other library's model with the exported weights at all positions."""
    w = load_file(file)
    if names == "transformerlens":
        from transformerlens_parity import empty_model
        model = empty_model(o, len(w["embed.W_E"]), w["unembed.W_U"].shape[1], torch.float32)
        missing, unexpected = model.load_state_dict(w, strict=False)
        unused = r"mask|IGNORE|alibi|rotary_|\.(_?b_.|b_in|b_out|b)$" + ("" if "pos_embed.W_pos" in w else "|W_pos")
        wrong = [name for name in missing if not re.search(unused, name)]
        if wrong or unexpected:
            raise RuntimeError(f"weights that only TransformerLens has: {wrong}, that only the file has: {unexpected}")
        return model.eval()(ids, prepend_bos=False)[0]
    if names == "gpt2":
        return gpt2(o, w, file)(ids).logits[0]
    model = NanoGPT(o, w) if names == "nanogpt" else torch_model(o, file.parent / "run")
    model.load_state_dict(w, strict=True)
    return model.eval()(ids)[0]


GPT_NAMES = [(r"^transformer\.", ""), (r"^h\.", "blocks."), ("^wte", "tok"), ("^wpe", "pos"), ("^ln_f", "ln"),
             ("ln_", "ln"), (r"attn\.c_attn", "qkv"), (r"attn\.c_proj", "proj"), (r"mlp\.c_fc", "up"),
             (r"mlp\.c_proj", "down"), ("^lm_head", "head")]
RENAMES = {"torch": [(r"attn\.in_proj_", "qkv."), (r"attn\.out_proj", "proj")], "nanogpt": GPT_NAMES, "gpt2": GPT_NAMES,
           "transformerlens": [(r"^embed\.W_E", "tok.weight"), (r"^pos_embed\.W_pos", "pos.weight"),
                               (r"^unembed\.W_U", "head.weight"), (r"^ln_final", "ln"), (r"(ln\w*|norm)\.w$", r"\1.weight"),
                               (r"(ln\w*)\.b$", r"\1.bias"), (r"mlp\.W_in", "up.weight"),
                               (r"mlp\.W_gate", "gate.weight"), (r"mlp\.W_out", "down.weight"), (r"mlp\.b_in", "up.bias"),
                               (r"mlp\.b_out", "down.bias"), (r"attn\._([Wb])", r"attn.\1")]}
TRANSPOSED = {"gpt2": r"(qkv|proj|up|down)\.weight", "transformerlens": r"(head|up|gate|down)\.weight"}


def heeds(names, w, o):
    """Returns exported weights under heed's names and in heed's layouts: the way back."""
    own = {}
    for name, x in w.items():
        for pattern, text in RENAMES[names]:
            name = re.sub(pattern, text, name)
        own[name] = x.T if names in TRANSPOSED and re.search(TRANSPOSED[names], name) else x
    if o["tied"]:
        if not torch.equal(own.pop("head.weight"), own["tok.weight"]):
            raise RuntimeError("the output layer is not the token embedding")
    for l in range(o["layers"]):
        block, attention = f"blocks.{l}.", {}
        for name in [n for n in own if re.match(rf"blocks\.{l}\.(qkv|proj|attn\.[Wb]_)", n)]:
            attention[name.removeprefix(block)] = own.pop(name)
        if names == "transformerlens":
            attention = packed(attention)
        own |= {block + name: x for name, x in attention.items()}
    return own


def packed(a):
    """Converts per-head matrices to those of heed."""
    rows = {"qkv.weight": torch.cat([a[f"attn.W_{x}"].mT.flatten(0, 1) for x in "QKV"]),
            "proj.weight": a["attn.W_O"].flatten(0, 1).T}
    if "attn.b_Q" in a:
        rows["qkv.bias"] = torch.cat([a[f"attn.b_{x}"].flatten() for x in "QKV"])
    return rows | ({"proj.bias": a["attn.b_O"]} if "attn.b_O" in a else {})


def randomize(file):
    """Replaces all tensors of a file by random numbers. Weights of norms are around 1, all others around 0."""
    with safe_open(file, "pt") as f:
        metadata = {key: text for key, text in f.metadata().items() if key != "heed_checksum"}
    w = {name: (torch.randn(x.shape) * 0.4 + float("ln" in name or "norm" in name)).to(x.dtype)
         for name, x in load_file(file).items()}
    save_file(w, file, metadata)
    return w


def equal_bytes(a, b):
    return (a.shape == b.shape and a.dtype == b.dtype
            and a.contiguous().numpy().tobytes() == b.contiguous().numpy().tobytes())


def call(*command):
    """Runs a program and returns its stdout. Raises RuntimeError with its stderr if it fails."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return done.stdout


def difference(heed, run, logits):
    """Returns the error of heed's log probabilities of a random prompt; `logits` is the other library's model."""
    ids = torch.randint(len(LETTERS), (CONTEXT,))  # the vocabulary is sorted
    prompt = "".join(LETTERS[i] for i in ids)
    ours = [t["log_probability"] for t in json.loads(call(heed, "eval", run, "--prompt", prompt, "--json"))["tokens"][1:]]
    with torch.no_grad():
        theirs = logits(ids[None])[:-1].log_softmax(-1).gather(1, ids[1:, None])[:, 0]
    return ((torch.tensor(ours) - theirs).abs().max() / theirs.abs().max()).item()


def compare(heed, names, options, folder):
    """Returns the error of difference(), the number of tensors with equal bytes, and the number of tensors."""
    text, run, out = folder / "text.txt", folder / "run", folder / "exported.safetensors"
    text.write_text("".join(random.choices(LETTERS, k=4000)))
    call(heed, "train", "--text", text, *TASK.split(), *options.split(), "--out", run)
    (run / "state.safetensors").unlink()  # the run is now its weights alone
    w = randomize(run / "model.safetensors")
    call(heed, "export", run, "--names", names, "--out", out)
    o = tomllib.loads((run / "config.toml").read_text())["train"]
    back = heeds(names, load_file(out), o)
    if back.keys() != w.keys():
        raise RuntimeError(f"names in only one of the two files: {sorted(back.keys() ^ w.keys())}")
    error = difference(heed, run, lambda ids: foreign_logits(names, o, out, ids))
    return error, sum(equal_bytes(back[name], x) for name, x in w.items()), len(w)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heed", type=Path, metavar="HEED", help="path of heed, such as build/release/heed")
    heed, failed = str(parser.parse_args().heed.resolve()), 0
    sys.path.insert(0, f"{Path(heed).parent}/python")
    random.seed(1)
    torch.manual_seed(1)
    warnings.simplefilter("ignore")  # TransformerLens 3 warns that HookedTransformer is deprecated
    print(f"{'':44s}{'log p':>10s}{'back':>12s}")
    for name, (names, options) in RUNS.items():
        try:
            with tempfile.TemporaryDirectory() as folder:
                error, equal, count = compare(heed, names, options, Path(folder))
        except ImportError as e:
            print(f"{name:44s}  skipped: needs the package {e.name}", flush=True)
            continue
        ok = error <= BOUND and equal == count
        failed += not ok
        print(f"{name:44s}{error:10.1e}{f'{equal} of {count}':>12s}  {'PASS' if ok else 'FAIL'}", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
