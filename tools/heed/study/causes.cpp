#include "tools/heed/study/causes.h"

#include <algorithm>
#include <cmath>

#include "nn/study/attribution.h"
#include "nn/study/copying.h"
#include "nn/study/head_importance.h"
#include "nn/study/lens.h"
#include "nn/train/evaluate.h"
#include "tools/heed/study/study_pictures.h"
#include "tools/heed/study/study_tables.h"

namespace heed {
namespace {

// ---- tables, whose columns are in text only; tables_json() writes them as data

Table titled(Columns columns, std::string title, std::string note) {
  Table t(columns);
  t.title = std::move(title), t.note = std::move(note), t.shown = 24;
  return t;
}

constexpr Column kEffectColumns[] = {{"", "effect", "L"},
                                     {"", "standard error", "L"},
                                     {"", "mean |effect|", "L"},
                                     {"", "sequences"}};
std::vector<Value> effect_row(const std::string& name, const nn::Effect& e) {
  return {name, e.mean, e.standard_error, e.mean_absolute, e.sequences};
}

constexpr Column kHeadNames[] = {{"", "heads"}};
constexpr auto kAblationColumns = joined(kHeadNames, kEffectColumns);
Table ablation_table(const std::vector<std::string>& names, const std::vector<nn::Effect>& effects,
                     nn::Ablation how) {
  Table t =
      titled(kAblationColumns, "Ablation",
             fmt::format("L without the heads' output ({}) less L as it is", nn::enum_name(how)));
  for (std::size_t i = 0; i < names.size(); ++i) t.add(effect_row(names[i], effects[i]));
  return t;
}

constexpr Column kImportanceColumns[] = {{"", "head"},
                                         {"", "zero ablation", "L"},
                                         {"", "standard error", "L", "", 3},
                                         {"", "-dL/dg", "L"},
                                         {"", "I_h", "L"},
                                         {"", "integrated", "L", "", 1},
                                         {"", "worst error", "L", "", 2},
                                         {"", "saturated"}};
Table head_importance_table(const std::vector<nn::HeadImportance>& heads) {
  const std::int64_t count = heads.front().ablation.sequences;
  Table t = titled(
      kImportanceColumns, "Heads' importance",
      fmt::format("a gate g on a head's output, 1 as it is, 0 cut. -dL/dg estimates what ablation "
                  "by 0 does, I_h is the mean |dL/dg|; minus the integral from 0 to 1 is the "
                  "ablation, up to its error. Saturated: the gradient has not the ablation's sign, "
                  "so it is no importance. Means over {}",
                  count == 1 ? "one sequence" : fmt::format("{} sequences", count)));
  for (const nn::HeadImportance& h : heads)
    t.add({nn::head_name(h.head), h.ablation.mean, h.ablation.standard_error, -h.gradient.mean,
           h.gradient.mean_absolute, h.integrated, h.completeness_error,
           h.saturated ? "saturated" : ""});
  return t;
}

constexpr Column kCopyingColumns[] = {{"", "head"}, {"", "copying score"}};
Table copying_table(const nn::Transformer& model) {
  Table t = titled(kCopyingColumns, "Copying",
                   "on random tokens that do not repeat: how much of what a head raises among them "
                   "is the token it reads; -1 none of it, 1 half, 3 all");
  const auto heads = nn::all_heads(model.options.layers, model.options.attention.heads);
  const std::vector<double> scores = nn::copying_scores(model);
  for (std::size_t i = 0; i < heads.size(); ++i) t.add({nn::head_name(heads[i]), scores[i]});
  return t;
}

// "L1 resid_pre at 3 (c)", "L1H0".
std::string place_name(const nn::PatchMap& map, std::int64_t layer, std::int64_t column,
                       const std::vector<std::string>& tokens) {
  if (map.by_head) return nn::head_name({layer, column});
  return fmt::format("L{} {} at {} ({})", layer, map.site.substr(5), column,
                     tokens[std::size_t(column)]);
}

constexpr Column kPatchingColumns[] = {
    {"", "place"}, {"", "effect"}, {"", "first order"}, {"", "second order"}};
Table patching_table(const nn::Patching& p, const std::vector<std::string>& tokens) {
  Table t = titled(
      kPatchingColumns, "Activation patching",
      fmt::format("L is {:.4g} on the clean prompt, {:.4g} on the corrupt one; effect: the share "
                  "of that which the clean activation at one place brings back. Orders: estimates "
                  "by derivatives at the corrupt prompt",
                  p.clean, p.corrupt));
  for (const nn::PatchMap& map : p.maps)
    for (std::size_t i = 0; i < map.effect.size(); ++i)
      t.add({place_name(map, std::int64_t(i) / map.columns, std::int64_t(i) % map.columns, tokens),
             map.effect[i], map.first_order[i], map.second_order[i]});
  std::stable_sort(t.rows.begin(), t.rows.end(), [](const auto& a, const auto& b) {
    return std::abs(a[1].number()) > std::abs(b[1].number());
  });
  return t;
}

constexpr Column kEstimateColumns[] = {{"", "estimate"},   {"", "r"},
                                       {"", "slope"},      {"", "worst place"},
                                       {"", "its effect"}, {"", "its estimate"}};
Table estimates_table(const nn::Patching& p, const std::vector<std::string>& tokens) {
  Table t = titled(kEstimateColumns, "Attribution patching",
                   "estimates of the effects above against them, over all places: correlation, "
                   "slope, and the place where they are farthest apart");
  for (const auto& [name, a] :
       {std::pair{"first order", &p.first_order}, std::pair{"second order", &p.second_order}}) {
    const auto map = std::find_if(p.maps.begin(), p.maps.end(),
                                  [&](const nn::PatchMap& m) { return m.site == a->worst.site; });
    t.add({name, a->r, a->slope, place_name(*map, a->worst.layer, a->worst.column, tokens),
           a->worst.effect, a->worst.estimate});
  }
  return t;
}

constexpr Column kTokenColumns[] = {{"", "position"},      {"", "token"},
                                    {"", "gradient", "L"}, {"", "integrated", "L"},
                                    {"", "rollout"},       {"", "gradient x attention"}};
Table token_table(const nn::TokenAttribution& a, const nn::AttentionFlow& flow, std::int64_t query,
                  const std::vector<std::string>& tokens) {
  Table t = titled(
      kTokenColumns, "Tokens",
      fmt::format("gradient: (embedding less the vocabulary's mean) . dL/d(embedding); "
                  "integrated: the same along the line between, whose sum is L less L of means, "
                  "{:.4g}, up to {:.2g}. Rollout and gradient x attention: from position {} on "
                  "through the patterns; they say where was read, not what it depends on",
                  a.value - a.baseline_value, a.completeness_error, query));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    t.add({i, tokens[i], a.input_gradient[i], a.integrated[i],
           flow.rollout.at({query, std::int64_t(i)}), flow.relevance.at({query, std::int64_t(i)})});
  return t;
}

constexpr Column kLensColumns[] = {{"", "position"},  {"", "token"},          {"", "layer"},
                                   {"", "of"},        {"", "probability"},    {"", "rank"},
                                   {"", "likeliest"}, {"", "its probability"}};
Table lens_table(const nn::LogitLens& lens, const std::vector<std::string>& tokens,
                 const nn::Vocabulary& vocabulary) {
  Table t = titled(kLensColumns, "Logit lens",
                   "what the stream after a layer would predict through the final norm and head");
  for (std::int64_t p = lens.length - 1; p >= 0; --p)
    for (std::int64_t layer = 0; layer < lens.layers; ++layer) {
      const nn::LensCell& cell = lens.at(layer, p);
      const bool known = cell.token != nn::kIgnored;
      t.add({p, tokens[std::size_t(p)], layer, known ? vocabulary.label(cell.token) : "",
             cell.probability, known ? Value(cell.rank) : Value(), vocabulary.label(cell.top),
             cell.top_probability});
    }
  return t;
}

constexpr Column kPartColumn[] = {{"", "part"}};
constexpr auto kContributionColumns = joined(kPartColumn, kEffectColumns);
Table logit_attribution_table(const std::vector<nn::Contribution>& parts) {
  Table t = titled(kContributionColumns, "Direct logit attribution",
                   "what each part writes into the stream for L, the final norm's scale held; they "
                   "sum to L");
  for (const nn::Contribution& part : parts) t.add(effect_row(part.name, part.effect));
  return t;
}

// ---- what the arguments ask for

void check_samples(const CauseArguments& a, const Command& c, const nn::Task& task) {
  if (c.given("ablation") && !c.given("ablate")) usage_error("--ablation goes with --ablate");
  if (c.given("samples") && a.samples > task.evaluation_size())
    usage_error("--samples: needs 1 to {}, got {}", task.evaluation_size(), a.samples);
  if (a.ablation == nn::Ablation::kResample && a.samples < 2)
    usage_error(
        "--ablation resample puts another sequence's output in a head's place; give --samples 2 or "
        "more");
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

// The first `samples` evaluation sequences, if memory is kept for as many.
nn::Batch evaluation_batch(const nn::LoadedRun& run, std::int64_t samples) {
  const std::int64_t most = 8 * nn::evaluation_chunk(run.model, run.task->facts());
  if (samples > most)
    usage_error("--samples: this model and context keep memory for {} at a time, got {}", most,
                samples);
  return run.task->evaluation(0, samples);
}

// The study of --samples. Where sequences end at different places, means would be of padding.
void add_batch(Causes& causes, const CauseArguments& a, const Command& c, const nn::LoadedRun& run,
               nn::Objective objective) {
  const nn::TaskFacts& facts = run.task->facts();
  const nn::Batch batch = evaluation_batch(run, a.samples);
  if (!c.given("at")) objective.positions.clear();
  if (!c.given("at") && objective.kind != nn::Objective::kLoss)
    objective.positions = {batch.inputs.size(1) - 1};  // the last one, of theirs
  if (facts.stop)
    usage_error(
        "--samples: sequences of {} end at different places, and a mean would be of padding; "
        "study one by --sample, or add --ablate",
        facts.name);
  causes.batch = nn::study(run.model, batch, objective);
  causes.tables.push_back(sequences_table(*causes.batch, objective_text(objective, facts)));
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
                     const nn::Objective& objective, const nn::Study& study) {
  const nn::Vocabulary& vocabulary = run.task->facts().vocabulary;
  const auto labels = vocabulary.labels(one.inputs.to_vector<std::int64_t>());
  const std::int64_t query =
      objective.positions.empty() ? one.inputs.numel() - 1 : objective.positions.front();
  causes.tables.push_back(
      token_table(nn::token_attribution(run.model, one, objective, nn::Baseline::kMean, 129),
                  nn::attention_flow(study), query, labels));
  causes.tables.push_back(
      lens_table(nn::logit_lens(run.model, one, objective), labels, vocabulary));
  if (run.model.options.norm == nn::NormPlacement::kPost) return;  // no part has an output there
  causes.tables.push_back(copying_table(run.model));
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
                    const nn::Batch& one, const nn::Objective& objective, const nn::Study& study) {
  check_samples(a, c, *run.task);
  Causes causes;
  if (c.given("samples") && !c.given("ablate")) add_batch(causes, a, c, run, objective);
  if (c.given("ablate")) add_ablation(causes, a, c, run, one, objective);
  if (c.given("corrupt")) add_patching(causes, a.corrupt, run, one, objective);
  if (a.attribute) add_attribution(causes, run, one, objective, study);
  return causes;
}

std::vector<nn::Effect> cut_heads(const nn::Transformer& model, const nn::Batch& one,
                                  const nn::Objective& objective) {
  constexpr double kMostFlops = 2e10;
  const double passes = double(model.options.layers * model.options.attention.heads);
  const double flops = 2 * double(nn::count_parameters(model)) * double(one.inputs.numel());
  if (passes * flops > kMostFlops) return {};
  return nn::ablate_each(model, one, objective, nn::Ablation::kZero);
}

}  // namespace heed
