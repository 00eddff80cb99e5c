// Effects of heads and MLPs on L, measured by cutting them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/base/text.h"
#include "tools/heed/study/analysis.h"
#include "tools/heed/study/head_table.h"
#include "tools/heed/study/study_pictures.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

std::string marks_legend(const nn::Judgement& j) {
  return fmt::format(
      "No mark: the gradient is right within a factor of 3. redundant: needed is small, suffices "
      "is "
      "not. missed: the gradient does not show the effect. phantom: it shows an effect that does "
      "not exist. reversed: it has the other sign. x0.3: it is 0.3 times the effect. -: neither "
      "counts. A number counts from two standard errors on, and from {:.2g} on: 5 % of the largest "
      "number, at least {:.2g}.",
      std::max(j.smallest, 0.05 * j.largest), j.smallest);
}

// Returns a panel of effects.png: a dot for each row and, from row `squares` on, a square. Those
// whose prediction errs most are labeled with their marks.
plot::LineChart points_of(const std::vector<nn::Evidence>& rows, const nn::Judgement& j,
                          const std::string& what, bool marks, std::vector<plot::Series> series,
                          std::size_t squares = SIZE_MAX) {
  constexpr std::size_t kLabeled = 8;
  const auto error_of = [&](std::size_t i) {
    return std::abs(rows[i].predicted() - rows[i].effect.mean);
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string mark = marks ? nn::mark_text(j.rows[i]) : "";
    const bool is_labeled = std::ranges::count_if(j.order, [&](std::size_t k) {
                              return error_of(k) > error_of(i);
                            }) < std::ptrdiff_t(kLabeled);
    plot::Series& points = series[i >= squares];
    points.x.push_back(rows[i].predicted()), points.y.push_back(rows[i].effect.mean);
    points.labels.push_back(is_labeled && !mark.empty() && mark != "-" ? rows[i].place + " " + mark
                                                                       : "");
  }
  std::erase_if(series, [](const plot::Series& s) { return s.x.empty(); });
  return {.title = what,
          .x_name = "change of L predicted by the gradient",
          .y_name = "measured change of L",
          .series = std::move(series),
          .equal = true,
          .height = 560};
}

Picture effects_picture(StudyContext& c) {
  plot::ChartStack stack{.title = "Predicted and measured effects",
                         .caption = "Dashed: the prediction equals the measurement."};
  if (!c.subject.predicts)
    stack.caption += " This model predicts no better than token frequencies: nothing follows.";
  if (c.heads.measured)
    stack.panels.push_back(points_of(
        c.heads.measured->effects, c.heads.summary.judgement,
        (c.model().options.mlp ? "heads (dots) and MLPs (squares) on " : "heads on ") +
            c.heads.sample->sequences + ": " + short_objective(c.heads.sample->objective_text),
        c.has_marks(*c.heads.sample),
        {{.name = "heads", .points = true}, {.name = "MLPs", .points = true, .square = true}},
        c.heads.measured->reports.size()));
  const NotableCells& cells = c.cells();
  stack.panels.push_back(
      points_of(cells.evidence, cells.judgement,
                "cells of the sequence shown: " + short_objective(c.subject.texts.objective),
                c.subject.predicts, {{.points = true}}));
  return {"effects", std::move(stack),
          "Each point is one cut: the change of L that the gradient predicts, and the change that "
          "was measured."};
}

// Returns the largest weights as text: "1 back (0.76), itself (0.1)".
template <class Name>
std::string largest_text(const std::vector<double>& weights, const Name& name) {
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return weights[i]; });
  order.resize(std::min<std::size_t>(order.size(), 3));
  std::vector<std::string> parts;
  for (const std::size_t i : order)
    parts.push_back(fmt::format("{} ({:.2f})", name(i), weights[i]));
  return heed::join(parts, ", ");
}

// Returns what a head that counts reads: its roles, or its largest mean weights.
std::string reads_text(const nn::Finding& f, const StudyContext& c) {
  const nn::MeasuredHeads& m = *c.heads.measured;
  std::vector<std::string> parts;
  for (const nn::Role* role : f.roles)
    parts.push_back(fmt::format("{} ({:.2f}; equal weights: {:.2f})", role->reads,
                                m.reports[f.row][role->score], m.uniform[role->score]));
  const std::string place = " " + m.effects[f.row].place + ": ";
  if (!parts.empty()) return place + heed::join(parts) + ".";
  const nn::Vocabulary& vocabulary = c.subject.info().vocabulary;
  const auto distance = [](std::size_t d) {
    return d == 0 ? std::string("itself") : fmt::format("{} back", d);
  };
  const auto token = [&](std::size_t id) {
    return plot::token_text(vocabulary.label(std::int64_t(id)));
  };
  return place + "mostly " + largest_text(m.by_distance[f.row], distance) + "; by token mostly " +
         largest_text(m.by_token[f.row], token) + ".";
}

Section effects_of_heads(StudyContext& c) {
  Section s{.key = "heads", .title = "Effects of heads and MLPs"};
  s.pictures.push_back(effects_picture(c));
  if (!c.heads.measured) return s;
  const nn::MeasuredHeads& m = *c.heads.measured;
  const HeadSample& sample = *c.heads.sample;
  const nn::Judgement& j = c.heads.summary.judgement;
  s.title = fmt::format("Effects of heads and MLPs on L in {}, means over {}",
                        effect_unit(sample.run.objective), sample.sequences);
  s.sentences = {
      fmt::format("Each is cut by replacing its output with {}. L is {}. needed: L without the "
                  "head or MLP, minus L. suffices: L with this head alone in its layer, minus L "
                  "without the heads of the layer. The columns after suffices predict needed. "
                  "accuracy: with the cut, the share of the counted positions at which the right "
                  "token has the largest logit.",
                  sample.replacement, sample.objective_text)};
  if (c.has_marks(sample)) s.sentences.push_back(marks_legend(j) + " " + agreement_text(j));
  if (sample.run.values.size() == 1)
    s.sentences.emplace_back("One sequence gives no standard error and no marks.");
  std::string reads;
  for (const nn::Finding& f : c.heads.summary.findings)
    if (f.head && f.matters()) reads += reads_text(f, c);
  if (!reads.empty()) s.sentences.push_back("What the heads that count read:" + reads);
  if (!c.heads.not_measured.empty()) s.sentences.push_back(c.heads.not_measured);
  s.tables.push_back(evidence_table("component", m.effects, j, c.has_marks(sample), false));
  s.tables.back().shown = SIZE_MAX;
  if (!c.given("samples")) return s;
  Table means{.columns = head_columns(), .title = "Heads, means over " + sample.sequences};
  means.columns.insert(means.columns.begin(), {{"layer", "", "", false}, {"head", "", "", false}});
  for (const nn::HeadReport& h : m.reports) {
    auto& row = means.rows.emplace_back(head_row(h, nn::head_name(h), Value()));
    row.insert(row.begin(), {h.layer, h.head});
  }
  s.tables.push_back(std::move(means));
  return s;
}

const Analysis kHeads{.key = "heads",
                      .order = 10,
                      .repeats = false,  // --over-time already reports these numbers
                      .run = effects_of_heads};

}  // namespace
}  // namespace heed
