// L without a set of heads and MLPs (--ablate), or with it alone (--keep).
#include <fmt/format.h>

#include <algorithm>

#include "autograd/base/text.h"
#include "tools/heed/study/analysis.h"

namespace heed {
namespace {

bool has_ablated_set(const StudyContext& c) {
  return c.given("ablate") && c.arguments.ablate != "all";
}

Section measured_sets(StudyContext& c) {
  const HeadSample& e = c.sample();
  Section s{.key = "sets",
            .title = fmt::format("Sets of heads and MLPs, on {}", e.sequences),
            .sentences = {fmt::format(
                "effect: L with the outputs of the set replaced by {}, minus L. left: the share "
                "that is left of the difference that all heads (and all MLPs, if the set names "
                "one) make to L. L is {}.",
                e.replacement, e.objective_text)}};
  Table t{.columns = {{"set"},
                      {"effect", effect_unit(e.run.objective), "{:+.4g}"},
                      {"error", "", "{:.2g}"},
                      {"left", "", "{:.2f} %"},
                      {"accuracy", "", "{:.2f} %"}}};
  const auto add = [&](const std::string& option, const std::string& text, const char* how) {
    const auto named = c.subject.components(option, text);
    const bool with_mlps = std::ranges::count(named, nn::Component::kMlp, &nn::Component::kind) > 0;
    const nn::KeptShare k =
        nn::kept_share(e.run, option == "--keep" ? nn::other_components(c.model(), named) : named,
                       e.replaced, with_mlps);
    const std::string name = how + heed::join(component_names(named));
    t.rows.push_back({name, k.effect.mean, k.effect.standard_error, k.left, k.effect.accuracy});
    s.answers.push_back(fmt::format(
        "{}, L changes by {}, on {}{}.", name, effect_text(k.effect), e.sequences,
        std::isnan(k.left) ? ""
                           : fmt::format("; {:.0f} % of the difference that {} make to L "
                                         "is left",
                                         std::abs(100 * k.left) < 0.5 ? 0 : 100 * k.left,
                                         with_mlps ? "heads and MLPs" : "heads")));
    s.answers.back()[0] = 'W';
  };
  if (has_ablated_set(c)) add("--ablate", c.arguments.ablate, "without ");
  if (c.given("keep")) add("--keep", c.arguments.keep, "with only ");
  s.tables = {std::move(t)};
  s.finding = counted(std::ssize(s.tables[0].rows), "set");
  return s;
}

const Analysis kSets{
    .key = "sets",
    .order = 20,
    .by_shared = [](const StudyContext& c) { return c.given("keep") || has_ablated_set(c); },
    .shared = "--ablate or --keep",
    .check =
        [](const StudyContext& c) {
          if (c.given("keep")) c.subject.components("--keep", c.arguments.keep);
          if (has_ablated_set(c)) c.subject.components("--ablate", c.arguments.ablate);
        },
    .run = measured_sets};

}  // namespace
}  // namespace heed
