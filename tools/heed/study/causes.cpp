#include "tools/heed/study/causes.h"

#include <algorithm>

#include "nn/study/copying.h"
#include "tools/heed/report/output.h"
#include "tools/heed/study/batch_study.h"
#include "tools/heed/study/cause_tables.h"
#include "tools/heed/study/study_arguments.h"

namespace heed {
namespace {

void check_samples(const CauseArguments& a, const Command& c, const nn::Task& task) {
  if (c.given("ablation") && !c.given("ablate")) usage_error("--ablation goes with --ablate");
  if (c.given("samples") && a.samples > task.evaluation_size())
    usage_error("--samples: needs 1 to {}, got {}", task.evaluation_size(), a.samples);
  if (a.ablation == nn::Ablation::kResample && a.samples < 2)
    usage_error(
        "--ablation resample puts another sequence's output in a head's place; give --samples 2 or "
        "more");
}

void add_ablation(Causes& causes, const CauseArguments& a, const Command& c,
                  const nn::LoadedRun& run, const nn::Batch& one, nn::Objective objective) {
  const bool all = a.ablate == "all";
  const nn::Transformer::Options& o = run.model.options;
  const auto heads = all ? nn::all_heads(o.layers, o.attention.heads)
                         : nn::parse_heads("--ablate", a.ablate, o.layers, o.attention.heads);
  nn::Batch batch = one;
  if (a.samples > 0) {
    batch = evaluation_batch(run, a.samples);
    if (objective.kind != nn::Objective::kLoss && !c.given("at") && run.task->facts().stop)
      usage_error("--samples: sequences of {} end at different places; give --at, or --of loss",
                  run.task->facts().name);
    if (!c.given("at")) objective.positions.clear();  // the last one, of theirs
  }
  if (!all) {
    causes.tables.push_back(ablation_table(
        {a.ablate}, {nn::ablate(run.model, batch, objective, heads, a.ablation)}, a.ablation));
    return;
  }
  std::vector<std::string> names;
  for (const nn::HeadIndex& h : heads) names.push_back(nn::head_name(h));
  causes.tables.push_back(
      ablation_table(names, nn::ablate_each(run.model, batch, objective, a.ablation), a.ablation));
  causes.tables.push_back(
      head_importance_table(nn::refined_head_importance(run.model, batch, objective)));
}

// The token, and what it is in the corrupt prompt if it differs.
std::vector<std::string> pair_labels(const nn::Batch& clean, const nn::Batch& corrupt,
                                     const nn::Vocabulary& vocabulary) {
  const auto a = clean.inputs.to_vector<std::int64_t>(),
             b = corrupt.inputs.to_vector<std::int64_t>();
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < a.size(); ++i)
    labels.push_back(vocabulary.label(a[i]) + (a[i] == b[i] ? "" : "/" + vocabulary.label(b[i])));
  return labels;
}

void add_patching(Causes& causes, const std::string& text, const nn::LoadedRun& run,
                  const nn::Batch& clean, const nn::Objective& objective) {
  const nn::Batch corrupt = run.task->prompt(text);
  if (corrupt.inputs.numel() != clean.inputs.numel())
    usage_error(
        "--corrupt: {} tokens, the sequence has {}; give as many, so that places correspond",
        corrupt.inputs.numel(), clean.inputs.numel());
  causes.labels = pair_labels(clean, corrupt, run.task->facts().vocabulary);
  causes.patching = nn::patching(run.model, clean, corrupt, objective);
  causes.tables.push_back(patching_table(*causes.patching, causes.labels));
  causes.tables.push_back(estimates_table(*causes.patching, causes.labels));
}

void add_attribution(Causes& causes, const nn::LoadedRun& run, const nn::Batch& one,
                     const nn::Objective& objective) {
  const nn::Vocabulary& vocabulary = run.task->facts().vocabulary;
  const auto labels = pair_labels(one, one, vocabulary);
  const std::int64_t query =
      objective.positions.empty() ? one.inputs.numel() - 1 : objective.positions.front();
  causes.tables.push_back(
      token_table(nn::token_attribution(run.model, one, objective, nn::Baseline::kMean, 129),
                  nn::attention_flow(run.model, one, objective), query, labels));
  causes.tables.push_back(
      lens_table(nn::logit_lens(run.model, one, objective), labels, vocabulary));
  if (run.model.options.norm == nn::NormPlacement::kPost) return;  // no part has an output there
  const nn::Transformer::Options& o = run.model.options;
  causes.tables.push_back(
      copying_table(nn::all_heads(o.layers, o.attention.heads), nn::copying_scores(run.model)));
  if (objective.kind != nn::Objective::kLoss)
    causes.tables.push_back(
        logit_attribution_table(nn::logit_attribution(run.model, one, objective)));
}

}  // namespace

std::vector<nn::Setting> cause_settings(CauseArguments& a) {
  return {
      nn::Setting("ablate", a.ablate, "HEADS",
                  "what L is without these heads at once, as L1H0,L0H1; all: without each of them "
                  "alone, beside what gradients say")
          .shows(""),
      {"ablation", a.ablation,
       "what takes their output's place: zero, its mean, or another "
       "sequence's"},
      nn::Setting("samples", a.samples, {1, 1 << 16},
                  "the heads' numbers, or what --ablate does, over so many evaluation sequences; "
                  "draws by_distance.png")
          .shows(""),
      nn::Setting("corrupt", a.corrupt, "TEXT",
                  "a second prompt of the same length: which activations of the first, put into "
                  "its run, bring L back")
          .shows(""),
      {"attribute", a.attribute,
       "which tokens and parts L comes from: integrated gradients, rollout, logit lens; which "
       "heads "
       "copy and, if L is of logits, direct logit attribution (neither with --norm post)"}};
}

Causes study_causes(const CauseArguments& a, const Command& c, const nn::LoadedRun& run,
                    const nn::Batch& one, const nn::Objective& objective) {
  check_samples(a, c, *run.task);
  Causes causes;
  if (c.given("samples") && !c.given("ablate")) {
    nn::Objective theirs = objective;
    const nn::Batch batch = evaluation_batch(run, a.samples);
    if (!c.given("at")) theirs.positions.clear();
    if (!c.given("at") && theirs.kind != nn::Objective::kLoss)
      theirs.positions = {batch.inputs.size(1) - 1};  // the last one, of theirs
    causes.batch = batch_study(run, batch, theirs);
    causes.tables.push_back(batch_table(*causes.batch, objective_text(theirs, run.task->facts())));
  }
  if (c.given("ablate")) add_ablation(causes, a, c, run, one, objective);
  if (c.given("corrupt")) add_patching(causes, a.corrupt, run, one, objective);
  if (a.attribute) add_attribution(causes, run, one, objective);
  return causes;
}

std::vector<std::filesystem::path> draw_causes(const std::filesystem::path& folder,
                                               const Causes& causes, const PictureSource& source) {
  std::vector<std::filesystem::path> files;
  if (causes.batch) files.push_back(draw_by_distance(folder, *causes.batch, source));
  if (causes.patching) {
    files.push_back(folder / "patching.png");
    draw_patching(files.back(), *causes.patching, causes.labels, source);
  }
  return files;
}

}  // namespace heed
