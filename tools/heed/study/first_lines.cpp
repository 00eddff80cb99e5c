#include "tools/heed/study/first_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/base/text.h"

namespace heed {
namespace {

constexpr std::size_t kMostComponents = 6;

// Returns an accuracy as ", accuracy 28.3 %"; "" if no position counts.
std::string accuracy_text(const nn::Effect& e) {
  return std::isnan(e.accuracy) ? "" : fmt::format(", accuracy {:.3g} %", 100 * e.accuracy);
}

// Returns whether the effect should be the same on other sequences, up to a factor of 2.
bool is_certain(const nn::Effect& e) { return std::abs(e.mean) >= 4 * e.standard_error; }

std::string role_text(const nn::Role& role, const nn::HeadReport& head,
                      const nn::HeadReport& uniform) {
  return fmt::format("{} {} head ({:.2f}; equal weights: {:.2f})",
                     role.name == "induction" ? "an" : "a", role.name, head[role.score],
                     uniform[role.score]);
}

class Lines {
 public:
  explicit Lines(const HeadStudy& study)
      : study_(study), m_(*study.measured), summary_(study.summary) {}

  Claim introduction() const {
    const HeadSample& sample = *study_.sample;
    const std::string unit = effect_unit(sample.run.objective);
    // A larger value is better for all L except a loss.
    const bool is_loss = sample.run.objective.kind == nn::Objective::kLoss;
    Claim c{fmt::format(
        "L is {}. On {} it is {:.4g} {}{}; without heads {:.4g}{}. A component is cut by replacing "
        "its output with {}. needed: the change of L by the cut. suffices: the change of L if this "
        "head is put back into its layer after all heads of the layer were cut. A head that helps "
        "has needed {} 0 and suffices {} 0. +-: standard error.",
        sample.objective_text, sample.sequences, m_.value.mean, unit, accuracy_text(m_.value),
        m_.value.mean + m_.no_heads.mean, accuracy_text(m_.no_heads), sample.replacement,
        is_loss ? ">" : "<", is_loss ? "<" : ">")};
    if (!study_.score_sequences.empty())
      c.text += fmt::format(" Scores of roles are those on {}.", study_.score_sequences);
    return c;
  }

  // Adds the components that count, the largest first, and heads with a pattern but no effect.
  void add_components(std::vector<Claim>& lines) const {
    constexpr std::size_t kMostPatterns = 2;
    std::size_t more = 0, others = 0, shown = 0, patterns = 0;
    const nn::Finding* last = nullptr;
    for (const std::size_t i : summary_.judgement.order) {
      const nn::Finding& f = summary_.findings[i];
      const bool is_pattern = !f.roles.empty() && f.roles[0]->name != "uniform";
      if (f.matters() && shown++ < kMostComponents)
        lines.push_back(component(f, last)), last = &f;
      else if (f.matters())
        ++more;
      else if (is_pattern && patterns++ < kMostPatterns)
        lines.push_back(pattern_only(f));
      else
        ++others;
    }
    if (more > 0)
      lines.push_back(
          {fmt::format("And {} more that count, {} that do not; --show heads.", more, others)});
    else if (others > 0 && summary_.heads_change_L)
      lines.push_back({fmt::format("{} more {} not count; --show heads.", others,
                                   others == 1 ? "does" : "do")});
  }

  // Adds the effects of sets of heads.
  void add_sets(std::vector<Claim>& lines) const {
    if (!summary_.heads_change_L)
      lines.push_back(
          {fmt::format("The heads change L little: each by less than {:.2g}, and all together "
                       "by {}.",
                       summary_.judgement.rows[0].floor, effect_text(m_.no_heads))});
    else if (summary_.named.empty())
      lines.push_back(
          {fmt::format("No head alone changes L, but without all of them it changes by "
                       "{}.",
                       effect_text(m_.no_heads))});
    for (const nn::RoleEffect& r : summary_.by_role)
      if (r.heads.size() > 1) {
        const auto names = component_names(nn::components(r.heads));
        Claim c{fmt::format("All {} heads ({}) together: needed {}.", r.role->name,
                            heed::join(names), effect_text(r.needed)),
                names, std::string(r.role->name)};
        if (is_certain(r.needed)) c.numbers = {{"needed", r.needed.mean}};
        lines.push_back(std::move(c));
      }
    const std::string at_start =
        study_.untrained ? fmt::format(" (at step 0: {:+.2g})", *study_.untrained) : "";
    const std::string together =
        fmt::format("Without any head L changes by {}{}.", effect_text(m_.no_heads), at_start);
    if (!std::isnan(summary_.left_alone) && summary_.named.size() < m_.reports.size()) {
      const double left = summary_.left_without, alone = summary_.left_alone;
      const auto names = component_names(nn::components(summary_.named));
      lines.push_back(
          {fmt::format("{} Without {}, {:.0f} % of what heads do is left; with {} alone, "
                       "{:.0f} %.{}",
                       together, heed::join(names), std::abs(100 * left) < 0.5 ? 0 : 100 * left,
                       summary_.named.size() == 1 ? "it" : "these", 100 * alone,
                       alone < 0.7 ? " These heads do not explain the result." : ""),
           names,
           "all that matter",
           {{"lost_without", 1 - left}, {"left_alone", alone}}});
    } else if (summary_.heads_change_L) {
      lines.push_back({together});
    }
  }

 private:
  const nn::Evidence& row(const nn::Finding& f) const { return m_.effects[f.row]; }

  // Returns a text such as "needed -5.31 +- 0.03 (then accuracy 99.9 %), suffices +5.19".
  std::string effects(const nn::Finding& f) const {
    std::string text = "needed " + effect_text(row(f).effect);
    if (!std::isnan(row(f).effect.accuracy))
      text += fmt::format(" (then accuracy {:.3g} %)", 100 * row(f).effect.accuracy);
    if (row(f).suffices) text += ", suffices " + effect_text(*row(f).suffices);
    return text;
  }

  void add_scores(Claim& claim, const nn::Finding& f) const {
    for (const nn::Role* role : f.roles)
      if (f.matters() || role->name != "uniform")
        claim.numbers.emplace_back(nn::head_quantities()[role->score].name,
                                   m_.reports[f.row][role->score]);
  }

  Claim component(const nn::Finding& f, const nn::Finding* before) const {
    Claim c{row(f).place, {row(f).place}, std::string(f.role())};
    const std::string rank = before && nn::about_equal(row(*before), row(f))
                                 ? " (about equal to " + row(*before).place + ")"
                                 : "";
    c.text += f.roles.empty()
                  ? rank + ": "
                  : " is " + role_text(*f.roles[0], m_.reports[f.row], m_.uniform) + rank + ".\n  ";
    c.text += effects(f);
    add_scores(c, f);
    if (f.is_needed && is_certain(row(f).effect))
      c.numbers.emplace_back("needed", row(f).effect.mean);
    if (f.is_sufficient && is_certain(*row(f).suffices))
      c.numbers.emplace_back("suffices", row(f).suffices->mean);
    return c;
  }

  // Returns the claim about a head that has a known pattern, but does not change L.
  Claim pattern_only(const nn::Finding& f) const {
    const double most = std::max(std::abs(row(f).effect.mean), std::abs(row(f).suffices->mean));
    Claim c{fmt::format("{} attends like {}, but {}:\n  {}", row(f).place,
                        role_text(*f.roles[0], m_.reports[f.row], m_.uniform),
                        most < 1e-6 ? "writes nothing that changes L" : "its effects do not count",
                        effects(f)),
            {row(f).place},
            "no effect"};
    add_scores(c, f);
    return c;
  }

  const HeadStudy& study_;
  const nn::MeasuredHeads& m_;
  const nn::HeadSummary& summary_;
};

}  // namespace

std::vector<Claim> first_lines(const HeadStudy& study, bool predicts,
                               const std::vector<std::string>& answers) {
  std::vector<Claim> lines;
  if (study.measured) lines.push_back(Lines(study).introduction());
  for (const std::string& text : answers) lines.push_back({text});
  if (study.measured && predicts) {
    Lines(study).add_components(lines);
    Lines(study).add_sets(lines);
    lines.push_back(
        {"Next: --ablation (another replacement), --show edges (which component reads "
         "which), --keep A,B (L with these heads alone)."});
  } else if (!study.not_measured.empty()) {
    lines.insert(study.measured ? lines.end() : lines.begin(), {study.not_measured});
  }
  return lines;
}

}  // namespace heed
