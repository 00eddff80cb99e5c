#include "tools/heed/study/study_options.h"

#include <algorithm>

#include "tools/heed/find_run.h"
#include "tools/heed/pictures.h"
#include "tools/heed/study/analysis.h"

namespace heed {
namespace {

// Each example runs on a run of the task induction.
constexpr const char* kExamples =
    R"(  heed study
  heed study --prompt abcab --of diff:c-d
  heed study --show edges
  heed study --sample 3 --format png,svg
  heed study --samples 64 --of loss
  heed study --keep L0H0,L1H0 --samples 64
  heed study --ablate L0H0,L1H0 --ablation zero
  heed study --edge L0H0:K:L1H1
  heed study --block 'L1H0[5,3]' --prompt abcab
  heed study --prompt abcdefghab --corrupt abdcefghab --of diff:c-d
  heed study --corruption value
  heed study runs/induction-1 --over-time)";

constexpr const char* kNotes =
    R"(Shows what the heads and MLPs of a model do, and how a scalar L depends on them. The guide
tools/heed/study/READ_A_STUDY.md explains the output.

[Heads]
The first lines have the heads and MLPs that change L, on sequences of the task. effect is the change
of L if the output is replaced by the output on another sequence (a donor) at the same position. path
and gradient are predictions of the effect: the gradient on the path from the donor to the model, and
at the model itself. A role is claimed only if the exact pattern of the role keeps L. They are measured
if this takes about 30 seconds or less; --ablate all measures them in any case.

[Options]
L is the mean log probability of the right tokens that count in the accuracy or, with --prompt, the log
probability of its answer at the last position. --of and --at change it. If --of names tokens, the L of
heads, MLPs and edges on sequences of the task is still the default, unless --samples is given; so
it is if --at is given.

One sequence: the weights A, dL/dA and dL/dS of every head (S: the scores before the softmax), as
pictures and in report.html, which a browser opens from disk. arrays.safetensors has all arrays, with
q, k, v, z and gradients; heed info lists them, and the metadata "schema" has their meanings and
shapes. heed plot draws one head of it.

Edges and cells are measured within a budget of work, the largest predictions first. --show edges and
--show cells measure all of them.

A study goes into a new directory. While it is written, or after a kill, it has a file named unfinished.

[Edges]
L0H0:K:L1H0 is the edge from the output of L0H0 to the keys of L1H0 (Q: queries, V: values): L1H0 alone
reads the stream with the output of L0H0 replaced. embed is the embedding, L0MLP an MLP, logits the
output.

[Patching]
An activation of one prompt in the run on another. denoise: the clean value in the corrupt run; noise:
the corrupt value in the clean run. A share is a part of the gap between the two L. A line of --pairs is
clean TAB corrupt, optionally TAB right TAB wrong token; all prompts have the same number of tokens. L
of pairs is the logit of the right token minus that of the wrong one.

[Time]
--over-time studies every checkpoint (a built-in task saves about 20 by default) on 32 sequences with
one donor each, or on the sequence of --prompt or --sample. It writes over_time.png and report.html into
a new directory: over-time of the run, then over-time-2, ... --json prints the numbers.)";

}  // namespace

bool StudyOptions::shows(std::string_view key) const {
  return std::ranges::count(show, key) + std::ranges::count(show, "all") > 0;
}

void add_study_settings(Command& c, StudyOptions& o) {
  c.examples = kExamples, c.notes = kNotes;
  c.arguments = 1;
  std::vector<std::string> sections{"all"};
  for (const Analysis* analysis : kAnalyses) sections.emplace_back(analysis->key);
  c.add("Options",
        {run_setting(o.run),
         lab::Setting("prompt", o.prompt, "TEXT", "the sequence").shows("the task's example"),
         lab::Setting("sample", o.sample, {0}, "the sequence, by its index in the evaluation set")
             .shows(""),
         lab::Setting("of", o.of, "WHAT",
                      "objective L: logprob (of the right tokens), loss, logprob:C, logit:C (minus "
                      "the mean logit) or diff:A-B")
             .shows("logprob; for a prompt, that of its answer"),
         lab::Setting("at", o.at, "POS,...", "positions of L, from 0; BOS counts")
             .shows("all that count in the accuracy; for tokens the last"),
         lab::Setting("out", o.out, "DIR", "directory for the files")
             .shows("study in the run, then study-2, ..."),
         format_setting(o.formats),
         {"weights", o.weights, "FILE", "weights file inside the run directory"},
         lab::Setting("show", o.show, sections,
                      "sections to print, with at most 24 rows of a table; all: each")
             .shows("those whose options are given")});
  c.mark(&lab::Setting::may_be_empty, {"prompt"});
  c.add("Heads",
        {{"ablate", o.ablate, "HEADS",
          "measures L without these heads and MLPs together, such as L0MLP,L1H0; all: measures "
          "each of them, even if it takes long"},
         {"keep", o.keep, "HEADS",
          "measures L with these heads alone, such as L0H0,L1H1; all MLPs remain unless one is in "
          "the list"},
         {"ablation", o.ablation,
          "replacement of --ablate and --keep: the output on a donor, zero, or the mean at the "
          "position"},
         lab::Setting("samples", o.samples, {1, 1 << 16},
                      "number of evaluation sequences for effects; at least 5")
             .shows("32, or until 4,096 positions count, at most 512"),
         {"block", o.block, "CELLS",
          "measures L if queries cannot attend to keys, such as L1H0[5,3] (query 5, key 3) or "
          "L1H0[*,0-3]"}});
  c.add("Edges", {{"edge", o.edge, "EDGES",
                   "measures these edges together, such as L0H0:K:L1H1,embed:L1MLP"}});
  c.add(
      "Patching",
      {{"corrupt", o.corrupt, "TEXT",
        "a second prompt of the same length: patches activations between the two"},
       {"pairs", o.pairs, "FILE",
        "patches over pairs of prompts; a line is clean TAB corrupt, and optionally TAB right TAB "
        "wrong token"},
       {"corruption", o.corruption, "NAME",
        "patches over --samples pairs of the task (default 32), such as value, key or query of "
        "induction"}});
  c.add("Time", {{"over-time", o.over_time, "studies every checkpoint of the run"}});
  c.add_common(Command::kThreads | Command::kJson);
  c.mark(&lab::Setting::common, {"run", "prompt", "sample", "of", "at", "out", "show", "ablate",
                                 "keep", "samples", "over-time"});
}

}  // namespace heed
