// Help text of heed study.
#pragma once

namespace heed {

/// Examples in the help text of heed study. Each runs on a run of the task induction.
inline constexpr const char* kStudyExamples =
    R"(  heed study
  heed study --prompt abcab --of diff:c-d
  heed study --of loss --at 20,21
  heed study --sample 3 --format png,svg
  heed study --samples 64
  heed study --keep L0H0,L1H0 --samples 64
  heed study --cut 'L1H0[5,3]' --prompt abcab
  heed study --ablate L0H0,L1H0
  heed study --edge L0H0:K:L1H1
  heed study --show edges
  heed study --prompt abcdefghab --corrupt abdcefghab --of diff:c-d
  heed study --corruption value
  heed study runs/induction-1 --over-time)";

/// Notes in the help text of heed study.
inline constexpr const char* kStudyNotes =
    R"(Shows what the heads of a model do, and how a scalar L depends on them. The guide
tools/heed/study/READ_A_STUDY.md explains the output.

[Heads]
The first lines name the heads and MLPs that change L, on sequences of the task, with their effects:
needed is L without the head, minus L; suffices is L with this head alone in its layer, minus L
without the heads of the layer. A head is cut by its mean
output (--ablation). Predictions are gradients for the same replacement. A mark states where they
mislead: redundant, missed, phantom, reversed, or by which factor. If the model predicts no better than
token frequencies, roles, marks and claims are left out. The heads are measured if this takes
at most 30 seconds; --ablate all measures them in any case, and pairs of heads for up to 8 heads.

[Options]
One sequence: the weights A, A |v W_O| (the size of what a query receives), dL/dA and dL/dS of every
head (S: the scores before the softmax), as pictures and as report.html, which a browser opens from
disk. arrays.safetensors has all arrays, with q, k, v, z and gradients; heed info lists them, and the
metadata "schema" has their meanings and shapes. The table of cells has the measured effects of
setting one score to -inf; --cut measures other cells.

L: a margin compares the target with the token that has the largest other logit, at the positions
that count in the accuracy, or at --at. At a position without a target, it compares the two largest
logits. If the targets are random (markov, random, texts), the default is logprob, and for a
prompt the margin at its last position. The tokens of a margin are those of the run on its sequence;
interventions and a corrupt prompt keep them. If --of names tokens, the L of the heads
is still the default of the task, unless --samples is given; so it is if --at is given.

--format png,svg also writes SVG files. A large map makes a large SVG file. heed plot draws one head of
arrays.safetensors.

A study goes into a new directory. While it is written, or after a kill, it has a file named unfinished.

[Heads]
For models of texts, the scores prev, dup and ind are those on random tokens that repeat.

[Time]
--over-time studies every checkpoint (heed train --save-every 10) on one batch of the evaluation set,
or on the sequence of --prompt or --sample. L is log p - log(1 - p) of the targets that count, or that
of --of. It writes over_time.png and report.html into a new directory: over-time of the run, then over-time-2, ...
--json prints the numbers. Losses and entropies are in nats.)";

}  // namespace heed
