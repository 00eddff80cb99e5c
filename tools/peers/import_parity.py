#!/usr/bin/env python3
"""Imports models of other libraries, and compares what heed and they predict.

    python3 -m venv V && V/bin/pip install -r tools/peers/requirements.txt
    PYTHONPATH=build/release/python V/bin/python tools/peers/import_parity.py build/release/heed

The models are a nanoGPT, saved as ckpt.pt, HookedTransformers and a GPT2LMHeadModel. All weights, biases and norms are
random. The second column is difference() of export_parity.py; at most 1e-5. HookedTransformers that heed does not
have, and wrong twins of the GPT2LMHeadModel or of its configuration, are refused. If a file cannot show the fault, the
difference is more than 1e-3. Each model and twin has one expected outcome, and each refusal a
part of its message."""
import argparse
import json
import random
import re
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

from export_parity import BOUND, CONTEXT, LETTERS, NanoGPT, call, difference

EQUAL, DIFFER, WRONG = "the predictions are equal", "the predictions differ", 1e-3
LAYERS, WIDTH = 2, 16
SIZES = {"n_layer": LAYERS, "n_head": 4, "n_embd": WIDTH, "block_size": CONTEXT, "bias": True, "dropout": 0.0,
         "vocab_size": len(LETTERS)}


def randomized(model):
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.randn(p.shape) * 0.4 + float(bool(re.search(r"ln.*(weight|\.w)$", name))))
    return model.eval()


def nanogpt(folder):
    """Writes ckpt.pt as nanoGPT's train.py with torch.compile, converts it, and returns the model and the new file."""
    w = {"transformer.wte.weight": torch.empty(len(LETTERS), WIDTH)}
    model = randomized(NanoGPT({"d-model": WIDTH, "context": CONTEXT, "bias": True, "heads": 4, "layers": LAYERS}, w))
    names = {"_orig_mod." + name: x for name, x in model.state_dict().items()}
    torch.save({"model": names, "model_args": SIZES, "iter_num": 7, "best_val_loss": torch.tensor(1.0)}, folder / "ckpt.pt")
    file = folder / "nanogpt.safetensors"
    call(sys.executable, "-m", "heed.torch", folder / "ckpt.pt", file)
    return lambda ids: model(ids)[0], file


def gpt2(folder):
    config = GPT2Config(vocab_size=len(LETTERS), n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS, n_head=4,
                        bos_token_id=0, eos_token_id=0)
    model = randomized(GPT2LMHeadModel(config))
    model.save_pretrained(folder / "gpt2")
    return lambda ids: model(ids).logits[0], folder / "gpt2" / "model.safetensors"


def transformerlens(folder, **options):
    from transformer_lens import HookedTransformer, HookedTransformerConfig
    model = randomized(HookedTransformer(HookedTransformerConfig(
        n_layers=LAYERS, d_model=WIDTH, n_ctx=CONTEXT, n_heads=4, d_head=WIDTH // 4, d_vocab=len(LETTERS), act_fn="gelu",
        normalization_type="LN", device="cpu", dtype=torch.float32, **options)))
    torch.nn.init.zeros_(model.unembed.b_U)  # heed's output layer has no bias
    save_file({n: x.clone().contiguous() for n, x in model.state_dict().items()}, folder / "lens.safetensors")
    return lambda ids: model(ids, prepend_bos=False)[0], folder / "lens.safetensors"


class Imports:
    def __init__(self, heed, folder):
        self.heed, self.folder, self.count = heed, folder, 0
        (folder / "text.txt").write_text("".join(random.choices(LETTERS, k=4000)))

    def error(self, model, file, **config):
        """Imports a file and returns the error of difference()."""
        values = {"text": str(self.folder / "text.txt"), "heads": 4, "mlp-act": "gelu"} | config
        self.count += 1
        run, toml = self.folder / f"run{self.count}", self.folder / "config.toml"
        toml.write_text("[train]\n" + "".join(f"{key} = {json.dumps(v)}\n" for key, v in values.items() if v != ""))
        call(self.heed, "import", file, "--out", run, "--config", toml)
        return difference(self.heed, run, model)


def exchanged(x, axis):
    q, k, v = x.chunk(3, axis)
    return torch.cat([k, q, v], axis)


ROTARY = {"positional_embedding_type": "rotary", "rotary_dim": WIDTH // 4}
ROPE = {"positions": "rope", "context": CONTEXT, "window": 0}
LOCAL = {"use_local_attn": True, "attn_types": ["local", "global"], "window_size": 4}
MODELS = {  # the model, its options, its configuration, and the outcome
    "nanogpt": (nanogpt, {}, {}, EQUAL),
    "transformerlens": (transformerlens, {}, {"positions": "learned", "window": 0}, EQUAL),
    "rotary positions": (transformerlens, ROTARY, ROPE, EQUAL),
    "rotary positions of base 500": (transformerlens, ROTARY | {"rotary_base": 500}, ROPE, "attn.rotary_cos differs"),
    "rotary positions of half a head": (transformerlens, ROTARY | {"rotary_dim": 2}, ROPE, "attn.rotary_cos differs"),
    "adjacent rotary pairs": (transformerlens, ROTARY | {"rotary_adjacent_pairs": True}, ROPE,
                              "attn.rotary_cos differs"),
    "ALiBi": (transformerlens, {"positional_embedding_type": "alibi"}, {"positions": "alibi", "window": 0}, EQUAL),
    "ALiBi, not in config": (transformerlens, {"positional_embedding_type": "alibi"}, {"window": 0},
                             "does not show positions;"),
    "local attention, not in config": (transformerlens, LOCAL, {"positions": "learned"}, "does not show window;"),
    "gpt2": (gpt2, {}, {"mlp-act": "gelu-tanh"}, EQUAL),
}
H = "transformer.h.0."
TWINS = {  # the change of the weights of GPT-2, that of the configuration, and the outcome
    "c_attn transposed": (lambda w: {H + "attn.c_attn.weight": w[H + "attn.c_attn.weight"].T}, {}, "needs float32 ["),
    "square c_proj transposed": (lambda w: {H + "attn.c_proj.weight": w[H + "attn.c_proj.weight"].T}, {}, DIFFER),
    "MLP transposed": (lambda w: {H + "mlp.c_fc.weight": w[H + "mlp.c_fc.weight"].T}, {}, "needs float32 ["),
    "q and k exchanged": (lambda w: {H + f"attn.c_attn.{n}": exchanged(w[H + f"attn.c_attn.{n}"], -1)
                                     for n in ("weight", "bias")}, {}, DIFFER),
    "another activation": (lambda w: {}, {"mlp-act": "relu"}, DIFFER),
    "a missing bias": (lambda w: {"transformer.h.1.attn.c_proj.bias": None}, {},
                       "missing transformer.h.1.attn.c_proj.bias"),
    "a missing layer": (lambda w: {n: None for n in w if n.startswith(H)}, {}, f"missing {H}ln_1.weight"),
    "another vocabulary": (lambda w: {"transformer.wte.weight": w["transformer.wte.weight"][:-1]}, {},
                           "the token embedding has shape [9, 16]"),
    "the tokens of GPT-2": (lambda w: {"transformer.wte.weight": torch.zeros(50257, WIDTH)}, {"text": "", "task": ""},
                            "byte pairs of GPT-2"),
    "another number of heads": (lambda w: {}, {"heads": 2}, DIFFER),
    "norms exchanged": (lambda w: {H + f"ln_1.{n}": w[H + f"ln_2.{n}"] for n in ("weight", "bias")}, {}, DIFFER),
    "a missing last layer, in config": (lambda w: {n: None for n in w if ".h.1." in n}, {"layers": 2},
                                        "its tensors show layers 1"),
    "another context": (lambda w: {}, {"context": 16}, "needs float32 [16, 16]"),
    "an output layer that is not tied": (lambda w: {"lm_head.weight": w["transformer.wte.weight"] * 2}, {"tied": True},
                                         "set --tied to false"),
    "no activation": (lambda w: {}, {"mlp-act": ""}, "does not show mlp-act;"),
    "a mask that is not causal": (lambda w: {H + "attn.bias": torch.ones(1, 1, CONTEXT, CONTEXT)}, {},
                                  H + "attn.bias differs"),
    "a NaN": (lambda w: {H + "ln_1.bias": w[H + "ln_1.bias"] * torch.nan}, {}, "is nan at"),
}


def fails(imports, name, expected, model, file, config):
    """Imports a file, prints the outcome and returns whether it is not the expected one."""
    try:
        error = imports.error(model, file, **config)
        outcome = EQUAL if error <= BOUND else DIFFER if error > WRONG else "neither"
        shown = f"{error:10.1e}"
    except RuntimeError as e:
        outcome, shown = str(e).replace(str(imports.folder), ".")[:400], f"{'refused':>10s}"
    failed = outcome != expected if expected in (EQUAL, DIFFER) else expected not in outcome
    print(f"{name:34s}{shown}  {'FAIL' if failed else 'PASS'}  {outcome}", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heed", type=Path, metavar="HEED", help="path of heed, such as build/release/heed")
    heed, failed = parser.parse_args().heed.resolve(), 0
    random.seed(1)
    torch.manual_seed(1)
    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        imports = Imports(heed, Path(folder))
        for name, (make, options, config, expected) in MODELS.items():
            model, file = make(Path(folder), **options)
            failed += fails(imports, name, expected, model, file, config)
        weights, twin = load_file(file), Path(folder) / "twin.safetensors"  # the last one is gpt2
        for name, (change, config, expected) in TWINS.items():
            w = {n: x for n, x in (weights | change(weights)).items() if x is not None}
            save_file({n: x.clone().contiguous() for n, x in w.items()}, twin)
            failed += fails(imports, name, expected, model, twin, {"mlp-act": "gelu-tanh"} | config)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
