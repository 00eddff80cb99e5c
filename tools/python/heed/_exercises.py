"""Exercises: write the five backward passes. Replace each call of blank().

Each function gets the arguments of its forward pass and dy, the gradient of a loss with respect to the output.
It returns the gradient of each array of floating-point numbers, with the shape of this array.

    python -m heed.exercises heed_exercises.py
"""

import numpy as np


def blank():
    raise NotImplementedError


# 1. Softmax over the last axis.
def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax_backward(x, dy):
    """Returns dx. x and dy: [rows, n]."""
    return blank()


# 2. The mean cross entropy of rows of logits. The targets are integers.
def cross_entropy(logits, targets):
    return -np.log(softmax(logits)[np.arange(len(logits)), targets]).mean()


def cross_entropy_backward(logits, targets, dy):
    """Returns dlogits. logits: [rows, n]; targets: [rows]; dy: a number."""
    return blank()


# 3. Layer norm over the last axis.
def layer_norm(x, gain, bias):
    centered = x - x.mean(-1, keepdims=True)
    return gain * centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5) + bias


def layer_norm_backward(x, gain, bias, dy):
    """Returns dx, dgain, dbias. x and dy: [rows, n]; gain and bias: [n]."""
    return blank()


# 4. Causal attention with one head: query i reads the keys 0 to i.
def attention(q, k, v):
    scores = q @ k.T / np.sqrt(q.shape[-1])
    return softmax(np.where(np.tri(len(q), dtype=bool), scores, -np.inf)) @ v


def attention_backward(q, k, v, dy):
    """Returns dq, dk, dv. All arrays: [positions, d]."""
    return blank()


# 5. A block: layer norm, attention and a residual connection. Use the functions above.
def block(x, gain, bias, wq, wk, wv, wo):
    n = layer_norm(x, gain, bias)
    return x + attention(n @ wq, n @ wk, n @ wv) @ wo


def block_backward(x, gain, bias, wq, wk, wv, wo, dy):
    """Returns dx, dgain, dbias, dwq, dwk, dwv, dwo. x and dy: [positions, d]; weights: [d, d]."""
    return blank()
