"""Converts a checkpoint of nanoGPT to a safetensors file for `heed import`: python -m heed.torch ckpt.pt OUT.safetensors"""

from __future__ import annotations

import json
import sys

import torch

from . import _safetensors

_KEYS = {"n_layer": "layers", "n_head": "heads", "n_embd": "d-model", "block_size": "context", "dropout": "dropout"}


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: python -m heed.torch ckpt.pt OUT.safetensors")
    path, out = sys.argv[1:]
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        weights, model_args = checkpoint["model"], checkpoint["model_args"]
        arrays = {name.removeprefix("_orig_mod."): x.to(torch.float64 if x.dtype == torch.float64 else torch.float32).numpy()
                  for name, x in weights.items()}  # fmt: skip
        lines = [f"{_KEYS[name]} = {json.dumps(x)}\n" for name, x in model_args.items() if name in _KEYS]
        metadata = {"format": "pt", "model_args": json.dumps(model_args), "config": "[train]\n" + "".join(lines)}
        _safetensors.write(out, arrays, metadata)
    except (LookupError, TypeError, AttributeError) as error:
        sys.exit(f"{path} is not a checkpoint of nanoGPT, a dict with 'model' and 'model_args', dicts of tensors and "
                 f"of numbers ({error!r}); save other models with safetensors.torch.save_file for heed import")
    except Exception as error:  # torch.load raises many types
        sys.exit(f"cannot convert {path} to {out}: {error}")
    print(f"{out}: {len(arrays)} tensors; next: heed import {out} --out RUN --config FILE.toml (task or text, and mlp-act)")
