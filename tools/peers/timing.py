"""What gpt_torch.py and gpt_jax.py share: the presets, and how a step is timed."""
import argparse
import statistics
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """A pre-norm GPT; nn/train/README.md says what they all have in common."""
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


def preset_name(text):
    if text not in PRESETS:
        raise argparse.ArgumentTypeError(f"'{text}' is none of {', '.join(PRESETS)}")
    return text


def add_arguments(parser):
    parser.add_argument("presets", nargs="*", metavar="PRESET", type=preset_name,
                        help="of " + ", ".join(PRESETS) + " (default: all)")
    parser.add_argument("--threads", type=int, default=2, metavar="N",
                        help="cores to use (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=6, metavar="S",
                        help="how long to time a preset, small three times as long (default: %(default)s)")


def time_steps(who, name, step, seconds):
    """Prints the median of step()'s duration; the first two, which compile and warm up, left out."""
    preset = PRESETS[name]
    step()
    step()
    durations = []
    end = time.perf_counter() + seconds * (3 if name == "small" else 1)
    while len(durations) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        durations.append(time.perf_counter() - start)
    median = statistics.median(durations)
    tokens = preset.batch * preset.context / median
    print(f"{who:24s} {name:8s} {1e3 * median:9.3f} ms/step {tokens:10.0f} tokens/s", flush=True)
