"""The speed presets and their hyperparameters, used by gpt_torch.py, gpt_jax.py and parity.py."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """Sizes of a pre-norm GPT. nn/lab/train/README.md describes the options that all presets have in common."""
    vocab: int
    d_model: int
    heads: int
    layers: int
    context: int
    batch: int


PRESETS = {
    "micro": Preset(32, 32, 2, 1, 16, 16),
    "toy": Preset(64, 64, 4, 2, 64, 32),
    "chargpt": Preset(65, 128, 4, 4, 64, 12),
    "small": Preset(65, 384, 6, 6, 256, 8),
}
LEARNING_RATE, BETAS, EPS, WEIGHT_DECAY, MAX_NORM = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0
