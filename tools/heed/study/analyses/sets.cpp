// L without a set of heads and MLPs (--ablate), or with it alone (--keep).
#include <fmt/format.h>

#include "autograd/base/text.h"
#include "tools/heed/study/analysis.h"

namespace heed {
namespace {

// Returns what replaces the output of a component.
std::string replacement_text(lab::Ablation how) {
  if (how == lab::Ablation::kZero) return "zeros";
  return how == lab::Ablation::kMean ? "its mean at the position"
                                     : "its output on another sequence at the same position";
}

Section sets_section(StudyContext& c) {
  const StudySample& e = c.sample();
  const auto replaced = lab::replacements(c.model(), e.donors, c.options.ablation);
  Section s{.key = "sets",
            .title = fmt::format("Sets of heads and MLPs, on {}", e.sequences),
            .sentences = {fmt::format(
                "effect: L with the outputs of the set (with only: of all others) replaced "
                "by {}, minus L. "
                "L is {}. It is {:.4g}.",
                replacement_text(c.options.ablation), e.objective,
                lab::effect_of(e.run.values, e.run.counts).mean)}};
  Table t{.columns = {{"set"},
                      {"effect", effect_unit(e.run.objective), "{:+.4g}"},
                      {"error", "", "{:.2g}"},
                      {"donors", "", "{:.2g}"},
                      {"accuracy", "", "{:.2f} %"}}};
  const auto add = [&](const std::string& option, const std::string& text) {
    const auto named = c.subject.components(option, text);
    const bool keeps = option == "--keep";
    const lab::Effect effect =
        lab::ablate(e.run, keeps ? lab::other_components(c.model(), named) : named, replaced);
    std::vector<std::string> list;
    for (const nn::Component& component : named) list.push_back(nn::component_name(component));
    const std::string names = heed::join(list);
    t.rows.push_back({(keeps ? "with only " : "without ") + names, effect.mean,
                      effect.standard_error, effect.donor_deviation, effect.accuracy});
    s.answers.push_back(fmt::format("{} {}, L changes by {}{}, on {}.",
                                    keeps ? "With only" : "Without", names, effect_text(effect),
                                    accuracy_text(effect), e.sequences));
  };
  if (c.options.has_ablated_set()) add("--ablate", c.options.ablate);
  if (!c.options.keep.empty()) add("--keep", c.options.keep);
  s.tables = {std::move(t)};
  return s;
}

}  // namespace

const Analysis kSets{
    .key = "sets",
    .advice = "add --ablate or --keep",
    .asked = [](const StudyOptions& o) { return !o.keep.empty() || o.has_ablated_set(); },
    .check =
        [](StudyContext& c) {
          if (!c.options.keep.empty()) c.subject.components("--keep", c.options.keep);
          if (c.options.has_ablated_set()) c.subject.components("--ablate", c.options.ablate);
          if (kSets.is_asked(c.options)) c.sample();
        },
    .run = sets_section};

}  // namespace heed
