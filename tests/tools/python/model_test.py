#!/usr/bin/env python3
"""Tests of heed.torch.load and save: random models of heed train, whose logits and losses are compared with heed's.

    PYTHONPATH=build/release/python python3 tests/tools/python/model_test.py [--all] [--seed N]
"""
import argparse
import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from unittest import mock

try:
    import torch
except ImportError:
    sys.exit(print("skipped: PyTorch is not installed"))

import heed.torch
from heed import _model, _nanogpt, _program, _safetensors

parser = argparse.ArgumentParser()
parser.add_argument("--all", action="store_true", help="60 models instead of 6")
parser.add_argument("--seed", type=int, default=1)
ARGUMENTS, REST = parser.parse_known_args()
BOUNDS = {"float32": 1e-5, "float64": 1e-12}  # of a difference of log-probabilities, divided by the largest
LETTERS = "abcdefgh"
NAMES = "torch", "transformerlens"  # nanoGPT has almost none of the random models

torch.set_num_threads(1)


def call(*arguments):
    """Returns the output of heed. A refused command raises CalledProcessError, whose stderr has the reason."""
    command = [_program.path(), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def random_options(draw):
    """Returns options of heed train for a small model. heed refuses some combinations."""
    yes = lambda key: f"--{key}" if draw.random() < 0.5 else f"--no-{key}"
    options = {"layers": [1, 2, 3], "context": [12, 17], "d-model": [6, 9, 12, 24], "heads": [2, 3, 4, 6],
               "d-head": [0, 0, 2, 5, 6], "d-value": [0, 0, 3, 7], "kv-heads": [0, 0, 1, 3],
               "scale": ["1/sqrt-d-head", "none", "1/d-head", "1/sqrt-d-model", "0.3"],
               "soft-cap": [0, 0, 0.5, 3], "window": [0, 0, 1, 5],
               "positions": ["learned", "sinusoidal", "rope", "alibi", "none"], "norm": ["pre", "pre", "post", "none"],
               "norm-kind": ["layernorm", "rmsnorm"], "dtype": ["float32", "float64"], "dropout": [0, 0.1],
               "seed": range(1000)}
    plain = draw.random() < 0.5  # a model that other libraries have, too
    if plain:
        options |= {"d-head": [0], "d-value": [0], "kv-heads": [0], "scale": ["1/sqrt-d-head"], "soft-cap": [0],
                    "window": [0], "norm": ["pre"], "positions": ["learned", "none"]}
    words = [word for key, values in options.items() for word in (f"--{key}", str(draw.choice(values)))]
    words += map(yes, ["qk-norm", "bias", "norm-bias", "tied"][plain:])
    if not plain and draw.random() < 0.5:
        words += ["--o-bias", draw.choice(["as-bias", "yes", "no"])]
    if draw.random() < 0.7:
        words += ["--mlp", "--mlp-ratio", draw.choice(["4", "0.375", "2.67"]),  # 0.375 * 12: half a neuron
                  "--mlp-act", draw.choice(["gelu", "gelu-tanh", "relu", "silu", "swiglu"])]
    return words


def reason_of(error):
    return error.stderr.strip().split(", got ")[0]


def equal_bits(a, b):
    return a.keys() == b.keys() and all(
        a[n].dtype == b[n].dtype and a[n].shape == b[n].shape and a[n].tobytes() == b[n].tobytes() for n in a)


@contextlib.contextmanager
def full_disk(size):
    """Within it, a file can have at most `size` bytes: a further write raises OSError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class Model(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.text, self.exported = self.folder / "text.txt", Counter()
        self.text.write_text("".join(random.Random(1).choices(LETTERS, k=1500)))

    def train(self, *options, out="a"):
        call("train", *options, *"--steps 2 --batch 4 --eval-batch 4 --eval-every 0 --quiet --overwrite --out".split(),
             self.folder / out)
        return self.folder / out

    def error(self, run, module):
        """Returns the largest difference of a log-probability by heed and by the module, divided by the largest."""
        tokens = json.loads(call("eval", run, "--prompt", "abcdabchgab", "--json"))["tokens"]
        ids = torch.tensor([row["id"] for row in tokens])
        ours = torch.tensor([row["log_probability"] for row in tokens[1:]], dtype=torch.float64)
        with torch.no_grad():
            theirs = module(ids[None])[0, :-1].double().log_softmax(-1).gather(1, ids[1:, None])[:, 0]
        return ((ours - theirs).abs().max() / ours.abs().max()).item()

    def export_and_import(self, run, names, refused):
        """Compares all bits of an exported and imported run. If heed refuses the export, counts the reason."""
        file, back = self.folder / "x.safetensors", self.folder / "imported"
        try:
            call("export", run, "--names", names, "--out", file)
        except subprocess.CalledProcessError as e:
            self.assertEqual(e.returncode, 2, e.stderr)
            refused[f"export: {reason_of(e)}"] += 1
            return False
        call("import", file, "--out", back, "--overwrite")
        self.assertTrue(equal_bits(*(_safetensors.read(x / "model.safetensors")[0] for x in (run, back))), names)
        self.assertEqual(*(json.loads(call("eval", x, "--json"))["loss"] for x in (run, back)))
        return True

    def compare(self, options, refused):
        """Compares the run in the folder a: log-probabilities, all bits after there and back, and logits of random weights."""
        run, draw = self.folder / "a", torch.Generator().manual_seed(1)
        for names in NAMES:
            self.exported[names] += self.export_and_import(run, names, refused)
        module = heed.torch.load(run)
        errors = [self.error(run, module)]
        back, other = self.folder / "b", self.folder / "c"
        heed.torch.save(module, back)
        self.assertTrue(equal_bits(*(_safetensors.read(x / "model.safetensors")[0] for x in (run, back))))
        self.assertEqual(*(json.loads(call("eval", x, "--json"))["loss"] for x in (run, back)))
        with torch.no_grad():  # biases of 0 and norms of 1 would hide mistakes
            for x in module.parameters():
                x += 0.3 * torch.randn(x.shape, generator=draw, dtype=x.dtype)
        heed.torch.save(module, other)
        errors.append(self.error(other, module))
        self.assertTrue(max(errors) <= BOUNDS[options[options.index("--dtype") + 1]], (errors, options))
        return max(errors)

    def test_random_models(self):
        draw, refused, errors = random.Random(ARGUMENTS.seed), Counter(), {"float32": [], "float64": []}
        while len(errors["float32"]) + len(errors["float64"]) < (60 if ARGUMENTS.all else 6):
            options = random_options(draw)
            options = draw.choice([["induction", "--task-periods", "3..5"], ["--text", self.text]]) + options
            try:
                self.train(*options)
            except subprocess.CalledProcessError as e:
                self.assertEqual(e.returncode, 2, e.stderr)
                refused[f"train: {reason_of(e)}"] += 1
                continue
            errors[options[options.index("--dtype") + 1]].append(self.compare(options, refused))
            for name in "bc":
                shutil.rmtree(self.folder / name)
        for reason, count in refused.most_common():
            print(f"refused {count} times: {reason}")
        print("exported and imported:", *(f"{count} with names of {names}" for names, count in self.exported.items()))
        self.assertTrue(not ARGUMENTS.all or all(self.exported[names] for names in NAMES), self.exported)
        for dtype, values in errors.items():
            print(f"{dtype}: {len(values)} models, largest error {max(values, default=0):.1e}")

    def test_a_saved_module_is_a_run_of_weights(self):
        run = self.train("--text", self.text, "--save-every", "1", "--dropout", "0.5", "--context", "12")
        module, saved = heed.torch.load(run), self.folder / "new" / "b"
        heed.torch.save(module, saved)
        self.assertEqual(sorted(x.name for x in saved.iterdir()), ["config.toml", "model.safetensors"])
        self.assertEqual(saved.stat().st_mode, run.stat().st_mode)
        for command in ("eval", "info", "generate --prompt abc --tokens 3", "eval --prompt abc",
                        f"study --prompt abcab --out {self.folder / 's'}",
                        f"export --names transformerlens --out {self.folder / 'x.safetensors'}"):
            call(*command.split(), saved)
        call("train", "--from", saved, *"--steps 1 --eval-every 0 --quiet --out".split(), self.folder / "c")
        for file, equal in (("checkpoints/000001.safetensors", False), ("checkpoints/000002.safetensors", True)):
            other = heed.torch.load(run / file).state_dict()
            self.assertEqual(all(torch.equal(x, other[n]) for n, x in module.state_dict().items()), equal, file)
        shutil.copy(run / "checkpoints/000001.safetensors", run / "model.safetensors")  # as after a kill
        self.assertTrue(all(torch.equal(x, module.state_dict()[n]) for n, x in heed.torch.load(run).state_dict().items()))
        ids = torch.tensor([[0, 1, 2]])
        self.assertFalse(module.training)
        self.assertTrue(torch.equal(module(ids), module(ids)))
        self.assertFalse(torch.equal(module.train()(ids), module.eval()(ids)))  # dropout
        with self.assertRaisesRegex(ValueError, "at most 12 tokens, got 13"):
            module(torch.zeros(1, 13, dtype=torch.long))

    def test_exported_files(self):
        run = self.train(*"--positions learned --mlp-act gelu --bias --norm-bias".split(), "--text", self.text)
        weights, file = heed.torch.load(run).state_dict(), self.folder / "x.safetensors"
        for names in ("torch", "nanogpt", "transformerlens"):
            call("export", run, "--names", names, "--out", file)
            module = heed.torch.load(file)
            self.assertEqual(module.state_dict().keys(), weights.keys())
            self.assertTrue(all(torch.equal(x, weights[n]) for n, x in module.state_dict().items()), names)
            heed.torch.save(module, self.folder / names)
            self.assertEqual(*(json.loads(call("eval", x, "--json"))["loss"] for x in (run, self.folder / names)))
        _safetensors.write(self.folder / "y.safetensors", _safetensors.read(file)[0], {})
        with self.assertRaisesRegex(heed.Error, "--like"):
            heed.torch.load(self.folder / "y.safetensors")

    def test_checkpoints_of_nanogpt(self):
        run, exported, config = self.folder / "run", self.folder / "x.safetensors", self.folder / "import.toml"
        self.train(*"--positions learned --mlp --tied".split(), "--text", self.text)
        call("export", self.folder / "a", "--names", "nanogpt", "--out", exported)
        weights = {name: torch.from_numpy(x) for name, x in _safetensors.read(exported)[0].items()}
        sizes = {"n_layer": 4, "n_head": 4, "n_embd": 128, "block_size": 64, "bias": False}
        checkpoint, out = self.folder / "ckpt.pt", self.folder / "y.safetensors"
        words = mock.patch.object(sys, "argv", ["", str(checkpoint), str(out)])
        refused = "is not a checkpoint of nanoGPT, a dict with 'model' and 'model_args', .*%s"
        for model, args, error in ((weights, None, refused % "NoneType"), (None, sizes, refused % "NoneType"),
                                   (weights, [2, 2], refused % "list"), ({"a": 1}, sizes, refused % "int"),
                                   (weights, sizes | {"n_head": torch.tensor(2)}, refused % "Tensor")):
            torch.save({"model": model, "model_args": args}, checkpoint)
            with words, self.assertRaisesRegex(SystemExit, error):
                _nanogpt.main()
            self.assertFalse(out.exists())
        torch.save({"model": {f"_orig_mod.{n}": x for n, x in weights.items()}, "model_args": sizes}, checkpoint)
        with words, contextlib.redirect_stdout(None):
            _nanogpt.main()
        config.write_text(f'[train]\ntext = "{self.text}"\nmlp-act = "gelu"\n')
        call("import", out, "--out", run, "--config", config)
        weights = [_safetensors.read(x / "model.safetensors")[0] for x in (run, self.folder / "a")]
        self.assertTrue(equal_bits(*weights))
        for error in ("y.safetensors exists; choose another name", "No such file .*ckpt.pt"):
            with words, self.assertRaisesRegex(SystemExit, f"cannot convert .*ckpt.pt to .*: .*{error}"):
                _nanogpt.main()
            checkpoint.unlink(missing_ok=True)

    def refused_save(self, error, text, module, path):
        before = sorted(self.folder.rglob("*"))
        with self.assertRaisesRegex(error, text):
            heed.torch.save(module, path)
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_refused_modules(self):
        run, new = self.train(), self.folder / "b"
        module = heed.torch.load(run)
        self.refused_save(FileExistsError, "exists; choose another directory", module, run)
        self.refused_save(TypeError, "got Linear", torch.nn.Linear(2, 2), new)
        for size in (100, 20_000):  # less than config.toml, and less than model.safetensors
            with full_disk(size):
                self.refused_save(OSError, "File too large", module, new)
        text = "tok.weight is torch.float64, but the configuration has torch.float32; use module.to"
        self.refused_save(RuntimeError, text, module.double(), new)
        for change, text in ((lambda m: delattr(m.blocks[0], "proj"), "Missing key.*blocks.0.proj.weight"),
                             (lambda m: setattr(m, "more", torch.nn.Linear(2, 2)), "Unexpected key.*more.weight"),
                             (lambda m: setattr(m, "tok", torch.nn.Embedding(40, 64)), "size mismatch for tok.weight")):
            module = heed.torch.load(run)
            change(module)
            self.refused_save(RuntimeError, f"(?s){text}", module, new)

    def test_a_killed_save_leaves_no_run(self):
        runs, module = self.folder / "runs", heed.torch.load(self.train())
        kills = [f"{point} {file}" for file in ("config", "model") for point in ("fsync", "replace")]
        for kill in kills:
            child = os.fork()
            if child == 0:
                order = iter(kills)
                die = lambda *_: next(order) == kill and os.kill(os.getpid(), signal.SIGKILL)
                os.fsync, replace = die, os.replace
                os.replace = lambda *files: die() or replace(*files)
                try:
                    heed.torch.save(module, runs / kill)
                finally:
                    os._exit(1)
            self.assertEqual(os.waitpid(child, 0)[1], signal.SIGKILL)
            self.assertTrue((runs / kill).is_dir())
            with self.assertRaisesRegex(heed.Error, "contains no run"):
                heed.runs(runs)
        heed.torch.save(module, runs / "b")
        self.assertEqual(len(heed.runs(runs)), 1)

    def test_damaged_files(self):
        run = self.train()
        file, config = run / "state.safetensors", run / "config.toml"
        text, draw = config.read_text(), random.Random(1)
        exported = self.folder / "x.safetensors"
        call("export", run, "--names", "transformerlens", "--out", exported)
        for path, weights in ((run, file), (run / "best.safetensors",) * 2, (exported, exported)):
            intact = weights.read_bytes()
            for at in draw.sample(range(len(intact)), 20) + [len(intact) - 1]:
                weights.write_bytes(intact[:at] + bytes([intact[at] ^ 1 << draw.randrange(8)]) + intact[at + 1 :])
                with self.assertRaises((heed.Error, ValueError), msg=f"byte {at} of {weights.name}"):
                    heed.torch.load(path)
            weights.write_bytes(intact)
            heed.torch.load(path)
        file.unlink()
        file = run / "model.safetensors"
        arrays, _ = _safetensors.read(file)
        for key, value in _model.stated_in(text).items():
            other = f"{value}x" if isinstance(value, str) else not value if isinstance(value, bool) else value + 1
            old, new = (f"{key} = {json.dumps(x)}" for x in (value, other))
            config.write_text(text.replace(f"\n{old}\n", f"\n{new}\n"))
            with self.assertRaisesRegex(ValueError, f"toml has {new}, but .* trained with {old}; restore the line"):
                heed.torch.load(run)
        for old, new, error, message in (("heads = 2\n", "", ValueError, "lacks heads"),
                                         ("heads = 2", "heads = two", ValueError, "lacks heads"),
                                         ("heads = 2", 'heads = 2\nsink = "zero"', ValueError, 'uses sink = "zero"'),
                                         ("layers = 2", "layers = 3", RuntimeError, "blocks.2.ln1.weight"),
                                         ("float32", "float64", RuntimeError, "has torch.float64")):
            config.write_text(text.replace(old, new, 1))
            file.unlink()
            _safetensors.write(file, arrays, {})  # without the configuration: that of config.toml
            with self.assertRaisesRegex(error, message):
                heed.torch.load(run)
        with self.assertRaisesRegex(ValueError, "does not contain the configuration"):
            heed.torch.load(file)
        with self.assertRaises(FileNotFoundError):
            heed.torch.load(self.folder / "nothing")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *REST])
