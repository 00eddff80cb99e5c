"""The model of a run as a module of plain PyTorch with heed's names of parameters. Needs PyTorch 2.4 or later.

In the shapes, B is the batch, T the number of tokens, D d-model, H the number of heads, and d the size of a head.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from . import _safetensors
from ._program import call

_KEYS = """
    layers heads d-model context d-head d-value kv-heads scale qk-norm soft-cap window mlp mlp-act mlp-ratio bias o-bias
    norm-bias tied positions norm norm-kind dropout dtype""".split()
_EPS = 1e-5  # of all norms
_ACTIVATIONS = {"gelu": F.gelu, "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"), "relu": F.relu, "silu": F.silu}


def stated_in(config: str) -> dict:
    """Returns the options of the model that the text of a config.toml states."""
    lines = re.findall(r'^([a-z-]+) = ("[^"\\]*"|true|false|-?\d[-+.e\d]*)$', config, re.MULTILINE)
    return {key: json.loads(value) for key, value in lines if key in _KEYS}


def options_of(config: str) -> SimpleNamespace:
    """Returns the options of the model in the text of a config.toml: d_model for d-model. Defaults are filled in."""
    values = stated_in(config)
    if missing := [key for key in _KEYS if key not in values]:
        raise ValueError(f"the configuration lacks {', '.join(missing)}; heed train writes all options of the model")
    for key, neutral in (("sink", '"none"'), ("residual-scale", "1")):  # of old runs; their weights show nothing
        if old := re.search(f"^{key} = (?!{neutral}$).*", config, re.MULTILINE):
            raise ValueError(f"this run uses {old[0]}, which heed no longer has; use the version that trained it")
    o = SimpleNamespace(**{key.replace("-", "_"): values[key] for key in _KEYS})
    o.d_head = o.d_head or o.d_model // o.heads
    o.d_value = o.d_value or o.d_head
    o.kv_heads = o.kv_heads or o.heads
    o.o_bias = {"yes": True, "no": False, "as-bias": o.bias}[o.o_bias]
    scales = {"1/sqrt-d-head": o.d_head**-0.5, "none": 1, "1/d-head": 1 / o.d_head, "1/sqrt-d-model": o.d_model**-0.5}
    o.factor = scales.get(o.scale, o.scale)
    return o


def rotate(x: Tensor) -> Tensor:
    """Applies rotary positions to x [B, H, T, d]: rotates each pair of elements i and i + d/2."""
    T, d = x.shape[-2:]
    angles = torch.arange(T).double()[:, None] * 10000 ** (torch.arange(0, d, 2).double() / -d)  # [T, d/2]
    cos, sin = angles.cos().to(x), angles.sin().to(x)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def sinusoids(T: int, D: int) -> Tensor:
    """Returns sinusoidal positions [T, D]: columns 2i and 2i + 1 are sin and cos of p / 10000^(2i / D) in row p."""
    angles = torch.arange(T).double()[:, None] / 10000 ** (torch.arange(0, D, 2).double() / D)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :D]


def alibi_slopes(heads: int) -> Tensor:
    """Returns the slope of each head [H] (Press et al. 2022)."""
    power = 2 ** (heads.bit_length() - 1)  # the largest power of two up to `heads`
    exponents = [-8 * (h + 1) / power for h in range(power)] + [-4 * (2 * h + 1) / power for h in range(heads - power)]
    return 2 ** torch.tensor(exponents, dtype=torch.float64)


def norm(o: SimpleNamespace, wanted: bool) -> nn.Module | None:
    """Returns a norm of the residual stream, or None."""
    if not wanted:
        return None
    return nn.RMSNorm(o.d_model, _EPS) if o.norm_kind == "rmsnorm" else nn.LayerNorm(o.d_model, _EPS, bias=o.norm_bias)


class Attention(nn.Module):
    """Causal attention from queries, keys and values to z."""

    def __init__(self, o: SimpleNamespace):
        super().__init__()
        self.o = o
        if o.qk_norm:
            self.q_norm, self.k_norm = nn.RMSNorm(o.d_head, _EPS), nn.RMSNorm(o.d_head, _EPS)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Returns z [B, H, T, d_value] for q [B, H, T, d_head], and k and v of kv-heads heads."""
        o, T = self.o, q.shape[2]
        if o.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        q = q * o.factor
        if o.positions == "rope":
            q, k = rotate(q), rotate(k)
        k, v = (x.repeat_interleave(o.heads // o.kv_heads, 1) for x in (k, v))
        scores = q @ k.mT  # [B, H, T, T]
        if o.soft_cap:
            scores = o.soft_cap * torch.tanh(scores / o.soft_cap)
        distance = torch.arange(T)[:, None] - torch.arange(T)  # from the query back to the key
        if o.positions == "alibi":
            scores = scores - (alibi_slopes(o.heads)[:, None, None] * distance).to(q)
        hidden = (distance < 0) | (distance >= (o.window or T))
        scores = scores.masked_fill(hidden.to(q.device), -torch.inf)
        pattern = F.dropout(scores.softmax(-1), o.dropout, self.training)
        return pattern @ v


class Block(nn.Module):
    """Attention and an optional MLP, whose outputs are added to the residual stream x [B, T, D]."""

    def __init__(self, o: SimpleNamespace):
        super().__init__()
        self.o, D, H = o, o.d_model, o.heads
        self.rows = [H * o.d_head, o.kv_heads * o.d_head, o.kv_heads * o.d_value]  # of q, k and v
        self.ln1, self.ln2 = norm(o, o.norm != "none"), norm(o, o.norm != "none" and o.mlp)
        self.attn = Attention(o)
        self.qkv, self.proj = nn.Linear(D, sum(self.rows), o.bias), nn.Linear(H * o.d_value, D, o.o_bias)
        if o.mlp:
            width = math.floor(o.mlp_ratio * D + 0.5)
            self.up, self.down = nn.Linear(D, width, o.bias), nn.Linear(width, D, o.bias)
            self.gate = nn.Linear(D, width, o.bias) if o.mlp_act == "swiglu" else None

    def attention(self, x: Tensor) -> Tensor:
        """Returns the output of attention [B, T, D] for x [B, T, D]."""
        heads = (self.o.heads, self.o.kv_heads, self.o.kv_heads)
        parts = zip(self.qkv(x).split(self.rows, -1), heads)
        q, k, v = (y.unflatten(-1, (n, -1)).transpose(1, 2) for y, n in parts)
        return self.proj(self.attn(q, k, v).transpose(1, 2).flatten(2))

    def mlp(self, x: Tensor) -> Tensor:
        """Returns the output of the MLP [B, T, D] for x [B, T, D]."""
        if self.gate is not None:
            return self.down(F.silu(self.gate(x)) * self.up(x))
        return self.down(_ACTIVATIONS[self.o.mlp_act](self.up(x)))

    def forward(self, x: Tensor) -> Tensor:
        o = self.o
        for layer, ln in ((self.attention, self.ln1), (self.mlp, self.ln2))[: 1 + o.mlp]:
            y = layer(ln(x) if o.norm == "pre" else x)
            x = x + F.dropout(y, o.dropout, self.training)
            x = ln(x) if o.norm == "post" else x
        return x


class Transformer(nn.Module):
    """The model of a run. `config` is the text of config.toml, `metadata` that of model.safetensors."""

    def __init__(self, config: str, metadata: dict[str, str], vocab: int, classes: int):
        super().__init__()
        o = self.o = options_of(config)
        self.config, self.metadata, self.vocab, self.classes = config, metadata, vocab, classes
        self.tok = nn.Embedding(vocab, o.d_model)
        self.pos = nn.Embedding(o.context, o.d_model) if o.positions == "learned" else None
        self.blocks = nn.ModuleList(Block(o) for _ in range(o.layers))
        self.ln = norm(o, o.norm == "pre")
        self.head = None if o.tied else nn.Linear(o.d_model, classes, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Returns the logits [B, T, classes] for ids [B, T] of at most `context` tokens."""
        o, T = self.o, ids.shape[1]
        if T > o.context:
            raise ValueError(f"the model reads at most {o.context} tokens, got {T}")
        x = self.tok(ids)
        if self.pos is not None:
            x = x + self.pos.weight[:T]
        if o.positions == "sinusoidal":
            x = x + sinusoids(T, o.d_model).to(x)
        x = F.dropout(x, o.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        x = x if self.ln is None else self.ln(x)
        return F.linear(x, self.tok.weight if self.head is None else self.head.weight)

    def fill(self, weights: dict[str, Tensor]) -> None:
        """Copies weights bit for bit. Raises RuntimeError that names those that do not fit the configuration."""
        dtype = getattr(torch, self.o.dtype)
        for name, x in weights.items():
            if x.dtype != dtype:
                raise RuntimeError(f"{name} is {x.dtype}, but the configuration has {dtype}; use module.to({dtype})")
        self.to(dtype).load_state_dict(weights)


def load(path: str | os.PathLike[str]) -> Transformer:
    """Returns the model of a run directory, or of a file of heed train or heed export, as a module in eval mode.

    The module maps ids [B, T] to logits [B, T, classes]. It is plain PyTorch, and its state_dict() has heed's names.
    The weights of a run are those of the last save.

    Raises OSError if a file cannot be read, heed.Error, ValueError or RuntimeError if it is damaged or does not fit the
    configuration, and heed.Error if heed import, which reads files with other names of weights, refuses it.
    """
    path = Path(path)
    file = _safetensors.last_save(path) if path.is_dir() else path
    arrays, metadata = _safetensors.read_weights(file)
    if path.is_file() and ("tok.weight" not in arrays or any("_proj" in name for name in arrays)):  # other names
        with tempfile.TemporaryDirectory() as folder:
            call("import", path, out=f"{folder}/run")
            return load(f"{folder}/run")
    call("info", file)  # verifies the checksum
    config = metadata.pop("config", None)
    if path.is_file():
        config = metadata.get("recipe")
    elif config is None:
        config = (path / "config.toml").read_text("utf-8")
    if config is None:
        raise ValueError(f"{path} does not contain the configuration of a model; use a run, or a file of heed train")
    trained = stated_in(metadata.get("recipe", ""))
    for key, value in stated_in(config).items():
        if trained.get(key, value) != value:
            raise ValueError(f"{path}/config.toml has {key} = {json.dumps(value)}, but the weights were trained with "
                             f"{key} = {json.dumps(trained[key])}; restore the line, or train a new run")  # fmt: skip
    weights = {name: torch.from_numpy(x) for name, x in arrays.items()}
    rows = {name: len(x) for name, x in weights.items() if x.dim() == 2}
    vocab = rows.get("tok.weight", 0)
    module = Transformer(config, metadata, vocab, rows.get("head.weight", vocab))
    module.fill(weights)
    return module.eval()


def save(module: Transformer, path: str | os.PathLike[str]) -> None:
    """Writes a module that load() returned as a new run of weights: config.toml and model.safetensors.

    All commands of heed read it, with a note that the file has no checksum; heed train --from PATH trains it further.
    The directory is not a run until both files are complete. A killed process can leave it.

    Raises TypeError for another module, FileExistsError if `path` exists, RuntimeError if parameters were added,
    removed, resized or converted to another dtype, and OSError if a file cannot be written.
    """
    if not isinstance(module, Transformer):
        raise TypeError(f"save() needs a module that heed.torch.load() returned, got {type(module).__name__}")
    path = Path(path)
    if os.path.lexists(path):
        raise FileExistsError(f"{path} exists; choose another directory, or remove it")
    weights = module.state_dict()
    Transformer(module.config, {}, module.vocab, module.classes).fill(weights)  # checks names, shapes and dtypes
    arrays = {name: x.cpu().numpy() for name, x in weights.items()}
    path.mkdir(parents=True)
    try:
        _safetensors.write_file(path / "config.toml", module.config.encode())
        _safetensors.write(path / "model.safetensors", arrays, module.metadata)
    except BaseException:
        shutil.rmtree(path)
        raise
