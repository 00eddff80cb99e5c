#include "tools/heed/study/effect_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/base/text.h"

namespace heed {
namespace {

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

Table all_effects(const HeadStudy& study, bool all_asked, const Subject& s) {
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
  columns.push_back({"", "accuracy", "", "percent", 2});
  columns.push_back({"", "mark"});
  Table t(columns);
  t.title = fmt::format(
      "Effects of heads and MLPs on L in {}, means over {}; each is cut by replacing its output "
      "with "
      "{}",
      effect_unit(sample.run.objective), sample.sequences, sample.replacement);
  const double smallest = s.smallest_effect(sample.run.objective);
  const double largest = nn::largest_effect(m.rows());
  for (std::size_t i = 0; i < m.heads.size(); ++i) {
    const nn::MeasuredHead& h = m.heads[i];
    std::vector<Value> row{nn::head_name(h.report), h.needed.mean, h.needed.standard_error,
                           h.suffices.mean};
    for (const nn::EffectEstimate& e : estimates) row.push_back(e.value(h)->mean);
    row.push_back(h.needed.accuracy);
    row.push_back(study.mark(i));
    t.add(std::move(row));
  }
  for (const nn::MeasuredMlp& x : m.mlps) {
    const double floor = nn::floor_of(x.row(), largest, smallest);
    std::vector<Value> row{
        nn::component_name(x.mlp), x.needed.mean, x.needed.standard_error, {}, x.gradient.mean};
    row.resize(columns.size() - 2);
    row.push_back(x.needed.accuracy);
    row.push_back(mark_value(x.row(), floor));
    t.add(std::move(row));
  }
  t.note =
      "needed: L without the head or MLP, minus L. suffices: L without all heads of the layer, "
      "minus L without all of them but this one. A negative number means that the head raises L. "
      "The columns between suffices and accuracy predict needed. accuracy: with the cut, the share "
      "of the counted positions at which the right token has the largest logit.";
  if (s.predicts)
    t.note += fmt::format(
        " No mark: the gradient is right within a factor of 3. redundant: needed is small, "
        "suffices is not. missed: the gradient does not show the effect. phantom: it shows an "
        "effect that does not exist. reversed: it has the other sign. x0.3: the gradient is 0.3 "
        "times the effect. -: gradient and effect do not count. A number counts from two standard "
        "errors on, and from {:.2g} on: 5 % of the largest number of a head, at least {:.2g}.{}",
        std::max(smallest, 0.05 * largest), smallest, agreement_text(m, estimates, smallest));
  if (m.value.sequences == 1) t.note += " One sequence gives no standard error and no marks.";
  if (!study.not_measured.empty()) t.note += " " + study.not_measured;
  if (all_asked && m.heads.size() > 8) t.note += " Pairs are measured for at most 8 heads.";
  return t;
}

Table pairs(const HeadStudy& study) {
  const HeadSample& sample = *study.sample;
  Table t({{"", "heads"},
           {"", "effect", "", "{:+.3g}"},
           {"", "error", "", "{:.2g}"},
           {"", "more than the sum", "", "{:+.3g}"}});
  t.title = "Effects of pairs of heads";
  t.note =
      "effect: L without both heads, minus L. more than the sum: the effect minus needed of both; "
      "it is large if the heads stand in for each other";
  for (const nn::PairEffect& p :
       nn::pair_effects(sample.run, sample.replaced, study.measured->heads))
    t.add({components_text({p.a, p.b}), p.both.mean, p.both.standard_error, p.excess});
  return t;
}

// Returns the table of the sets of --ablate and --keep. They are measured on the sequence that
// --prompt or --sample selects, and otherwise on the sample.
Table sets(const HeadStudy& study, const HeadArguments& a, const Command& c, const Subject& s) {
  const HeadSample e = effect_sample(study, a, c, s);
  Table t({{"", "set"},
           {"", "effect", effect_unit(e.run.objective), "{:+.4g}"},
           {"", "error", "", "{:.2g}"},
           {"", "left", "", "percent"},
           {"", "accuracy", "", "percent"}});
  t.title = "Sets of heads and MLPs";
  t.note = fmt::format(
      "effect: L with the outputs of the set replaced by {}, minus L. left: the share that is left "
      "of the difference that all heads (and all MLPs, if the set names one) make to L. L here is "
      "{}, on {}",
      e.replacement, e.objective_text, e.sequences);
  const auto add = [&](const std::string& option, const std::string& text, const char* how) {
    const auto named = s.components(option, text);
    const nn::KeptShare k = nn::kept_share(
        e.run, option == "--keep" ? nn::other_components(s.model(), named) : named, e.replaced,
        std::ranges::count(named, nn::Component::kMlp, &nn::Component::kind) > 0);
    t.add({how + components_text(named), k.effect.mean, k.effect.standard_error, k.left,
           k.effect.accuracy});
  };
  if (c.given("ablate") && a.ablate != "all") add("--ablate", a.ablate, "without ");
  if (c.given("keep")) add("--keep", a.keep, "only ");
  return t;
}

}  // namespace

std::vector<Table> effect_tables(const HeadStudy& study, const HeadArguments& a, const Command& c,
                                 const Subject& s) {
  std::vector<Table> tables;
  if (study.measured) tables.push_back(all_effects(study, a.ablate == "all", s));
  if (a.ablate == "all" && study.measured && study.measured->heads.size() <= 8)
    tables.push_back(pairs(study));
  if (c.given("keep") || (c.given("ablate") && a.ablate != "all"))
    tables.push_back(sets(study, a, c, s));
  return tables;
}

}  // namespace heed
