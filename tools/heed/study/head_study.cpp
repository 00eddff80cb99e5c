#include "tools/heed/study/head_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/base/text.h"
#include "nn/study/forward_passes.h"
#include "nn/train/cost/timing.h"
#include "nn/train/evaluate.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/report.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

std::vector<std::string> names_of(const std::vector<nn::HeadIndex>& heads) {
  std::vector<std::string> names;
  for (const nn::HeadIndex& h : heads) names.push_back(nn::head_name(h));
  return names;
}
std::string list_text(const std::vector<nn::HeadIndex>& heads) {
  return heed::join(names_of(heads));
}

// ---- sequences and L

// Returns L on other sequences than that of the subject. A given token or position belongs to the
// subject's sequence, unless --samples was given. Without it, L is the default of the task.
nn::Objective objective_on(const nn::Batch& batch, const Subject& s, const Command& c) {
  nn::Objective o = s.objective;
  const bool chosen = c.given("samples");
  if (!chosen || !c.given("at")) o.positions.clear();
  const bool is_default = o.kind == nn::Objective::kMargin && !c.given("of");
  if (is_default || (!chosen && !o.is_of_targets() && o.kind != nn::Objective::kMargin)) {
    o = {.kind = nn::Objective::kMargin, .positions = o.positions};
    if (s.info().random_targets) o.kind = nn::Objective::kLogLikelihood;
  }
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

std::optional<HeadSample> sample_of(const HeadArguments& a, const Command& c, const Subject& s) {
  const nn::Task& task = *s.run->task;
  if (!s.has_sequences) return {};
  if (c.given("samples") && a.samples > task.evaluation_size())
    usage_error("--samples: needs 1 to {}, got {}", task.evaluation_size(), a.samples);
  const std::int64_t most = 8 * nn::evaluation_chunk(s.model(), s.info());
  if (c.given("samples") && a.samples > most)
    usage_error("--samples: needs at most {} for the memory of this model and context, got {}",
                most, a.samples);
  const std::int64_t count =
      std::min({a.samples > 0 ? a.samples : default_samples(task), most, task.evaluation_size()});
  if (a.ablation == nn::Ablation::kResample && count < 2)
    usage_error(
        "--ablation resample uses the output of another sequence; give --samples 2 or more");
  nn::Batch batch = task.evaluation(0, count);
  nn::Objective objective = objective_on(batch, s, c);
  std::string text = objective_description(objective, s.info().vocabulary);
  nn::Replacement replaced = nn::replacement(s.model(), batch, a.ablation);
  return HeadSample{std::move(batch), std::move(objective), std::move(replaced),
                    fmt::format("{} sequence{} of {}", count, count == 1 ? "" : "s", s.info().name),
                    std::move(text)};
}

// ---- measurement

// Returns what can be measured within the limit of time, or no value.
std::optional<nn::EffectParts> affordable(const HeadSample& sample, const Subject& s,
                                          std::string& not_measured) {
  constexpr double kMostSeconds = 30;
  const double pass = nn::seconds_of(
      [&] { nn::values_without(s.model(), sample.batch, sample.objective, {}, sample.replaced); });
  // The scores of the heads need all arrays of a study, of a few sequences at a time.
  const std::int64_t count = sample.batch.inputs.size(0),
                     part = std::min(count,
                                     nn::sequences_at_once(s.model(), sample.batch.inputs.size(1)));
  const double scores = double(count) / double(part) * nn::seconds_of([&] {
                          nn::study(s.model(), nn::rows_of(sample.batch, 0, part),
                                    nn::rows_of(sample.objective, 0, part));
                        });
  const nn::Transformer::Options& o = s.model().options;
  const double heads = double(o.layers * o.attention.heads);
  const double cuts = scores + pass * (2 * heads + double(o.layers) + 12);
  if (cuts + pass * 25 * heads <= kMostSeconds) return nn::EffectParts::kAll;
  if (cuts <= kMostSeconds) return nn::EffectParts::kMeasured;
  not_measured = fmt::format(
      "The effects of the {} heads were not measured, because this would take about {:.0f} "
      "seconds. To measure them, add --ablate all to the command.",
      heads, cuts);
  return {};
}

// ---- first text

std::string replacement_text(nn::Ablation how) {
  if (how == nn::Ablation::kZero) return "zeros";
  return how == nn::Ablation::kMean ? "its mean over these sequences"
                                    : "its output on the next of these sequences";
}

std::string effect_unit(const nn::Objective& o) { return o.is_linear() ? "logits" : "nats"; }

// Returns a change as "+0.03"; "0" if nothing changes.
std::string change_text(double change) {
  return change == 0 ? "0" : fmt::format("{:+.2g}", change);
}

std::string falls(double change) { return change < 0 ? "falls" : "rises"; }

// Returns what the head reads: its role with the score, or its largest mean weights.
std::string reads_text(const nn::HeadFinding& f, const nn::HeadReport& uniform,
                       const nn::Vocabulary& vocabulary) {
  if (!f.roles.empty()) {
    std::vector<std::string> parts;
    for (const nn::Role* role : f.roles)
      parts.push_back(fmt::format("{} ({:.2f}; equal weights: {:.2f})", role->reads,
                                  f.head->report.*role->score, uniform.*role->score));
    return heed::join(parts);
  }
  const auto largest = [](const std::vector<double>& weights, auto&& name) {
    std::vector<std::size_t> order(weights.size());
    std::iota(order.begin(), order.end(), std::size_t(0));
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return weights[i]; });
    if (order.size() > 3) order.resize(3);
    std::vector<std::string> parts;
    for (const std::size_t i : order)
      parts.push_back(fmt::format("{} ({:.2f})", name(i), weights[i]));
    return heed::join(parts);
  };
  return "mostly " +
         largest(f.head->by_distance,
                 [](std::size_t d) {
                   return d == 0 ? std::string("itself") : fmt::format("{} back", d);
                 }) +
         "; by token mostly " + largest(f.head->by_token, [&](std::size_t token) {
           return plot::token_text(vocabulary.label(std::int64_t(token)));
         });
}

std::string role_text(const nn::Role& role) {
  return fmt::format("{} {} head", role.name == "induction" ? "an" : "a", role.name);
}

// Returns the line of a head that matters.
std::string line_of(const nn::HeadFinding& f, const nn::HeadReport& uniform,
                    const nn::Vocabulary& vocabulary) {
  const double needed = f.head->needed.mean, suffices = f.head->suffices.mean;
  std::string effect =
      f.is_needed ? fmt::format("Without it L {} by {:.3g}", falls(needed), std::abs(needed))
                  : fmt::format("Without it L changes only by {:+.2g}", needed);
  if (f.is_sufficient)
    effect += fmt::format("{} as the only head of its layer it {} L by {:.3g}",
                          f.is_needed ? ";" : ", but", suffices < 0 ? "raises" : "lowers",
                          std::abs(suffices));
  return fmt::format("{} {}: it reads {}. {}.", nn::head_name(f.head->report),
                     f.roles.empty() ? "has no simple pattern" : "is " + role_text(*f.roles[0]),
                     reads_text(f, uniform, vocabulary), effect);
}

// Returns the line of a head that has a known pattern, but does not change L.
std::string pattern_only_line(const nn::HeadFinding& f, const nn::HeadReport& uniform,
                              const nn::Vocabulary& vocabulary) {
  const double needed = f.head->needed.mean, suffices = f.head->suffices.mean;
  const bool is_silent = std::max(std::abs(needed), std::abs(suffices)) < 1e-6;
  return fmt::format(
      "{} attends like {} {}: it reads {}. Without it L changes by {}; as the only head of its "
      "layer it changes L by {}.",
      nn::head_name(f.head->report), role_text(*f.roles[0]),
      is_silent ? "and writes nothing that changes L"
                : fmt::format("but its effects do not count (they are below {:.2g})", f.floor),
      reads_text(f, uniform, vocabulary), change_text(needed), change_text(-suffices));
}

// ---- tables

// Returns how well the estimates agree with `needed`: "gradient 0.1 (0.40), ...".
std::string agreement_text(const nn::MeasuredHeads& m,
                           const std::vector<nn::EffectEstimate>& estimates, double smallest) {
  std::vector<std::string> parts;
  std::int64_t count = 0;
  for (const nn::EffectEstimate& e : estimates) {
    std::vector<double> predicted;
    for (const nn::MeasuredHead& h : m.heads) predicted.push_back(e.value(h)->mean);
    const nn::Agreement a = nn::agreement(m.rows(), predicted, smallest);
    count = a.rows;
    parts.push_back(fmt::format(
        "{} is {} times needed ({})", e.name, nn::factor_text(a.factor),
        std::isnan(a.rank_correlation) ? "-" : fmt::format("{:.2f}", a.rank_correlation)));
  }
  if (count == 0) return "";
  return fmt::format(
      " Over the {} heads with an effect, {} (median; in parentheses the rank correlation over all "
      "heads).",
      count, heed::join(parts));
}

Table all_effects(const HeadStudy& study) {
  const nn::MeasuredHeads& m = *study.measured;
  const HeadSample& sample = *study.sample;
  std::vector<nn::EffectEstimate> estimates = nn::effect_estimates();
  std::erase_if(estimates, [&](const auto& e) { return !e.value(m.heads[0]); });
  std::vector<Column> columns{{"", "head"},
                              {"", "needed", "", "{:+.3g}"},
                              {"", "error", "", "{:.2g}", 1},
                              {"", "suffices", "", "{:+.3g}"}};
  for (const nn::EffectEstimate& e : estimates)
    columns.push_back({.label = e.name, .format = "{:+.3g}"});
  columns.push_back({"", "mark"});
  Table t(columns);
  t.title = fmt::format("Effects of heads on L in {}, means over {}; cut: the output is {}",
                        effect_unit(sample.objective), sample.sequences,
                        replacement_text(sample.replaced.how));
  const double smallest = nn::smallest_effect(sample.objective);
  const double largest = nn::largest_effect(m.rows());
  for (std::size_t i = 0; i < m.heads.size(); ++i) {
    const nn::MeasuredHead& h = m.heads[i];
    std::vector<Value> row{nn::head_name(h.report), h.needed.mean, h.needed.standard_error,
                           h.suffices.mean};
    for (const nn::EffectEstimate& e : estimates) row.push_back(e.value(h)->mean);
    row.push_back(study.mark(i));
    t.add(std::move(row));
  }
  t.note = fmt::format(
      "needed: L without the head, minus L. suffices: L without all heads of the layer, minus L "
      "without all of them but this one. A negative number means that the head raises L. gradient "
      "and the columns after it predict needed. No mark: the gradient is right within a factor of "
      "3. "
      "redundant: needed is small, suffices is not. missed: the gradient does not show the effect. "
      "phantom: it shows an effect that does not exist. reversed: it has the other sign. x0.3: it "
      "is 0.3 times the effect. -: neither counts, being below {:.2g} or below two standard "
      "errors (5 % of the largest effect, and at least {:.2g}).{}",
      std::max(smallest, 0.05 * largest), smallest, agreement_text(m, estimates, smallest));
  return t;
}

Table pairs(const HeadStudy& study, const Subject& s) {
  const HeadSample& sample = *study.sample;
  Table t({{"", "heads"},
           {"", "effect", "", "{:+.3g}"},
           {"", "error", "", "{:.2g}"},
           {"", "more than the sum", "", "{:+.3g}"}});
  t.title = "Effects of pairs of heads";
  t.note =
      "effect: L without both heads, minus L. more than the sum: the effect minus needed of both; "
      "it is large if the heads stand in for each other";
  for (const nn::PairEffect& p : nn::pair_effects(s.model(), sample.batch, sample.objective,
                                                  sample.replaced, study.measured->heads))
    t.add({list_text({p.a, p.b}), p.both.mean, p.both.standard_error, p.excess});
  return t;
}

// Returns the table of the sets of --ablate and --keep. They are measured on the sequence that
// --prompt or --sample selects, and otherwise on the sample.
Table sets(const HeadStudy& study, const HeadArguments& a, const Command& c, const Subject& s) {
  const bool one = (c.given("prompt") || c.given("sample")) && !c.given("samples");
  if (!study.sample && a.ablation != nn::Ablation::kZero)
    usage_error("--ablation {}: the text of the run is not available; use --ablation zero",
                nn::enum_name(a.ablation));
  if (one && a.ablation == nn::Ablation::kResample)
    usage_error("--ablation resample: one sequence has no other; give --samples 2 or more");
  const nn::Batch& batch = one || !study.sample ? s.sequence : study.sample->batch;
  const nn::Objective& o = one || !study.sample ? s.objective : study.sample->objective;
  const nn::Replacement replaced =
      study.sample ? study.sample->replaced : nn::replacement(s.model(), batch, a.ablation);
  Table t({{"", "heads"},
           {"", "effect", effect_unit(o), "{:+.4g}"},
           {"", "error", "", "{:.2g}"},
           {"", "left", "", "percent"}});
  t.title = "Sets of heads";
  t.note = fmt::format(
      "effect: L with the output of the heads replaced by {}, minus L. left: the share of the "
      "difference that all heads make to L. L here is {}, on {}",
      replacement_text(a.ablation), objective_description(o, s.info().vocabulary),
      one || !study.sample ? "the sequence shown" : study.sample->sequences);
  const auto add = [&](const std::string& option, const std::string& text, const char* how) {
    const nn::Transformer::Options& options = s.model().options;
    const auto heads = nn::parse_heads(option, text, options.layers, options.attention.heads);
    const auto cut = option == "--keep" ? nn::other_heads(s.model(), heads) : heads;
    const nn::KeptShare k = nn::kept_share(s.model(), batch, o, cut, replaced);
    t.add({how + list_text(heads), k.effect.mean, k.effect.standard_error, k.left});
  };
  if (c.given("ablate") && a.ablate != "all") add("--ablate", a.ablate, "without ");
  if (c.given("keep")) add("--keep", a.keep, "only ");
  return t;
}

// Measures HeadStudy::untrained.
std::optional<double> measure_untrained(const HeadSample& sample, const Subject& s) {
  for (const nn::CheckpointFile& c : nn::RunFolder(s.source.run).checkpoints()) {
    if (c.step != 0) continue;
    const std::string file = std::filesystem::relative(c.file, s.source.run).string();
    const nn::LoadedRun first = open_run(s.source.run, file, nn::Use::kPrompts);
    const auto replaced = nn::replacement(first.model, sample.batch, sample.replaced.how);
    return -nn::ablate(first.model, sample.batch, sample.objective,
                       nn::other_heads(first.model, {}), replaced)
                .mean;
  }
  return {};
}

}  // namespace

std::int64_t default_samples(const nn::Task& task) {
  constexpr std::int64_t kLeast = 32, kMost = 512, kPositions = 4096;
  const nn::Tensor counted = task.evaluation(0, std::min(kLeast, task.evaluation_size())).counted;
  const double by_sequence =
      std::max(1.0, sum(to(counted, autograd::float64)).item()) / double(counted.size(0));
  return std::clamp(std::int64_t(std::ceil(kPositions / by_sequence)), kLeast, kMost);
}

std::vector<nn::Setting> head_settings(HeadArguments& a) {
  return {
      nn::Setting("ablate", a.ablate, "HEADS",
                  "measures L without these heads together, such as L1H0,L0H1; all: measures "
                  "each head and each pair, even if it takes long")
          .shows(""),
      nn::Setting("keep", a.keep, "HEADS", "measures L with these heads alone, such as L0H0,L1H1")
          .shows(""),
      {"ablation", a.ablation,
       "replacement for a head's output: its mean, zero, or that of another sequence"},
      nn::Setting("samples", a.samples, {1, 1 << 16},
                  "number of evaluation sequences for the effects of heads; if it is given, "
                  "also draws by_distance.png")
          .shows("32, or until 4,096 positions count, at most 512")};
}

HeadStudy study_heads(const HeadArguments& a, const Command& c, const Subject& s,
                      Progress& progress) {
  HeadStudy study;
  study.sample = sample_of(a, c, s);
  if (!study.sample && a.ablate == "all")
    usage_error("--ablate all: the text of the run is not available");
  if (!study.sample && a.ablate == "all")
    usage_error("--ablate all: the text of the run is not available");
  if (!study.sample) {
    study.not_measured =
        "The effects of the heads were not measured, because the text of the run is not available.";
    return study;
  }
  const HeadSample& sample = *study.sample;
  auto parts = affordable(sample, s, study.not_measured);
  if (a.ablate == "all") parts = nn::EffectParts::kAll;
  if (!parts) return study;
  study.not_measured.clear();
  study.measured = std::make_unique<nn::MeasuredHeads>(nn::measure_heads(
      s.model(), sample.batch, sample.objective, sample.replaced, *parts,
      [&](std::int64_t done, std::int64_t total) {
        progress.at_work(fmt::format("Measuring the heads: {} of {} steps", done, total));
      }));
  study.summary = nn::summarize_heads(s.model(), sample.batch, sample.objective, sample.replaced,
                                      *study.measured);
  if (s.run->step != 0) study.untrained = measure_untrained(sample, s);
  return study;
}

std::string HeadStudy::mark(std::size_t head) const {
  const nn::HeadFinding& f = summary.findings[head];
  return f.head->needed.sequences == 1 ? "" : nn::mark_text(f.head->row(), f.floor);
}

Table claims(const HeadStudy& study) {
  Table table(kClaim);
  if (!study.measured) return table;
  const auto add = [&](const std::vector<nn::HeadIndex>& heads, std::string_view role,
                       std::string_view quantity, double value) {
    table.add({Value(names_of(heads)), role, quantity, value});
  };
  // A claim of an effect holds on other sequences, too, up to a factor of 2.
  const auto is_certain = [](const nn::Effect& e) {
    return std::abs(e.mean) >= 4 * e.standard_error;
  };
  const auto score_name = [](double nn::HeadReport::*score) {
    return std::ranges::find(nn::head_quantities(), score, &nn::HeadQuantity::value)->name;
  };
  for (const nn::HeadFinding& f : study.summary.findings) {
    const nn::MeasuredHead& h = *f.head;
    for (const nn::Role* role : f.roles)
      if (f.matters() || role->name != "uniform")
        add({h.report}, f.matters() ? role->name : "no effect", score_name(role->score),
            h.report.*role->score);
    if (f.is_needed && is_certain(h.needed)) add({h.report}, f.role(), "needed", h.needed.mean);
    if (f.is_sufficient && is_certain(h.suffices))
      add({h.report}, f.role(), "suffices", h.suffices.mean);
  }
  for (const nn::RoleEffect& r : study.summary.by_role)
    if (r.heads.size() > 1 && is_certain(r.needed))
      add(r.heads, r.role->name, "needed", r.needed.mean);
  if (std::isnan(study.summary.left_alone)) return table;
  add(study.summary.named, "all that matter", "lost_without", 1 - study.summary.left_without);
  add(study.summary.named, "all that matter", "left_alone", study.summary.left_alone);
  return table;
}

std::vector<std::string> first_text(const HeadStudy& study, const Subject& s) {
  if (!study.measured) return {study.not_measured};
  const nn::MeasuredHeads& m = *study.measured;
  const nn::HeadSummary& summary = study.summary;
  const std::string unit = effect_unit(study.sample->objective);
  std::vector<std::string> text{fmt::format(
      "What the heads do, on {}. A head is cut by replacing its output with {}. L is {}; it is "
      "{:.4g} {} with all heads, and {:.4g} without any.",
      study.sample->sequences, replacement_text(study.sample->replaced.how),
      study.sample->objective_text, m.value.mean, unit, m.value.mean + m.no_heads.mean)};
  std::vector<nn::HeadIndex> others;
  double others_change = 0;
  for (const nn::HeadFinding& f : summary.findings) {
    if (f.matters())
      text.push_back(line_of(f, m.uniform, s.info().vocabulary));
    else if (!f.roles.empty() && f.roles[0]->name != "uniform")
      text.push_back(pattern_only_line(f, m.uniform, s.info().vocabulary));
    else {
      others.push_back(f.head->report);
      others_change =
          std::max({others_change, std::abs(f.head->needed.mean), std::abs(f.head->suffices.mean)});
    }
  }
  if (!summary.heads_change_L)
    text.push_back(fmt::format(
        "No head counts: the heads of this model do not change L. Without all of them L changes by "
        "{:+.2g} {}.",
        m.no_heads.mean, unit));
  else if (summary.named.empty())
    text.push_back(fmt::format(
        "No head changes L by more than {:.2g}, but without all of them L changes by {:+.3g}.",
        others_change, m.no_heads.mean));
  else if (!others.empty())
    text.push_back(fmt::format(
        "{} {} not change L by more than {:.2g}.",
        others.size() > 8 ? fmt::format("The other {} heads", others.size()) : list_text(others),
        others.size() == 1 ? "does" : "do", others_change));
  for (const nn::RoleEffect& r : summary.by_role)
    if (r.heads.size() > 1)
      text.push_back(fmt::format("Without all {} heads ({}) L {} by {:.3g}.", r.role->name,
                                 list_text(r.heads), falls(r.needed.mean),
                                 std::abs(r.needed.mean)));
  if (std::isnan(summary.left_alone)) {
    if (!summary.named.empty())
      text.push_back(
          fmt::format("All heads together change L by only {}, so their shares are not stated.",
                      change_text(-m.no_heads.mean)));
    return text;
  }
  text.push_back(fmt::format(
      "Without {}{}, {:.0f} % of the difference that heads make to L is left; with {} alone, "
      "{:.0f} %.{}",
      list_text(summary.named),
      summary.named.size() == m.heads.size() ? ", which are all heads" : "",
      std::abs(100 * summary.left_without) < 0.5 ? 0 : 100 * summary.left_without,
      summary.named.size() == 1 ? "this head" : "these heads", 100 * summary.left_alone,
      summary.left_alone < 0.7 ? " These heads do not explain the result." : ""));
  if (study.untrained)
    text.push_back(fmt::format(
        "All heads together change L by {:+.3g} {}; those of the untrained model (step 0) by "
        "{:+.2g}.",
        -m.no_heads.mean, unit, *study.untrained));
  return text;
}

std::vector<Table> effect_tables(const HeadStudy& study, const HeadArguments& a, const Command& c,
                                 const Subject& s) {
  std::vector<Table> tables;
  if (study.measured) tables.push_back(all_effects(study));
  if (a.ablate == "all" && study.measured && study.measured->heads.size() <= 8)
    tables.push_back(pairs(study, s));
  if (c.given("keep") || (c.given("ablate") && a.ablate != "all"))
    tables.push_back(sets(study, a, c, s));
  return tables;
}

}  // namespace heed
