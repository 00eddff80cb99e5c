#!/usr/bin/env python3
"""Tests of heed.check_attention and heed.torch.check_attention: the definition, right functions, known mistakes.

    PYTHONPATH=build/release/python python3 tests/tools/python/attention_test.py
"""
import doctest
import itertools
import json
import math
import sys
import unittest

try:
    import numpy as np
except ImportError:
    sys.exit(print("skipped: python3-numpy is not installed"))

try:
    import torch
except ImportError:
    torch = None

import heed
from heed import check_attention
from heed._attention import MISTAKES, definition

NONE = {"causal": False, "alignment": "bottom_right", "mask": np.array(True), "key_padding_mask": np.array(False),
        "window": math.inf, "soft_cap": math.inf}


def row(scores, keep, bug):
    """Softmax of one row of scores, with 0 where `keep` is false."""
    if not any(keep):
        return np.full(len(scores), {"nan": np.nan, "-1e9": 1 / len(scores)}.get(bug, 0.0))
    e = np.where(keep, np.exp(scores - max(s for s, kept in zip(scores, keep) if kept)), 0)
    return e / e.sum()


def attend(q, k, v, dy=None, scale=None, causal=False, alignment="top_left", window=None, soft_cap=None, mask=None,
           key_padding_mask=None, bug=""):
    """Attention for arrays [B, H, T, d], one row at a time, with a mistake."""
    (batch, heads, tq, d), (kv_heads, tk) = q.shape, k.shape[1:3]
    scale = {"not scaled": 1.0, "1/d": 1 / d}.get(bug, d**-0.5 if scale is None or bug == "scale ignored" else scale)
    first = tk - tq if (alignment == "bottom_right") != (bug == "alignment") else 0
    y, dq, dk, dv = np.zeros(q.shape, q.dtype), np.zeros(q.shape, q.dtype), np.zeros(k.shape, k.dtype), np.zeros_like(v)
    for b, h, i in itertools.product(range(batch), range(heads), range(tq)):
        g = h % kv_heads if bug == "modulo" else h // (heads // kv_heads)
        at = i + first
        last = {"causal ignored": tk, "hides itself": at - 1, "shows next": at + 1}.get(bug, at) if causal else tk
        last = at if bug == "always causal" else last
        keep = [j <= last for j in range(tk)]
        if window is not None and bug != "window ignored":
            size = window + {"window + 1": 1, "window - 1": -1}.get(bug, 0)
            keep = [kept and abs(at - j) < size for j, kept in enumerate(keep)]
        if mask is not None and bug != "mask ignored":
            keep = [kept and m != (bug == "mask inverted") for kept, m in zip(keep, mask[b, 0, i])]
        if key_padding_mask is not None and bug != "padding ignored":
            keep = [kept and m == (bug == "padding inverted") for kept, m in zip(keep, key_padding_mask[b])]
        scores = scale * (k[b, g] @ q[b, h, i])
        slope = 1
        if soft_cap is not None and bug != "cap ignored":
            tanh = np.tanh(scores / soft_cap)
            scores, slope = soft_cap * tanh, 1 if bug == "cap derivative" else 1 - tanh**2
            if bug == "cap after mask":
                scores, keep = np.where(keep, scores, -soft_cap), [True] * tk
        p = row(scores, keep, bug)
        y[b, h, i] = p @ v[b, g]
        if dy is not None:
            dp = v[b, g] @ dy[b, h, i]
            ds = p * (dp - (0 if bug == "row sum" else p @ dp)) * slope * (1 if bug == "no scale in dq" else scale)
            dq[b, h, i] = ds @ k[b, g]
            if bug != "group" or h % (heads // kv_heads) == 0:
                dk[b, g] += np.outer(ds, q[b, h, i])
                dv[b, g] += np.outer(p, dy[b, h, i])
    return y if dy is None else (dq, dk, dv)


def attend_over_queries(q, k, v, dy=None):
    s = np.exp(q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5)
    y = s / s.sum(-2, keepdims=True) @ v
    return y if dy is None else (dy, dy, dy)


def wrong(bug):
    """A forward and a backward pass with a mistake; the parameters are read from the signature."""

    def forward(q, k, v, scale=None, causal=False, window=None, soft_cap=None, mask=None, key_padding_mask=None,
                alignment="top_left"):
        return attend(q, k, v, None, scale, causal, alignment, window, soft_cap, mask, key_padding_mask, bug)

    def backward(q, k, v, dy, **options):
        return attend(q, k, v, dy, **options, bug=bug)

    return forward, backward


BUGS = {  # bug: a case that finds it, and the mistake
    "not scaled": ("plain", "the scores are not scaled"),
    "1/d": ("plain", "the scores are divided by d, not by sqrt(d)"),
    "scale ignored": ("scale", "scale is ignored"),
    "causal ignored": ("causal", "causal is ignored"),
    "always causal": ("plain", "a causal mask is applied without causal"),
    "hides itself": ("causal", "the causal mask hides the query's own position"),
    "shows next": ("causal", "the causal mask shows the next position"),
    "mask ignored": ("mask", "the mask is ignored"),
    "mask inverted": ("mask", "the mask is inverted (true means: may attend)"),
    "padding ignored": ("key padding", "the key padding mask is ignored"),
    "padding inverted": ("key padding", "the key padding mask is inverted (true means: padding)"),
    "window ignored": ("window", "the window is ignored"),
    "window + 1": ("window", "the window has one key too many"),
    "window - 1": ("window", "the window has one key too few"),
    "cap ignored": ("soft cap", "the soft cap is ignored"),
    "cap after mask": ("causal soft cap", "the soft cap is applied after the mask"),
    "modulo": ("grouped heads (GQA)", "heads are mapped modulo the number of key heads, not by groups"),
    "-1e9": ("mask with a fully masked row",
             "a fully masked row has equal weights; its output and gradients must be 0"),
    "nan": ("key padding with a sequence that is all padding",
            "a fully masked row is NaN; its output and gradients must be 0"),
    "row sum": ("plain", "backward lacks the row sum of the softmax"),
    "no scale in dq": ("plain", "backward does not multiply the gradients of q and k by scale"),
    "cap derivative": ("soft cap", "backward lacks the derivative of the soft cap"),
    "group": ("grouped heads (GQA)", "backward does not add up the gradients of k and v of a group"),
}


class Definition(unittest.TestCase):
    def setUp(self):
        random = np.random.default_rng(1)
        self.xs = [random.standard_normal(s) for s in [(2, 4, 5, 3), (2, 2, 7, 3), (2, 2, 7, 6), (2, 4, 5, 6)]]
        mask = random.random((2, 1, 5, 7)) < 0.5
        mask[0, 0, 2] = False
        self.options = [{}, {"scale": 0.7}, {"causal": True}, {"causal": True, "alignment": "top_left"},
                        {"mask": mask}, {"key_padding_mask": ~mask[:, :, :1]}, {"window": 2, "causal": True},
                        {"soft_cap": 0.5, "window": 3},
                        {"causal": True, "mask": mask, "soft_cap": 2.0, "scale": -1.3}]  # fmt: skip

    def results(self, options, *xs):
        return definition(*xs, **{**NONE, "scale": 3**-0.5, **options})

    def test_the_gradient_is_that_of_the_output(self):
        for options in self.options:
            report = heed.check_vjp(lambda q, k, v: self.results(options, q, k, v, self.xs[3])[0],
                                    lambda *xs: self.results(options, *xs)[1:], self.xs[:3])  # fmt: skip
            self.assertTrue(report, report.text)


class Attention(unittest.TestCase):
    def test_right_functions(self):
        for dtype in ("float64", "float32"):
            report = check_attention(*wrong(""), dtype=dtype)
            self.assertTrue(report, report.text)
            self.assertIn("right: 18 of 18 cases agree", report.text)
            self.assertNotIn("not tested", report.text)
        self.assertEqual(str(report), str(check_attention(*wrong(""), dtype=dtype)))
        sizes = {"batch": 3, "heads": 6, "queries": 2, "keys": 9, "d": 5}
        self.assertTrue(check_attention(*wrong(""), seed=2, sizes=sizes))

    def test_known_mistakes(self):
        named = {"the softmax runs over queries, not keys", "the causal mask is aligned top left",
                 "the causal mask is aligned bottom right"}  # by the tests below
        for bug, (name, mistake) in BUGS.items():
            with self.subTest(bug):
                report = check_attention(*wrong(bug), sizes={"queries": 3, "keys": 5, "d": 4})
                self.assertEqual(report.verdict, "wrong")
                case = next(c for c in json.loads(report.json)["cases"] if c["case"] == name)
                self.assertEqual((case["verdict"], case["mistakes"]), ("wrong", [mistake]))
                self.assertIn("mistake: " + mistake, report.text)
                named.add(mistake)
        self.assertEqual(named, {text for text, _ in MISTAKES})

    def test_softmax_over_queries(self):
        report = check_attention(attend_over_queries, attend_over_queries)
        self.assertIn("mistake: the softmax runs over queries, not keys", report.text)

    def test_other_mistakes_are_not_named(self):
        forward, backward = wrong("")
        for f, b, text in [(lambda *xs, **o: 1.001 * forward(*xs, **o), backward, "the output at"),
                           (forward, lambda *xs, **o: [x * (1 + 1e-9) for x in backward(*xs, **o)],
                            "the gradient of q at"),
                           (forward, lambda *xs, **o: (*backward(*xs, **o)[:2], 0 * xs[2]), "the gradient of v at")]:
            report = check_attention(f, b)
            text = f"^wrong: plain: {text} " + r"\[\d, \d, \d, \d\] is .*, the definition has .*; 0 of"
            self.assertRegex(report.text, text)
            self.assertNotIn("mistake", report.text)

    def test_alignment(self):
        def forward(q, k, v, causal=False):
            return attend(q, k, v, causal=causal, alignment="bottom_right" if q.shape[2] < 7 else other)

        def backward(q, k, v, dy, causal=False):
            return attend(q, k, v, dy, causal=causal, alignment="bottom_right" if q.shape[2] < 7 else other)

        other = "bottom_right"
        self.assertRegex(check_attention(forward, backward).text, "^right: .*; causal alignment: bottom_right;")
        report = check_attention(forward, backward, alignment="top_left")
        self.assertIn("mistake: the causal mask is aligned bottom right", report.text)
        other = "top_left"  # mixed
        report = check_attention(forward, backward)
        self.assertRegex(report.text, "^wrong: causal with more queries than keys: .*; mistake: .* aligned top left;")
        report = check_attention(*wrong("alignment"))
        self.assertIn("causal with fewer queries than keys, bottom_right: ", report.text)
        self.assertIn("mistake: the causal mask is aligned top left", report.text)

    def test_what_a_function_always_does(self):
        def forward(q, k, v):
            return attend(q, k, v, causal=True, soft_cap=2.0, scale=1.0)

        def backward(q, k, v, dy):
            return attend(q, k, v, dy, causal=True, soft_cap=2.0, scale=1.0)

        report = check_attention(forward, backward, causal=True, soft_cap=2.0, scale=1.0)
        self.assertTrue(report, report.text)
        self.assertIn("not tested (the function does not have these parameters): scale, causal, mask, ", report.text)
        self.assertIn("causal alignment: top_left", report.text)
        report = check_attention(forward, backward, soft_cap=2.0, scale=1.0)
        self.assertIn("mistake: a causal mask is applied without causal", report.text)

    def test_layouts(self):
        def attention(q, k, v, mask=None, key_padding_mask=None, is_causal=False):  # one head
            expected = (len(q), len(k)), (len(k),)
            for m, shape in zip((mask, key_padding_mask), expected):
                self.assertIn(np.shape(m), (shape, ()))
            options = {"mask": mask if mask is None else mask[None, None], "causal": is_causal,
                       "key_padding_mask": key_padding_mask if key_padding_mask is None else key_padding_mask[None]}
            return options, [x[None, None] for x in (q, k, v)]

        def forward(q, k, v, mask=None, key_padding_mask=None, is_causal=False):
            options, xs = attention(q, k, v, mask, key_padding_mask, is_causal)
            return attend(*xs, **options)[0, 0]

        def backward(q, k, v, dy, **options):
            options, xs = attention(q, k, v, **options)
            return [dx[0, 0] for dx in attend(*xs, dy[None, None], **options)]

        report = check_attention(forward, backward, layout="TD")
        self.assertRegex(report.text, "^right: 9 of 9 cases")

        def swap(f):
            def swapped(q, k, v, *dy, mask=None, key_padding_mask=None):
                xs = f(*(x.swapaxes(1, 2) for x in (q, k, v, *dy)), mask=mask, key_padding_mask=key_padding_mask)
                return xs.swapaxes(1, 2) if isinstance(xs, np.ndarray) else [x.swapaxes(1, 2) for x in xs]

            return swapped

        self.assertRegex(check_attention(*map(swap, wrong("")), layout="BTHD").text, "^right: 7 of 7 cases")
        report = check_attention(*map(swap, wrong("modulo")), layout="BTHD")
        self.assertIn("mistake: heads are mapped modulo", report.text)

    def test_exceptions(self):
        def forward(q, k, v, scale=None):
            if scale is not None:
                raise KeyError("scale")
            return (attend if q.shape[1:3] == k.shape[1:3] else [].index)(q, k, v)

        report = check_attention(forward, attend)
        self.assertIn("wrong: scale: raises KeyError: 'scale'", report.text)
        self.assertIn("not tested: queries and keys of different lengths (raises TypeError", report.text)
        self.assertIn("not tested: grouped heads (GQA) (raises TypeError", report.text)
        # A backward pass must support what the forward pass supports.
        def repeated(q, k, v, dy):
            k, v = (x.repeat(q.shape[1] // x.shape[1], 1) for x in (k, v))
            return attend(q, k, v, dy)

        report = check_attention(lambda q, k, v: attend(q, k, v), repeated)
        self.assertIn("wrong: grouped heads (GQA): raises ValueError: backward returned an array of shape", report.text)
        self.assertRaises(ZeroDivisionError, check_attention, lambda q, k, v: 1 / 0, attend)
        self.assertRaisesRegex(ValueError, "read-only", check_attention, lambda q, k, v: q.sort(), attend)
        self.assertRaisesRegex(ValueError, r"forward returned an array of shape \(4, 7, 8\)", check_attention,
                               lambda q, k, v: q[0], attend)
        self.assertRaisesRegex(ValueError, "needs 3, one for each input", check_attention,
                               lambda q, k, v: attend(q, k, v), lambda q, k, v, dy: (dy, dy))  # fmt: skip
        for options, text in [({"layout": "HTD"}, "layout is 'HTD'; needs one of BHTD, BTHD, TD"),
                              ({"dtype": "float16"}, "dtype is 'float16'"), ({"sizes": {"T": 3}}, "a size is 'T'"),
                              ({"casual": True}, "an option is 'casual'; needs one of scale, causal"),
                              ({"sizes": {"kv_heads": 3}}, "kv_heads that divides heads"),
                              ({"sizes": {"keys": 5}}, "needs 1 < queries < keys"),
                              ({"sizes": {"d": 0}}, "needs integers of at least 1"),
                              ({"sizes": {"d": "4"}}, "needs integers of at least 1")]:
            self.assertRaisesRegex(ValueError, text, check_attention, *wrong(""), **options)

    def test_doctests(self):
        self.assertEqual(doctest.testmod(heed._attention).failed, 0)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Torch(unittest.TestCase):
    def check(self, function, **options):
        import heed.torch

        return heed.torch.check_attention(function, **options)

    def test_scaled_dot_product_attention(self):
        def sdpa(q, k, v, attn_mask=None, is_causal=False, scale=None, enable_gqa=False):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask, 0, is_causal, scale=scale,
                                                                    enable_gqa=enable_gqa)  # fmt: skip

        for dtype in ("float64", "float32"):
            report = self.check(sdpa, dtype=dtype)
            self.assertRegex(report.text, "^right: 9 of 9 cases.*causal alignment: top_left;")

    def test_mistakes(self):
        def attention(q, k, v, mask=None, causal=False):
            scores = q @ k.mT * scale(q)
            if causal:
                scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1) > 0, -torch.inf)
            return (scores if mask is None else scores.masked_fill(~mask, fill)).softmax(-1) @ v

        def scale(q):
            return q.shape[-1] ** -0.5

        fill = -1e9
        report = self.check(attention)
        self.assertRegex(report.text, "^wrong: mask with a fully masked row: .*; mistake: .* row has equal weights")
        fill = -torch.inf
        report = self.check(attention)
        self.assertRegex(report.text, "^wrong: mask with a fully masked row: .* is nan, .*; mistake: .* row is NaN")
        self.assertEqual(report.text.count("also wrong"), 0)
        detached = self.check(lambda q, k, v: attention(q.detach(), k, v))
        self.assertRegex(detached.text, "^wrong: plain: the gradient of q at .* is 0, the definition has")
        self.assertRaisesRegex(ValueError, "the output is torch.float32", self.check, lambda q, k, v: v.float())
        self.assertRaisesRegex(TypeError, "returned a NoneType; needs one tensor", self.check, lambda q, k, v: None)
        self.assertRaisesRegex(ValueError, "pass a Python function that calls it", self.check,
                               torch.nn.functional.scaled_dot_product_attention)  # fmt: skip

    def test_doctests(self):
        import heed.torch

        result = doctest.testmod(heed._torch_attention)
        self.assertEqual((result.failed, result.attempted > 1), (0, True))


if __name__ == "__main__":
    unittest.main()
