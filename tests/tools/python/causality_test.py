#!/usr/bin/env python3
"""Tests of heed.torch.check_causality: models that leak and models that do not.

    PYTHONPATH=build/release/python python3 tests/tools/python/causality_test.py
"""
import doctest
import json
import re
import sys
import unittest

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    sys.exit(print("skipped: PyTorch is not installed"))

import heed.torch
from heed.torch import check_causality

torch.set_num_threads(1)
VOCABULARY, D = 50, 8


class Model(nn.Module):
    """Embedding, one mixing layer, head. `mix` maps x [B, T, D] to [B, T, D]."""

    def __init__(self, mix, vocabulary=VOCABULARY):
        super().__init__()
        torch.manual_seed(3)
        self.embedding, self.head = nn.Embedding(vocabulary, D), nn.Linear(D, vocabulary)
        self.mix = mix() if isinstance(mix, type) else mix

    def forward(self, tokens):
        x = self.embedding(tokens)
        return self.head(x + self.mix(x))


def causal_mask(x, masked=-torch.inf):
    length = x.size(1)
    return torch.zeros(length, length, dtype=x.dtype).masked_fill(torch.ones(length, length).triu(1) > 0, masked)


class Attention(nn.Module):
    """nn.MultiheadAttention with a causal mask that adds `masked` to the scores."""

    masked = -torch.inf

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(D, 2, batch_first=True)

    def forward(self, x):
        mask = causal_mask(x, self.masked)
        return self.attention(x, x, x, attn_mask=mask, need_weights=False)[0]


class AdditiveMask(Attention):
    masked = -1e9


def sdpa(x):
    q = x.unflatten(-1, (2, -1)).transpose(1, 2)
    return F.scaled_dot_product_attention(q, q, q, is_causal=True).transpose(1, 2).flatten(2)


class ChunkRecurrence(nn.Module):
    """nanochat#844, 2: a recurrence over the means of chunks of 16; each position gets the state of its own chunk."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(D, D, batch_first=True)

    def forward(self, x):
        whole = x.size(1) // 16 * 16
        states, _ = self.rnn(x[:, :whole].unflatten(1, (-1, 16)).mean(2))
        return F.pad(states.repeat_interleave(16, 1), (0, 0, 0, x.size(1) - whole))


def fft_convolution(x):
    """A causal convolution, by FFT of twice the length. Later tokens change its rounding."""
    length = x.size(1)
    kernel = torch.exp(-torch.arange(length) / 5.0).to(x)[:, None]
    spectrum = torch.fft.rfft(x, 2 * length, dim=1) * torch.fft.rfft(kernel, 2 * length, dim=0)
    return torch.fft.irfft(spectrum, 2 * length, dim=1)[:, :length]


class Experts(nn.Module):
    """A mixture of experts. Each token chooses its expert, or each expert chooses a quarter of the tokens."""

    expert_choice = False

    def __init__(self):
        super().__init__()
        self.router, self.experts = nn.Linear(D, 4), nn.ModuleList(nn.Linear(D, D) for _ in range(4))

    def forward(self, x):
        x, shape = x.flatten(0, 1), x.shape
        scores = self.router(x).softmax(-1)
        y = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            own = (scores.argmax(-1) == e).nonzero()[:, 0]
            if self.expert_choice:
                own = scores[:, e].topk(len(x) // 4).indices
            y = y.index_add(0, own, expert(x[own]) * scores[own, e, None])
        return y.reshape(shape)


class ExpertChoice(Experts):
    expert_choice = True


class Capacity(Experts):
    """Each expert takes the first 10 tokens of the batch that choose it: earlier sequences displace later ones."""

    def forward(self, x):
        choice = self.router(x.flatten(0, 1)).argmax(-1)
        place = (F.one_hot(choice, 4).cumsum(0)).gather(1, choice[:, None])
        return x * (place <= 10).reshape(*x.shape[:2], 1)


class BatchNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(D)

    def forward(self, x):
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


class OneToken(nn.Module):
    """Leaks one bit: whether token 777 comes next."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50000, D)

    def forward(self, tokens):
        following = F.pad(tokens[:, 1:], (0, 1))
        return self.embedding(tokens) + (following == 777)[..., None]


def tokens(length=32, batch=4, vocabulary=VOCABULARY):
    return torch.randint(vocabulary, (batch, length), generator=torch.Generator().manual_seed(2))


class Causality(unittest.TestCase):
    def accepted(self, mix, length=32, text="^right: ", **options):
        model = mix if isinstance(mix, nn.Module) and not isinstance(mix, type) else Model(mix)
        report = check_causality(model, tokens(length), **options)
        self.assertEqual(report.verdict, "right", report.text)
        self.assertTrue(report)
        self.assertIn("no influence found in", report.text)
        self.assertIn("a leak that needs other tokens is not excluded", report.text)
        self.assertNotIn("proven", report.text)
        self.assertRegex(report.text, text)
        return report

    def refused(self, mix, text, length=32, model=None):
        report = check_causality(model or Model(mix), tokens(length))
        self.assertEqual(report.verdict, "wrong", report.text)
        self.assertFalse(report)
        self.assertRegex(report.text, text)
        leak = json.loads(report.json)["leak"]
        self.assertGreater(leak["size"], 0)
        return leak

    def test_right_models(self):
        for mix in (sdpa, Attention, AdditiveMask, Experts):
            for dtype in (torch.float32, torch.float64):
                with self.subTest(mix=mix, dtype=dtype):
                    self.accepted(Model(mix).to(dtype), text="67 of 67 exactly 0")
                    self.accepted(Model(mix).to(dtype).eval(), text="67 of 67 exactly 0")

    def test_counts(self):
        report = self.accepted(sdpa)
        # 31 positions, 4 changes, 4 sequences; and each sequence while the others change, twice
        counts = [31 * 4 * 4 + 8, 28 * 4 * 4 + 8]
        self.assertIn("{} comparisons of length 32 and {} comparisons of length 29".format(*counts), report.text)
        self.assertIn("67 of 67 exactly 0", report.text)  # 31 + 4 + 28 + 4 backward passes
        self.assertEqual(report, check_causality(Model(sdpa), tokens()))
        self.assertIn("seed 7", self.accepted(sdpa, seed=7).text)

    def test_rounding_is_not_a_leak(self):
        for dtype in (torch.float32, torch.float64):
            self.accepted(Model(fft_convolution).to(dtype), text="[1-9][0-9]* comparisons differ by rounding")

        def small_leak(size):  # in relation to the outputs
            return Model(lambda x: fft_convolution(x) + size * x.flip(1))

        self.refused(None, "changes by", model=small_leak(1e-7))
        self.refused(None, "changes by", model=small_leak(1e-12).double())

    def test_leaks_of_nanochat_844(self):
        first = "output 0 of sequence 0 changes by .* after a change of token 1 of every sequence; length 32"
        leak = self.refused(ChunkRecurrence, first)
        self.assertEqual((leak["output"], leak["token"]), (0, 1))

    def test_a_leak_in_complete_blocks_at_any_length(self):
        self.refused(ChunkRecurrence, "length 19", 19)
        leak = self.refused(lambda x: x if x.size(1) % 16 == 0 else x.flip(1), "length 29")
        self.assertEqual(leak["output"], 0)

    def test_other_sequences(self):
        self.refused(BatchNorm, "changes by")
        self.refused(lambda x: x.roll(1, 0), "after a change of all tokens of the other sequences")
        self.refused(Capacity, "sequence")
        self.accepted(Model(BatchNorm).eval())

    def test_routing(self):
        self.refused(ExpertChoice, r"changes by .* after a change of (the tokens from|token) \d+")
        report = self.accepted(Experts)
        self.assertIn("which does not exclude a leak through argmax, top-k or routing", report.text)

    def test_a_leak_for_one_token_needs_this_token(self):
        sequence = tokens(16, vocabulary=50000)
        report = check_causality(OneToken(), sequence)
        self.assertEqual(report.verdict, "right")
        self.assertIn("a leak that needs other tokens is not excluded", report.text)
        report = check_causality(OneToken(), sequence, token_ids=[777])
        self.assertEqual(report.verdict, "wrong")
        self.assertIn("output 0 of sequence 0 changes by 1 after a change of token 1 of", report.text)

    def test_gradients_find_what_rounds_to_nothing(self):
        def tiny(x):
            return 1000 + x.roll(-1, axis) * 1e-9  # float32 rounds 1000 + 1e-6 to 1000

        axis = 1
        self.refused(tiny, r"^wrong: the gradient of output 0 is .* for the embedding of token 1 of sequence \d; ")
        axis = 0
        self.refused(tiny, r"^wrong: the gradient of the outputs of sequence 0 is .* of token \d+ of sequence 1; ")

    def test_undecided(self):
        class Constant(nn.Module):
            def forward(self, x):
                return torch.zeros_like(x)

        generator = torch.Generator().manual_seed(1)
        for model, text in [
            (nn.Sequential(nn.Embedding(9, D), Constant()), "^vacuous: the outputs do not depend on the tokens"),
            (Model(lambda x: x * torch.rand(1, generator=generator)), "^vacuous: a second run on the same tokens"),
            (Model(lambda x: fft_convolution(x.float() if x.dtype == torch.float32 else 1 / 0)),
             "^vacuous: outputs change by up to .* the module does not run in float64: ZeroDivisionError"),
        ]:
            report = check_causality(model, tokens(16, vocabulary=9))
            self.assertEqual(report.verdict, "vacuous")
            self.assertRegex(report.text, text)
            self.assertFalse(report)

    def test_modules_and_tokens(self):
        batch_norm = Model(BatchNorm)
        check_causality(batch_norm, tokens())
        self.assertEqual(int(batch_norm.mix.norm.num_batches_tracked), 0)
        model = Model(nn.Dropout(0.5))  # in training mode; the same mask in each run
        before = {n: t.clone() for n, t in model.state_dict().items()}
        state, given = torch.get_rng_state(), tokens(7, batch=1)
        copy = given.clone()
        self.assertTrue(check_causality(model, given))
        self.assertTrue(torch.equal(state, torch.get_rng_state()) and torch.equal(given, copy) and model.training)
        self.assertTrue(all(torch.equal(t, before[n]) for n, t in model.state_dict().items()))

        class Saves(nn.Module):  # a tensor of its forward pass, which cannot be copied
            def forward(self, x):
                self.saved = sdpa(x)
                return self.saved

        for mix in Saves(), nn.utils.weight_norm(nn.Linear(D, D)):
            model = Model(mix)
            model(tokens())
            kept = dict(vars(mix))
            self.accepted(model, text="67 of 67 exactly 0")
            self.assertTrue(all(vars(mix)[name] is value for name, value in kept.items()))
            with torch.inference_mode():
                self.accepted(model)

        class OneHot(nn.Module):  # without an embedding; the outputs are in a dict
            def forward(self, t):
                return {"loss": torch.ones(()), "logits": F.one_hot(t, VOCABULARY).float()}

        self.accepted(OneHot(), text="gradients not tested: no torch.nn.Embedding gets the tokens")
        def fixed(x):  # has one length, as with a mask in a buffer
            return x + torch.zeros(32, 1)

        self.accepted(Model(fixed), text="length 29 not tested: the module raises RuntimeError: The size of tensor")
        self.refused(lambda x: fixed(x).flip(1), "output 0 of sequence 0 changes by")
        wrong64 = Model(lambda x: x if x.dtype == torch.float32 else 1 / 0)
        self.accepted(wrong64, text="gradients not tested: the module does not run in float64: ZeroDivisionError")

    def test_errors(self):
        for module, given, error, text in [
            (sdpa, tokens(), TypeError, "module is a function; needs a torch.nn.Module"),
            (Model(sdpa), tokens().float(), TypeError, "tokens are torch.float32; needs a tensor of int64"),
            (Model(sdpa), [1, 2], TypeError, "tokens are list"),
            (Model(sdpa), torch.tensor([1, 2]), ValueError, re.escape("shape (2,); needs [batch, positions]")),
            (Model(sdpa), tokens(1), ValueError, "at least"),
            (nn.Linear(4, 4), tokens(4).float().long(), RuntimeError, ""),
            (nn.Sequential(nn.Embedding(50, 4), nn.Flatten(0)), tokens(), ValueError, "no output has the shape"),
        ]:
            self.assertRaisesRegex(error, text, check_causality, module, given)
        self.assertRaisesRegex(ValueError, "token id 99 is outside the vocabulary of 50 ids", check_causality,
                               Model(sdpa), tokens(), token_ids=[99])

    def test_doctest(self):
        self.assertEqual(doctest.testmod(heed._causality).failed, 0)


if __name__ == "__main__":
    unittest.main()
