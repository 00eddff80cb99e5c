// Help text of heed study.
#pragma once

namespace heed {

/// Examples in the help text of heed study. Each runs on a run of the task induction.
inline constexpr const char* kStudyExamples =
    R"(  heed study
  heed study --prompt abcab --of diff:c-d
  heed study --of loss --at 20,21
  heed study --sample 3 --ascii
  heed study --head L1H0 --export csv
  heed study --samples 64
  heed study --keep L0H0,L1H0 --samples 64
  heed study --cut 'L1H0[5,3]' --prompt abcab
  heed study --ablate L0H0,L1H0
  heed study --edges-into L1H1.K
  heed study --path L0H0:K:L1H1:logits
  heed study --prompt abcdefghab --corrupt abdcefghab --of diff:c-d
  heed study --corruption value
  heed study --repeat-random 10x4
  heed study runs/induction-1 --over-time
  heed study runs/induction-1 runs/induction-2)";

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
interventions, a corrupt prompt and a second run keep them. If --of names tokens, the L of the heads
is still the default of the task, unless --samples is given; so it is if --at is given.

--head draws one head large (weights_L1H0.png, ...). --format png,svg also writes SVG files. A large
map makes a large SVG file. --export csv writes the scores, the weights and their gradients to
cells.csv, one row per cell: quantity,layer,head,query,key,value.

heed-files.txt lists the files of a study. --overwrite replaces or removes these files and no others.

[Heads]
--repeat-random RxC uses sequences of R random tokens, repeated C times; L is the margin from the
second copy on. For models of texts, the scores prev, dup and ind are always those on such sequences.

[Time]
--over-time studies every checkpoint (heed train --save-every 10) on one batch of the evaluation set,
or on the sequence of --prompt, --sample or --repeat-random. L is log p - log(1 - p) of the targets
that count, or that of --of. It writes over_time.png, over_time.json and over_time.csv into the directory over-time of the run. The CSV has one row per number:
step,layer,head,quantity,value. Losses and entropies are in nats. A row without a head is for the
layer, a row without a layer for the model.

[Runs]
If a second run is given, it is compared with the first run on the same sequence. Heads with the same
number correspond if both runs begin with equal weights; otherwise the heads of a layer are matched
by their mean attention patterns. The directory compared of the first run gets maps of B minus A.
heed compare --of roles prints the roles of the heads of many runs.)";

}  // namespace heed
