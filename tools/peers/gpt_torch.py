#!/usr/bin/env python3
"""The training step of heed's speed presets in PyTorch, timed: the peer of `heed bench train`.

Its parameters have the names and shapes of heed's Transformer: parity.py moves them both ways."""
import argparse
import os

import torch
from torch import nn
from torch.nn import functional as F

from timing import (BETAS, EPS, LEARNING_RATE, MAX_NORM, PRESETS, WEIGHT_DECAY, add_arguments,
                    time_steps)


class Block(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.qkv, self.proj = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.up, self.down = nn.Linear(d_model, 4 * d_model), nn.Linear(4 * d_model, d_model)

    def forward(self, x):
        def split(y):  # [B, T, d_model] -> [B, heads, T, d_head]
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        q, k, v = map(split, self.qkv(self.ln1(x)).chunk(3, dim=-1))
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(z.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self, preset):
        super().__init__()
        d = preset.d_model
        self.tok, self.pos = nn.Embedding(preset.vocab, d), nn.Embedding(preset.context, d)
        self.blocks = nn.ModuleList(Block(d, preset.heads) for _ in range(preset.layers))
        self.ln, self.head = nn.LayerNorm(d), nn.Linear(d, preset.vocab, bias=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos.weight[:ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


def make_optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=BETAS, eps=EPS,
                             weight_decay=WEIGHT_DECAY)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser)
    parser.add_argument("--compile", action="store_true", help="with torch.compile")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:arguments.threads])
    for name in arguments.presets or PRESETS:
        preset = PRESETS[name]
        torch.manual_seed(1)
        model = GPT(preset)
        forward = torch.compile(model) if arguments.compile else model
        optimizer = make_optimizer(model)

        def step():
            ids, targets = torch.randint(preset.vocab, (2, preset.batch, preset.context))
            loss = F.cross_entropy(forward(ids).flatten(0, 1), targets.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
            optimizer.step()
            return loss.item()

        who = f"torch {torch.__version__}" + (" compiled" if arguments.compile else "")
        time_steps(who, name, step, arguments.seconds)


if __name__ == "__main__":
    main()
