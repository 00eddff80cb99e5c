#!/usr/bin/env python3
"""Runs another library (one that heed is compared with) as a process that waits for work. Reads lines
`WORK SIZE SECONDS` from stdin. For each line, repeats the work for that many seconds, at least once, and prints
the median seconds of one repetition, like `heed_blocks`.

VARIANT is jax, or torch with options: torch, torch+fused, torch+compile+fused, torch+bf16.

    echo train toy 1 | python tools/peers/peer.py torch+fused --threads 1
"""
import argparse
import os
import statistics
import sys
import time

from presets import PRESETS


def make_call(variant, work, size):
    library, *words = variant.split("+")
    if library == "jax":
        import gpt_jax
        if work == "train":
            return gpt_jax.training_step(PRESETS[size])
    elif library == "torch":
        import gpt_torch
        if work == "train":
            return gpt_torch.training_step(PRESETS[size], words)
        if work == "generate":
            return gpt_torch.generation(PRESETS[size], words)
        if work == "attention":
            return gpt_torch.attention([int(n) for n in size.split("x")])
    raise SystemExit(f"peer: {variant} has no {work}")


def median_call(call, seconds):
    times = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median_low(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variant", metavar="VARIANT")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads and cores (default: %(default)s)")
    arguments = parser.parse_args()
    # XLA (JAX) starts one thread per available core, so this also limits its threads.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:arguments.threads])
    if arguments.variant.startswith("torch"):
        import torch
        torch.set_num_threads(arguments.threads)
    calls = {}
    for line in sys.stdin:
        work, size, seconds = line.split()
        if (work, size) not in calls:
            calls[work, size] = make_call(arguments.variant, work, size)
        print(f"{median_call(calls[work, size], float(seconds)):.9g}", flush=True)


if __name__ == "__main__":
    main()
