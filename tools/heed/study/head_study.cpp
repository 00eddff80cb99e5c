#include "tools/heed/study/head_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/base/text.h"
#include "nn/study/forward_passes.h"
#include "nn/study/study.h"
#include "nn/train/cost/timing.h"
#include "nn/train/evaluate.h"
#include "tools/heed/find_run.h"

namespace heed {
namespace {

// ---- sequences and L

// Returns L on sequences of the task. Without --samples, given tokens and positions belong to the
// subject's sequence alone, so they are not used here.
nn::Objective objective_on(const nn::Batch& batch, const Subject& s, const Command& c) {
  nn::Objective o = s.objective;
  const bool chosen = c.given("samples");
  if (!chosen || !c.given("at")) o.positions.clear();
  const bool is_default = o.kind == nn::Objective::kMargin && !c.given("of");
  if (is_default || (!chosen && !o.is_of_targets() && o.kind != nn::Objective::kMargin))
    return nn::default_objective(s.model(), s.info(), batch, o.positions);
  if (o.kind == nn::Objective::kMargin) return nn::margin(s.model(), batch, o.positions);
  if (!o.is_of_targets() && o.positions.empty()) {
    if (s.info().stop)
      usage_error(
          "--samples: sequences of {} end at different positions; give --at, --of margin or --of "
          "loss",
          s.info().name);
    o.positions = {batch.inputs.size(1) - 1};
  }
  return o;
}

// ---- measurement

// Returns what replaces the output of a component that is cut.
std::string replacement_text(nn::Ablation how) {
  if (how == nn::Ablation::kZero) return "zeros";
  return how == nn::Ablation::kMean ? "its mean over these sequences"
                                    : "its output on the next of these sequences";
}

constexpr double kMostSeconds = 30;  // limit of the measurement of heads by default

// Sequences of a sample, and their description.
struct Sequences {
  nn::Batch batch;
  std::string text;
};
Sequences sequences_of(const HeadArguments& a, const Command& c, const Subject& s) {
  const nn::Task& task = *s.run->task;
  const std::int64_t available = task.evaluation_size();
  if (c.given("samples") && a.samples > available)
    usage_error("--samples: needs 1 to {}, got {}", available, a.samples);
  const std::int64_t most = 8 * nn::evaluation_chunk(s.model(), s.info());
  if (c.given("samples") && a.samples > most)
    usage_error("--samples: needs at most {} for the memory of this model and context, got {}",
                most, a.samples);
  const std::int64_t wanted = a.samples > 0 ? a.samples : nn::default_samples(task);
  const std::int64_t count = std::min({wanted, most, available});
  if (a.ablation == nn::Ablation::kResample && count < 2)
    usage_error(
        "--ablation resample uses the output of another sequence; give --samples 2 or more");
  return {task.evaluation(0, count),
          fmt::format("{} of {}", counted(count, "sequence"), s.info().name)};
}

// Seconds that the measurement of all heads takes.
struct Estimate {
  double measured;  // EffectParts::kMeasured
  double all;       // EffectParts::kAll
};
// Estimates the time from the fastest of three passes over as many sequences as are in memory at
// once. The first pass of a process takes longer, and so does a pass beside other processes.
Estimate estimate_of(const nn::Transformer& model, nn::Batch batch) {
  const std::int64_t count = batch.inputs.size(0),
                     part = std::min(count, nn::sequences_at_once(model, batch.inputs.size(1)));
  for (nn::Tensor* x : {&batch.inputs, &batch.targets, &batch.counted})
    *x = autograd::slice(*x, 0, 0, part);
  double seconds = HUGE_VAL;
  for (int i = 0; i < 3; ++i)
    seconds = std::min(seconds, nn::seconds_of([&] {
                         nn::BaseRun(model, batch, {nn::Objective::kLogLikelihood});
                       }));
  const double pass = double(count) / double(part) * seconds;
  const double scores = 20 * pass;  // a study: forward, backward, and the scores of all heads
  const auto heads = double(model.options.layers * model.options.attention.heads);
  // A pass with a cut starts at the layer of the cut, on average in the middle of the model. The
  // sum includes cuts of the largest edges.
  const double cuts = scores + pass * (heads + double(model.options.layers) + 60);
  return {cuts, cuts + pass * 13 * heads};
}

// Returns a sentence if the model predicts no better than token frequencies, and otherwise "".
std::string no_better_text(const Subject& s, std::int64_t count) {
  const std::optional<nn::Effect> gain = nn::gain_over_frequencies(*s.run, count);
  if (nn::predicts_better(gain)) return "";
  return fmt::format(
      "This model predicts no better than token frequencies, so nothing can be said about its "
      "heads "
      "and MLPs: on {} its log probability of the right tokens, minus that of the frequencies, is "
      "{} "
      "nats. Train it further (heed train --{} {} --steps N), and study it again.",
      counted(gain->sequences, "sequence"), effect_text(*gain),
      nn::RunFolder(s.source.run).has_state() ? "resume" : "from", s.folder());
}

// Measures HeadStudy::untrained.
std::optional<double> measure_untrained(const HeadSample& sample, const Subject& s) {
  for (const nn::CheckpointFile& c : nn::RunFolder(s.source.run).checkpoints()) {
    if (c.step != 0) continue;
    const std::string file = std::filesystem::relative(c.file, s.source.run).string();
    const nn::LoadedRun first = open_run(s.source.run, file, nn::Use::kPrompts);
    const auto replaced = nn::replacement(first.model, sample.run.batch, sample.replaced.how);
    const nn::BaseRun run(first.model, sample.run.batch, sample.run.objective);
    return nn::ablate(run, nn::other_components(first.model, {}), replaced).mean;
  }
  return {};
}

// Measures the heads on study.sample: with `everything`, also the parts that take long.
void measure(HeadStudy& study, const Subject& s, const Estimate& e, bool everything,
             Progress& progress) {
  const HeadSample& sample = *study.sample;
  auto parts = nn::EffectParts::kAll;
  if (!everything && e.all > kMostSeconds) {
    parts = nn::EffectParts::kMeasured;
    study.add_not_measured(
        "softmax exact and integrated were not measured, because this would take more than 30 "
        "seconds; --ablate all measures them.");
  }
  const double seconds = parts == nn::EffectParts::kAll ? e.all : e.measured;
  progress.at_work(fmt::format("Measuring the heads, about {:.0f} seconds", seconds));
  study.measured = std::make_unique<nn::MeasuredHeads>(nn::measure_heads(
      sample.run, sample.replaced, parts, [&](std::int64_t done, std::int64_t total) {
        progress.at_work(fmt::format("Measuring the heads, about {:.0f} seconds: {} of {} steps",
                                     seconds, done, total));
      }));
  if (const auto tokens = nn::score_on_repeated_tokens(*study.measured, *s.run)) {
    if (*tokens < nn::kLeastRepeated)
      study.add_not_measured(fmt::format(
          "Previous-token, duplicate-token and induction scores are measured on repeated random "
          "tokens, which need a context of at least {}; it is {}.",
          nn::kCopies * nn::kLeastRepeated + 1, s.info().context));
    else
      study.score_sequences = fmt::format("{} sequences of {} random tokens, {} times",
                                          nn::kRepeatedSequences, *tokens, nn::kCopies);
  }
  study.summary = nn::summarize_heads(sample.run, sample.replaced, *study.measured, s.predicts);
  if (s.run->step != 0) study.untrained = measure_untrained(sample, s);
}

}  // namespace

HeadSample sample_of(const HeadArguments& a, const Command& c, const Subject& s) {
  const auto [batch, text] = sequences_of(a, c, s);
  const nn::Objective objective = objective_on(batch, s, c);
  return {nn::BaseRun(s.model(), batch, objective), nn::replacement(s.model(), batch, a.ablation),
          text, objective_description(objective, s.info().vocabulary),
          replacement_text(a.ablation)};
}

std::vector<nn::Setting> head_settings(HeadArguments& a) {
  return {
      {"ablate", a.ablate, "HEADS",
       "measures L without these heads and MLPs together, such as L0MLP,L1H0; all: measures each "
       "of them and each pair of heads, even if it takes long"},
      {"keep", a.keep, "HEADS",
       "measures L with these heads alone, such as L0H0,L1H1; all MLPs remain unless one is in the "
       "list"},
      {"ablation", a.ablation,
       "replacement for a head's output: its mean, zero, or that of another sequence"},
      nn::Setting("samples", a.samples, {1, 1 << 16},
                  "number of evaluation sequences for the effects of heads")
          .shows("32, or until 4,096 positions count, at most 512")};
}

HeadStudy study_heads(const HeadArguments& a, const Command& c, Subject& s, Progress& progress) {
  HeadStudy study;
  if (!s.has_sequences && a.ablate == "all")
    usage_error(
        "--ablate all needs the sequences of the run, which are not available; leave out --ablate "
        "all");
  if (!s.has_sequences) {
    study.not_measured =
        "The effects of the heads were not measured, because the sequences of the run are not "
        "available.";
    return study;
  }
  const bool needs_sample =
      std::ranges::any_of(std::initializer_list<const char*>{"samples", "ablate", "keep", "edge"},
                          [&](const char* option) { return c.given(option); });
  const Estimate e = estimate_of(s.model(), sequences_of(a, c, s).batch);
  const bool asked = a.ablate == "all", too_long = !asked && e.measured > kMostSeconds;
  study.not_measured =
      no_better_text(s, too_long && !needs_sample ? 32 : nn::default_samples(*s.run->task));
  s.predicts = study.not_measured.empty();
  if (needs_sample || !too_long) study.sample = sample_of(a, c, s);
  if (too_long) {
    const nn::Transformer::Options& o = s.model().options;
    const std::string text = fmt::format(
        "The effects of the {} heads were not measured, because this would take about {:.0f} "
        "seconds. To measure them, add --ablate all to the command.",
        o.layers * o.attention.heads, e.measured);
    progress.clear();
    print_error("warning: " + text);
    study.add_not_measured(text);
    return study;
  }
  measure(study, s, e, asked, progress);
  return study;
}

void HeadStudy::add_not_measured(const std::string& sentence) {
  not_measured += (not_measured.empty() ? "" : " ") + sentence;
}

void HeadStudy::add_measured(nn::HeadReport& report, const nn::HeadReport& on_sample) const {
  for (const nn::HeadQuantity& q : nn::head_quantities())
    if (q.source == nn::HeadQuantity::kEffects || q.source == nn::HeadQuantity::kMeasure)
      report[q.quantity] = on_sample[q.quantity];
  if (!score_sequences.empty())
    for (const nn::Quantity q : nn::kCopyScores) report[q] = on_sample[q];
}

HeadSample effect_sample(const HeadStudy& study, const HeadArguments& a, const Command& c,
                         const Subject& s) {
  const bool one = (c.given("prompt") || c.given("sample")) && !c.given("samples");
  if (!study.sample && a.ablation != nn::Ablation::kZero)
    usage_error("--ablation {} needs the text of the run; use --ablation zero",
                nn::enum_name(a.ablation));
  if (one && a.ablation == nn::Ablation::kResample)
    usage_error(
        "--ablation resample uses the output of another sequence, but --prompt and --sample give "
        "only one; add --samples 2 or more");
  if (!one && study.sample) return *study.sample;
  return {
      s.base(),
      study.sample ? study.sample->replaced : nn::replacement(s.model(), s.sequence, a.ablation),
      "the sequence shown", s.texts.objective,
      study.sample && a.ablation == nn::Ablation::kMean ? "its mean over " + study.sample->sequences
                                                        : replacement_text(a.ablation)};
}

std::vector<std::string> component_names(const std::vector<nn::Component>& components) {
  std::vector<std::string> names;
  for (const nn::Component& c : components) names.push_back(nn::component_name(c));
  return names;
}

std::string effect_text(const nn::Effect& e) {
  if (e.mean == 0) return "0";
  const std::string error =
      std::isnan(e.standard_error) ? "" : fmt::format(" +- {:.2g}", e.standard_error);
  return fmt::format("{:+.3g}", e.mean) + error;
}

const char* effect_unit(const nn::Objective& o) { return o.is_linear() ? "logits" : "nats"; }

}  // namespace heed
