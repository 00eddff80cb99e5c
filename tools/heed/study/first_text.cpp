#include "tools/heed/study/first_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/base/text.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

// Returns a change as "+0.03"; "0" if nothing changes.
std::string change_text(double change) {
  return change == 0 ? "0" : fmt::format("{:+.2g}", change);
}

std::string falls(double change) { return change < 0 ? "falls" : "rises"; }

// Returns the accuracy with an intervention as " (accuracy 28.3 %)"; "" if no position counts.
std::string accuracy_text(const nn::Effect& e) {
  return std::isnan(e.accuracy) ? "" : fmt::format(" (accuracy {:.3g} %)", 100 * e.accuracy);
}

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
  effect += accuracy_text(f.head->needed);
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

}  // namespace

Table claims(const HeadStudy& study) {
  Table table(kClaim);
  if (!study.measured) return table;
  const auto add = [&](const std::vector<nn::HeadIndex>& heads, std::string_view role,
                       std::string_view quantity, double value) {
    table.add({Value(head_names(heads)), role, quantity, value});
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
  const std::string unit = effect_unit(study.sample->run.objective);
  std::vector<std::string> text{fmt::format(
      "What the heads do, on {}. A head is cut by replacing its output with {}. L is {}; it is "
      "{:.4g} {} with all heads{}, and {:.4g} without any{}.",
      study.sample->sequences, study.sample->replacement, study.sample->objective_text,
      m.value.mean, unit, accuracy_text(m.value), m.value.mean + m.no_heads.mean,
      accuracy_text(m.no_heads))};
  if (!s.predicts) return {text[0], study.not_measured};
  if (!study.score_sequences.empty())
    text[0] += fmt::format(
        " The scores of previous-token, duplicate-token and induction heads are those on {}.",
        study.score_sequences);
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
        "The heads of this model do not change L: each changes it by less than {:.2g}, and all "
        "together by {:+.2g} {}.",
        summary.findings[0].floor, -m.no_heads.mean, unit));
  else if (summary.named.empty())
    text.push_back(fmt::format(
        "No head changes L by more than {:.2g}, but without all of them L changes by {:+.3g}.",
        others_change, m.no_heads.mean));
  else if (!others.empty())
    text.push_back(fmt::format("{} {} not change L by more than {:.2g}.",
                               others.size() > 8 ? fmt::format("The other {} heads", others.size())
                                                 : components_text(nn::components(others)),
                               others.size() == 1 ? "does" : "do", others_change));
  for (const nn::RoleEffect& r : summary.by_role)
    if (r.heads.size() > 1)
      text.push_back(fmt::format("Without all {} heads ({}) L {} by {:.3g}{}.", r.role->name,
                                 components_text(nn::components(r.heads)), falls(r.needed.mean),
                                 std::abs(r.needed.mean), accuracy_text(r.needed)));
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
      components_text(nn::components(summary.named)),
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

}  // namespace heed
