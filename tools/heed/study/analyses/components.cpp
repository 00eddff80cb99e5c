// Effects of heads and MLPs, roles of heads, and interactions of pairs of heads.
#include <fmt/format.h>

#include "autograd/base/text.h"
#include "tools/heed/study/analysis.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

// Returns effects.png: for each component, the effect against the path gradient and against the
// gradient at the model.
Picture effects_picture(const lab::ComponentStudy& s, const StudySample& sample) {
  plot::LineChart chart{
      .title = "heads and MLPs on " + sample.sequences,
      .x_name = "predicted effect",
      .y_name = "measured effect",
      .series = {{.name = "gradient at the model", .points = true, .hollow = true},
                 {.name = "path gradient", .points = true}},
      .equal = true,
      .height = 560};
  for (std::size_t i = 0; i < s.rows.size(); ++i)
    for (const bool on_path : {false, true}) {
      plot::Series& points = chart.series[on_path];
      points.x.push_back(on_path ? s.rows[i].path : s.rows[i].gradient);
      points.y.push_back(s.rows[i].effect.mean);
      points.labels.push_back(s.judgement.counts[i] && on_path ? s.rows[i].place : "");
    }
  return {
      "effects",
      plot::ChartStack{.title = "Predicted and measured effects",
                       .caption = "Dashed: the prediction equals the measurement.",
                       .panels = {std::move(chart)}},
      "Each component has a dot for its path gradient and a ring for its gradient at the model."};
}

Table pairs_table(const lab::ComponentStudy& s) {
  Table t{.columns = {{"heads"}, {"interaction", "", "{:+.3g}"}, {"error", "", "{:.2g}"}},
          .title = "Pairs of heads",
          .note =
              "interaction: effect of both minus the effects of each. A head is redundant if its "
              "effect does not count and an interaction does.",
          .shown = 12};
  for (const lab::Interaction& pair : s.pairs)
    t.rows.push_back({s.rows[pair.a].place + ", " + s.rows[pair.b].place, pair.effect.mean,
                      pair.effect.standard_error});
  std::ranges::stable_sort(t.rows, std::greater<>(), [](const std::vector<Value>& row) {
    return std::abs(*row[1].as<double>());
  });
  return t;
}

Table roles_table(StudyContext& c) {
  Table t{.columns = {{"head"},
                      {"role"},
                      {"score", "", "{:.2f}"},
                      {"imposed", "", "{:+.2g}"},
                      {"by position", "", "", false},
                      {"by token", "", "", false}},
          .title = "What the heads that count attend to, where they matter",
          .note = "imposed: change of L with the exact pattern of the role instead of the head's."};
  const lab::Vocabulary& vocabulary = c.subject.info().vocabulary;
  for (const lab::HeadRole& r : c.roles()) {
    std::vector<std::string> tokens;
    for (const auto& [id, mean] : r.by_token)
      tokens.push_back(fmt::format("{} {:.2f}", plot::token_text(vocabulary.label(id)), mean));
    t.rows.push_back({c.components()->rows[r.row].place, r.role ? r.role->name() : "-",
                      r.role ? r.score : r.scores[0].second,
                      r.role ? Value(r.imposed.mean) : Value(), distances_text(r),
                      heed::join(tokens, ", ")});
  }
  return t;
}

Section components_section(StudyContext& c) {
  const lab::ComponentStudy& s = *c.components();
  const StudySample& sample = *c.task_sample();
  Section section{
      .key = "components",
      .title = fmt::format("Effects of heads and MLPs on L in {}, on {}",
                           effect_unit(sample.run.objective), sample.sequences),
      .sentences = {fmt::format(
          "L is {}. effect: L with the output replaced by that on another sequence at the same "
          "position, minus L; mean over {} donors of each sequence. donors: standard deviation "
          "over donors. accuracy: with the replacement. zero, mean: effects by zeros, and by the "
          "mean at the position. path, gradient: predictions of the effect (section gradient).",
          sample.objective, sample.donors.rows.size())}};
  if (const std::string text = agreement_text(s.judgement); !text.empty())
    section.sentences.push_back(text);
  Table t = evidence_table("component", s.rows, s.judgement);
  t.shown = SIZE_MAX;
  t.columns[6].in_text = false;  // the section gradient has it
  t.columns.insert(t.columns.end(), {{"zero", "", "{:+.2g}"}, {"mean", "", "{:+.2g}"}});
  for (std::size_t n = 0; n < t.rows.size(); ++n) {
    const std::size_t i = s.judgement.order[n];
    if (s.depends(i)) t.rows[n].back() = "depends";
    t.rows[n].insert(t.rows[n].end(), {s.zero[i].mean, s.mean[i].mean});
  }
  section.tables.push_back(std::move(t));
  if (!c.roles().empty()) section.tables.push_back(roles_table(c));
  if (!s.pairs.empty()) section.tables.push_back(pairs_table(s));
  section.pictures = {effects_picture(s, sample)};
  return section;
}

}  // namespace

const Analysis kComponents{
    .key = "components",
    .asked = [](const StudyOptions& o) { return o.ablate == "all"; },
    .by_default = [](StudyContext& c) { return c.components() != nullptr; },
    .check =
        [](StudyContext& c) {
          if (c.options.ablate == "all" && !c.subject.has_sequences)
            usage_error(
                "--ablate all needs the sequences of the run, which are not available; leave out "
                "--ablate all");
        },
    .run = components_section};

}  // namespace heed
