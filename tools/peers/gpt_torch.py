"""The speed presets of heed, implemented in PyTorch and timed by peer.py: a training step, generation and attention.

The parameters have the names and shapes of heed's Transformer, so parity.py can exchange them."""
import torch
from torch import nn
from torch.nn import functional as F

from presets import BETAS, EPS, LEARNING_RATE, MAX_NORM, WEIGHT_DECAY


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


def make_optimizer(model, **how):
    return torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=BETAS, eps=EPS,
                             weight_decay=WEIGHT_DECAY, **how)


def make_model(preset):
    torch.manual_seed(1)
    return GPT(preset)


def training_step(preset, words):
    """Returns a function that trains one step on one batch. `words` may contain fused (the fused AdamW), compile
    (torch.compile) and bf16 (autocast to bfloat16)."""
    model = make_model(preset)
    optimizer = make_optimizer(model, fused="fused" in words)
    ids, targets = torch.randint(preset.vocab, (2, preset.batch, preset.context))

    def loss_of(ids, targets):
        with torch.autocast("cpu", torch.bfloat16, enabled="bf16" in words):
            return F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
    if "compile" in words:
        loss_of = torch.compile(loss_of)

    def step():
        loss = loss_of(ids, targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        return loss.item()
    return step


def attend_cached(block, x, cache, t, keep):
    """Computes Block.forward for the token at position t. x is [1, 1, d_model]. cache contains k and v, each
    [1, heads, T, d_head]. `keep` is a mask over the whole cache. If it is None, only the first t + 1 entries are read."""
    q, k, v = (y.unflatten(-1, (block.heads, -1)).transpose(1, 2)
               for y in block.qkv(block.ln1(x)).chunk(3, dim=-1))
    for whole, new in zip(cache, (k, v)):
        whole.index_copy_(2, t, new)
    k, v = cache if keep is not None else (whole[:, :, :int(t) + 1] for whole in cache)
    z = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
    x = x + block.proj(z.transpose(1, 2).flatten(2))
    return x + block.down(F.gelu(block.up(block.ln2(x))))


def generation(preset, words):
    """Returns a function that generates one sequence, from one token to a full context, greedily and with cached keys
    and values."""
    model = make_model(preset)
    static = "compile" in words  # compiled code needs the same shapes for every token
    shape = (2, 1, preset.heads, preset.context, preset.d_model // preset.heads)
    caches = [torch.zeros(shape) for _ in model.blocks]
    places = [torch.tensor([t]) for t in range(preset.context)]

    def next_logits(token, t):  # token [1, 1], t [1]
        x = model.tok(token) + model.pos(t)
        keep = (torch.arange(preset.context) <= t)[None] if static else None
        for block, cache in zip(model.blocks, caches):
            x = attend_cached(block, x, cache, t, keep)
        return model.head(model.ln(x))[0, 0]
    run = torch.compile(next_logits) if static else next_logits

    @torch.inference_mode()
    def generate():
        tokens = [0]
        for t in places:
            tokens.append(run(torch.tensor([[tokens[-1]]]), t).argmax().item())
        return tokens

    with torch.inference_mode():  # checks that a model without a cache gives the same logits
        tokens = generate()
        exact = model(torch.tensor([tokens[:-1]]))[0, -1]
        error = (run(torch.tensor([[tokens[-2]]]), places[-1]) - exact).abs().max().item()
        if not error <= 1e-4:
            raise RuntimeError(f"cached generation is off by {error}")
    return generate


def attention(shape):
    """Returns a function that runs causal attention, forward and backward. `shape` is (batch, heads, T, d_head)."""
    torch.manual_seed(1)
    q, k, v = (torch.randn(shape, requires_grad=True) for _ in range(3))
    gradient = torch.randn(shape)

    def call():
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        torch.autograd.grad(z, (q, k, v), gradient)
    return call
