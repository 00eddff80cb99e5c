#!/usr/bin/env python3
"""Tests of runs, studies and pictures as Python values. Each result is compared with what the program prints.

    PYTHONPATH=build/release/python python3 tests/tools/python/runs_test.py
"""
import base64
import contextlib
import html
import io
import json
import os
import pathlib
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

try:
    import numpy as np
except ImportError:
    sys.exit(print("skipped: python3-numpy is not installed"))

import heed
from heed import _program, _runs

# For subprocesses: the tests change the current directory, and PYTHONPATH may be relative.
os.environ["PYTHONPATH"] = str(pathlib.Path(heed.__file__).resolve().parents[1])
# Trains without an end; Ctrl-C is sent after the line of the first steps.
ENDLESS = """
import heed, sys
try:
    heed.train("reverse", layers=1, d_model=16, steps=10**6, eval_every=0, out=sys.argv[1])
except KeyboardInterrupt:
    print("interrupted at", heed.load(sys.argv[1]).info["saved_step"])
"""


def program(*words):
    """Returns the JSON object that a command prints. Fails if its exit code is not 0."""
    return json.loads(subprocess.check_output([_program.path(), *words, "--json"], stderr=subprocess.DEVNULL))


class Place(unittest.TestCase):
    """The current directory is a new one with a run."""

    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        os.chdir(cls.stack.enter_context(tempfile.TemporaryDirectory()))
        cls.run_ = heed.train("induction", d_model=np.int64(32), mlp=np.bool_(False), lr=2e-3, steps=30, warmup=5,
                              eval_every=10, out=pathlib.Path("runs/a"), quiet=True)  # fmt: skip

    @classmethod
    def tearDownClass(cls):
        os.chdir("/")
        cls.stack.close()


class Runs(Place):
    def test_values_of_a_run(self):
        run, info = self.run_, program("info", "runs/a")
        self.assertEqual((str(run), os.fspath(run), repr(run)), ("runs/a", "runs/a", "heed.load('runs/a')"))
        self.assertEqual((run.config, run.result, run.vocabulary), (info["config"], info["result"], info["vocabulary"]))
        self.assertEqual([run.config[key] for key in ("task", "d_model", "mlp", "lr", "task_periods")],
                         ["induction", 32, False, 2e-3, "3..24"])  # fmt: skip
        self.assertEqual((info["saved_step"], run.result["steps"], len(run.vocabulary)), (30, 30, 33))
        self.assertEqual(run.encode("abB"), [32, 0, 1, 27])
        for text, prompt in (("?", "prompt: '?'"), ("-h", "prompt: '-'"), ("a" * 99, "at most 48")):
            with self.assertRaisesRegex(heed.Error, re.escape(prompt)):
                run.encode(text)
        self.assertIn("runs/a", [r.path for r in heed.runs("runs")])
        self.assertEqual(len(heed.runs()), len(heed.runs("runs")))
        for path in ("no", "runs/a"):
            self.assertRaises(heed.Error, heed.runs, path)
        with self.assertRaisesRegex(heed.Error, "model.safetensors is a file, not the directory of a run"):
            heed.load("runs/a/model.safetensors")
        self.assertRaises(heed.Error, heed.load, "--help")
        self.assertRaisesRegex(TypeError, "a prompt is a text, got list", run.encode, [1, 2])
        self.assertEqual(heed.load(b"runs/a").config, run.config)

    def test_metrics_are_metrics_csv(self):
        metrics, losses = self.run_.metrics, self.run_.metrics["loss"]
        np.testing.assert_array_equal(metrics["step"], np.arange(31))
        self.assertTrue(np.isnan(losses[0]) and np.isfinite(losses[1:]).all() and losses[30] < losses[1])
        self.assertEqual(list(np.flatnonzero(np.isfinite(metrics["eval_loss"]))), [0, 10, 20, 30])
        lines = pathlib.Path("runs/a/metrics.csv").read_text().splitlines()
        self.assertEqual(losses[7], float(lines[8].split(",")[1]))
        os.makedirs("cut", exist_ok=True)
        for text, steps in (("step,loss\n0,1.5\n1,0.9", [0]), ("", None)):  # heed is writing the second row
            pathlib.Path("cut/metrics.csv").write_text(text)
            self.assertEqual(heed.Run("cut").metrics.get("step"), steps)

    def test_weights_are_those_of_the_file(self):
        weights = self.run_.weights()
        tensors = program("info", "runs/a")["tensors"]
        self.assertEqual({t["name"]: tuple(t["shape"]) for t in tensors}, {k: w.shape for k, w in weights.items()})
        for t in tensors:
            self.assertAlmostEqual(weights[t["name"]].std(dtype=float), t["std"], places=6)
        self.assertEqual(weights["tok.weight"].dtype, np.float32)
        damaged = bytearray(pathlib.Path("runs/a/model.safetensors").read_bytes())
        damaged[-1] ^= 1
        pathlib.Path("runs/a/damaged.safetensors").write_bytes(damaged)
        self.assertRaisesRegex(heed.Error, "checksum", self.run_.weights, "damaged.safetensors")
        weights["tok.weight"][0] = 0  # a copy
        self.assertTrue(self.run_.weights()["tok.weight"][0].any() and self.run_.weights("best.safetensors"))

    def test_commands(self):
        run = self.run_
        self.assertEqual(run.evaluate()["loss"], run.result["loss"])
        one = run.generate("abab", tokens=5, greedy=True)
        self.assertEqual((one["prompt"], one["text"]), ("^abab", run.generate("abab", tokens=5, greedy=True)["text"]))
        self.assertEqual(len(run.generate("ab", tokens=3, samples=2, greedy=False)["samples"]), 2)
        score = run.evaluate("abc")
        self.assertEqual([t["token"] for t in score["tokens"]], list("^abc"))
        self.assertAlmostEqual(score["loss"], -np.mean([t["log_probability"] for t in score["tokens"][1:]]))
        shutil.copytree(run, "longer")  # a run is a path
        again = heed.train(resume=heed.load("longer"), steps=40, quiet=True)
        self.assertEqual((again.path, again.result["steps"], len(again.metrics["step"])), ("longer", 40, 41))
        shutil.copy("runs/a/model.safetensors", "longer")  # as after a kill between two files of a save
        self.assertFalse((again.weights()["tok.weight"] == run.weights()["tok.weight"]).all())

    def test_a_text(self):
        pathlib.Path("t.txt").write_text("to be or not to be\n--a" * 20)
        run = heed.train(text="t.txt", layers=1, d_model=16, context=8, steps=4, from_=None, out="runs/t", quiet=True)
        self.assertEqual("".join(run.vocabulary[i] for i in run.encode("t\n")), "t\n")
        self.assertEqual(len(run.encode("to be " * 1000)), 6000)
        self.assertAlmostEqual(run.evaluate(text="t.txt")["perplexity"], np.exp(run.evaluate(text="t.txt")["loss"]))
        self.assertEqual([run.generate(text, tokens=1)["prompt"] for text in ("--a", "")], ["--a", "\n"])
        os.rename("t.txt", "moved.txt")
        self.assertIn("loss curve", run._repr_html_())
        with self.assertRaisesRegex(ValueError, "an argument has 200009 bytes; Linux accepts 131071"):
            run.encode("to" * 100_000)

    def test_loss_curve(self):
        picture = self.run_._repr_html_()
        svg = base64.b64decode(re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', picture)[1]).decode()
        self.assertIn("Loss while training: induction", svg)
        os.makedirs("weights", exist_ok=True)
        for name in ("config.toml", "model.safetensors"):
            pathlib.Path("weights", name).write_bytes(pathlib.Path("runs/a", name).read_bytes())
        self.assertIn("holds only weights", heed.load("weights")._repr_html_())


class Failures(Place):
    def test_unknown_options(self):
        for options, text in [({"stpes": 5}, "unknown option stpes; did you mean steps? see heed train --help"),
                              ({"n_layer": 5}, "unknown option n_layer; its name in heed is layers"),
                              ({"d_modle": True}, "did you mean d_model?")]:  # fmt: skip
            with self.assertRaisesRegex(TypeError, re.escape(text)):
                heed.train(**options)

    def test_errors_have_message_and_code(self):
        sgd = {"optimizer": "sgd", "momentum": 0.999, "lr": 10, "clip": 0}
        for code, text, f in [
            (2, "--lr needs a number", lambda: heed.train(lr=-1)),
            (2, "got '1,2'", lambda: self.run_.study(samples=[1, 2])),
            (4, "found no run or file 'no'", lambda: heed.load("no")),
            (3, "not finite|NaN|infinite", lambda: heed.train("markov", steps=50, quiet=True, out="runs/nan", **sgd)),
            (1, "heed eval ended with exit code 1",
             mock.patch.object(_program, "path", lambda: "/bin/false")(lambda: _program.call("eval"))),
        ]:  # fmt: skip
            with self.subTest(text), self.assertRaises(heed.Error) as caught:
                f()
            error = pickle.loads(pickle.dumps(caught.exception))
            self.assertEqual((error.code, str(error)), (code, error.message))
            self.assertRegex(error.message, text)

    def test_missing_program(self):
        with mock.patch.object(_program.pathlib.Path, "exists", return_value=False):
            with self.assertRaisesRegex(heed.Error, "bin/heed is missing; install"):
                heed.train()

    def test_progress_goes_to_stderr_and_in_a_notebook_to_stdout(self):
        for modules, out, err in [({}, 0, 1), ({"ipykernel": None}, 1, 0)]:
            with mock.patch.dict(sys.modules, modules), contextlib.redirect_stdout(io.StringIO()) as stdout:
                with contextlib.redirect_stderr(io.StringIO()) as stderr:
                    heed.train("markov", steps=2, layers=1, d_model=16, out="runs/p", overwrite=True)
            lines = [len(re.findall("^step .*eval_loss", s.getvalue(), re.M)) for s in (stdout, stderr)]
            self.assertEqual(lines, [2 * out, 2 * err])

    def test_ctrl_c_saves_the_run(self):
        # Ctrl-C in a terminal reaches all processes of the group; _thread.interrupt_main() and kill only this one.
        for send in (os.kill, os.killpg):
            name = f"runs/{send.__name__}"
            with subprocess.Popen([sys.executable, "-c", ENDLESS, name], start_new_session=True, encoding="utf-8",
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:  # fmt: skip
                steps = next(line for line in child.stderr if re.match(r" *\d+/1000000  loss", line))  # within seconds
                send(child.pid, signal.SIGINT)
                out, err = child.communicate()
            saved = int(re.fullmatch(r"interrupted at (\d+)\n", out)[1])
            self.assertGreaterEqual(saved, int(steps.split("/")[0]))
            self.assertIn(f"stopped after step {saved} of 1000000 and saved", err)
            program("info", name)

    def test_other_exceptions_end_the_program(self):
        # A signal handler that raises an exception saves the run like Ctrl-C.
        alarm = "import signal; signal.signal(signal.SIGALRM, lambda *_: 1 // 0); signal.alarm(2)"
        done = subprocess.run([sys.executable, "-c", alarm + ENDLESS, "runs/alarm"], capture_output=True, text=True,
                              timeout=60)  # fmt: skip
        self.assertIn("ZeroDivisionError", done.stderr)
        program("info", "runs/alarm")

    def test_warnings_are_shown(self):
        with contextlib.redirect_stderr(io.StringIO()) as stderr:
            self.run_.study(prompt="abcab", show="sets")
        self.assertIn("heed: warning: ", stderr.getvalue())

    def test_import_is_fast(self):
        code = "import time, sys; start = time.perf_counter(); import heed; print(time.perf_counter() - start)\n" \
               "assert 'numpy' not in sys.modules; heed.check_vjp, heed.Run; assert 'numpy' in sys.modules"  # fmt: skip
        seconds = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)]
        self.assertLess(min(seconds), 0.1)
        self.assertRaises(AttributeError, lambda: heed.nothing)
        self.assertLess(set(heed.__all__), set(dir(heed)))


class Studies(Place):
    def test_a_study(self):
        study = self.run_.study(prompt="abcab", of="diff:c-d", samples=16, format=["png", "svg"])
        folder = pathlib.Path("runs/a/study").absolute()
        self.assertEqual((study.directory, {*study.files}), (folder, {*folder.iterdir()}))
        self.assertEqual({p.suffix for p in study.pictures}, {".png", ".svg"})
        self.assertEqual([r["component"] for r in study.sections["gradient"]], ["L0H0", "L0H1", "L1H0", "L1H1"])
        effects = {r["component"]: r["effect"] for r in study.sections["components"]}
        self.assertEqual(effects["L1H0"], study.sections["gradient"][2]["effect"])
        self.assertEqual(study.sentences, [c["text"] for c in study.json["claims"] if c["text"]])
        self.assertIn(study.sentences[0], repr(study))
        self.assertIn("L0H0", [c["name"] for c in self.run_.study(over_time=True).json["components"]])
        pattern, scores = (study.arrays[f"blocks.1.attn.hook_{name}"] for name in ("pattern", "attn_scores"))
        self.assertEqual((pattern.shape, study.arrays["blocks.1.attn.hook_pattern_grad"].shape), ((1, 2, 6, 6),) * 2)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        np.testing.assert_allclose(weights / weights.sum(-1, keepdims=True), pattern, atol=1e-6)
        page = re.search('srcdoc="([^"]*)"', study._repr_html_())[1]
        self.assertEqual(html.unescape(page), (folder / "report.html").read_text())
        with mock.patch.object(_runs, "MAX_PAGE_BYTES", 10):
            self.assertIn(f'<a href="file://{folder}/report.html">', study._repr_html_())

    def test_plot(self):
        for values in (np.eye(3)[:, :2], np.full((2, 3, 3, 2), -np.inf, np.float32), np.ones((3, 2), int)):
            picture = heed.plot(values, x_labels=["a,b", "\n"], y_labels=range(3), title="A picture")
            picture.save("x.png")
            self.assertRaisesRegex(ValueError, "end it with .png", picture.save, "x.svg")
            self.assertEqual(pathlib.Path("x.png").read_bytes(), picture._repr_png_())
            self.assertTrue(picture.data.startswith(b"\x89PNG") and b"A picture" in picture.data)
        self.assertNotEqual(heed.plot([1.0, 2.0]).data, heed.plot([2.0, 1.0]).data)
        heed.plot([1.0, 1e-80])  # 0 in float32
        with self.assertRaisesRegex(heed.Error, "got 1 labels, needs 2"):
            heed.plot(np.eye(2), x_labels=["a"])


if __name__ == "__main__":
    unittest.main()
