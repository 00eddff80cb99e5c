"""A compiled training step of heed's speed presets, implemented in JAX and timed by peer.py."""
import functools
import math

import jax
import jax.numpy as jnp

from presets import BETAS, EPS, LEARNING_RATE, MAX_NORM, WEIGHT_DECAY


def initial_parameters(preset, key):
    keys = iter(jax.random.split(key, 3 + 4 * preset.layers))
    d = preset.d_model

    def matrix(rows, columns):
        return 0.02 * jax.random.normal(next(keys), (rows, columns))

    def norm():
        return {"weight": jnp.ones(d), "bias": jnp.zeros(d)}

    def linear(inputs, outputs):
        return {"weight": matrix(inputs, outputs), "bias": jnp.zeros(outputs)}

    def block():
        return {"ln1": norm(), "qkv": linear(d, 3 * d), "proj": linear(d, d),
                "ln2": norm(), "up": linear(d, 4 * d), "down": linear(4 * d, d)}
    return {"tok": matrix(preset.vocab, d), "pos": matrix(preset.context, d),
            "blocks": [block() for _ in range(preset.layers)],
            "ln": norm(), "head": matrix(d, preset.vocab)}


def layer_norm(p, x):
    centered = x - x.mean(-1, keepdims=True)
    variance = (centered ** 2).mean(-1, keepdims=True)
    return centered / jnp.sqrt(variance + 1e-5) * p["weight"] + p["bias"]


def linear(p, x):
    return x @ p["weight"] + p["bias"]


def attend(q, k, v, heads):
    batch, length, d = q.shape
    q, k, v = (x.reshape(batch, length, heads, d // heads).swapaxes(1, 2) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(d // heads)
    causal = jnp.tril(jnp.ones((length, length), bool))
    z = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), -1) @ v
    return z.swapaxes(1, 2).reshape(batch, length, d)


def loss_of(parameters, ids, targets, heads):
    x = parameters["tok"][ids] + parameters["pos"]
    for p in parameters["blocks"]:
        q, k, v = jnp.split(linear(p["qkv"], layer_norm(p["ln1"], x)), 3, -1)
        x = x + linear(p["proj"], attend(q, k, v, heads))
        x = x + linear(p["down"], jax.nn.gelu(linear(p["up"], layer_norm(p["ln2"], x)),
                                              approximate=False))
    log_p = jax.nn.log_softmax(layer_norm(parameters["ln"], x) @ parameters["head"], -1)
    return -jnp.take_along_axis(log_p, targets[..., None], -1).mean()


@functools.partial(jax.jit, static_argnames="heads")
def train_step(state, ids, targets, heads):
    parameters, mean, square, t = state
    loss, gradient = jax.value_and_grad(loss_of)(parameters, ids, targets, heads)
    tree_map, (beta1, beta2) = jax.tree_util.tree_map, BETAS
    norm = jnp.sqrt(sum((g * g).sum() for g in jax.tree_util.tree_leaves(gradient)))
    scale = jnp.minimum(1.0, MAX_NORM / (norm + 1e-6))
    gradient = tree_map(lambda g: g * scale, gradient)
    t = t + 1
    mean = tree_map(lambda m, g: beta1 * m + (1 - beta1) * g, mean, gradient)
    square = tree_map(lambda s, g: beta2 * s + (1 - beta2) * g * g, square, gradient)

    def updated(w, m, s):
        direction = m / (1 - beta1 ** t) / (jnp.sqrt(s / (1 - beta2 ** t)) + EPS)
        return w * (1 - LEARNING_RATE * WEIGHT_DECAY) - LEARNING_RATE * direction
    return (tree_map(updated, parameters, mean, square), mean, square, t), loss


def training_step(preset):
    """Returns a function that trains one step on one batch."""
    key = jax.random.PRNGKey(1)
    parameters = initial_parameters(preset, key)
    zeros = jax.tree_util.tree_map(jnp.zeros_like, parameters)
    state = (parameters, zeros, zeros, 0.0)
    ids, targets = jax.random.randint(key, (2, preset.batch, preset.context), 0, preset.vocab)

    def step():
        nonlocal state
        state, loss = train_step(state, ids, targets, preset.heads)
        return loss.item()
    return step
