#include "tools/heed/study/cause_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/plot/plot.h"

namespace heed {
namespace {

std::vector<StudyTable::Column> effect_columns() {
  return {{"effect", "L"}, {"standard error", "L"}, {"mean |effect|", "L"}, {"sequences"}};
}

void add_effect(std::vector<StudyTable::Cell>& row, const nn::Effect& e) {
  row.insert(row.end(), {e.mean, e.standard_error, e.mean_absolute, double(e.sequences)});
}

std::string sequences_text(std::int64_t count) {
  return count == 1 ? "one sequence" : fmt::format("{} sequences", count);
}

// "L1 resid_pre at 3 (c)", "L1H0".
std::string place_name(const nn::PatchMap& map, std::int64_t layer, std::int64_t column,
                       const std::vector<std::string>& tokens) {
  if (map.by_head) return nn::head_name({layer, column});
  return fmt::format("L{} {} at {} ({})", layer, map.site.substr(5), column,
                     tokens[std::size_t(column)]);
}

const nn::PatchMap& map_of(const nn::Patching& p, const std::string& site) {
  return *std::find_if(p.maps.begin(), p.maps.end(),
                       [&](const nn::PatchMap& m) { return m.site == site; });
}

}  // namespace

StudyTable ablation_table(const std::vector<std::string>& names,
                          const std::vector<nn::Effect>& effects, nn::Ablation how) {
  StudyTable t{"Ablation",
               fmt::format("L without the heads' output ({}) less L as it is", nn::enum_name(how)),
               {{"heads"}},
               {}};
  for (const StudyTable::Column& c : effect_columns()) t.columns.push_back(c);
  for (std::size_t i = 0; i < names.size(); ++i) {
    t.rows.push_back({names[i]});
    add_effect(t.rows.back(), effects[i]);
  }
  return t;
}

StudyTable head_importance_table(const std::vector<nn::HeadImportance>& heads) {
  StudyTable t{
      "Heads' importance",
      fmt::format(
          "a gate g on a head's output, 1 as it is, 0 cut. -dL/dg estimates what ablation by 0 "
          "does, I_h is the mean |dL/dg|; minus the integral from 0 to 1 is the ablation, up "
          "to its error. Saturated: the gradient has not the ablation's sign, so it is no "
          "importance. Means over {}",
          sequences_text(heads.front().ablation.sequences)),
      {{"head"},
       {"zero ablation", "L"},
       {"standard error", "L"},
       {"-dL/dg", "L"},
       {"I_h", "L"},
       {"integrated", "L"},
       {"worst error", "L"},
       {"saturated"}},
      {}};
  for (const nn::HeadImportance& h : heads)
    t.rows.push_back({nn::head_name(h.head), h.ablation.mean, h.ablation.standard_error,
                      -h.gradient.mean, h.gradient.mean_absolute, h.integrated,
                      h.completeness_error, std::string(h.saturated ? "saturated" : "")});
  return t;
}

StudyTable copying_table(const std::vector<nn::HeadIndex>& heads,
                         const std::vector<double>& scores) {
  StudyTable t{
      "Copying",
      "on random tokens that do not repeat: how much of what a head raises among them is the "
      "token it reads; -1 none of it, 1 half, 3 all",
      {{"head"}, {"copying score"}},
      {}};
  for (std::size_t i = 0; i < heads.size(); ++i)
    t.rows.push_back({nn::head_name(heads[i]), scores[i]});
  return t;
}

StudyTable patching_table(const nn::Patching& p, const std::vector<std::string>& tokens) {
  StudyTable t{
      "Activation patching",
      fmt::format("L is {:.4g} on the clean prompt, {:.4g} on the corrupt one; effect: the "
                  "share of that which the clean activation at one place brings back. Orders: "
                  "estimates by derivatives at the corrupt prompt",
                  p.clean, p.corrupt),
      {{"place"}, {"effect"}, {"first order"}, {"second order"}},
      {}};
  for (const nn::PatchMap& map : p.maps)
    for (std::size_t i = 0; i < map.effect.size(); ++i)
      t.rows.push_back(
          {place_name(map, std::int64_t(i) / map.columns, std::int64_t(i) % map.columns, tokens),
           map.effect[i], map.first_order[i], map.second_order[i]});
  std::stable_sort(t.rows.begin(), t.rows.end(), [](const auto& a, const auto& b) {
    return std::abs(std::get<double>(a[1])) > std::abs(std::get<double>(b[1]));
  });
  return t;
}

StudyTable estimates_table(const nn::Patching& p, const std::vector<std::string>& tokens) {
  StudyTable t{
      "Attribution patching",
      "estimates of the effects above against them, over all places: correlation, slope, and "
      "the place where they are farthest apart",
      {{"estimate"}, {"r"}, {"slope"}, {"worst place"}, {"its effect"}, {"its estimate"}},
      {}};
  for (const auto& [name, a] :
       {std::pair{"first order", &p.first_order}, std::pair{"second order", &p.second_order}})
    t.rows.push_back({std::string(name), a->r, a->slope,
                      place_name(map_of(p, a->worst.site), a->worst.layer, a->worst.column, tokens),
                      a->worst.effect, a->worst.estimate});
  return t;
}

void draw_patching(const std::filesystem::path& file, const nn::Patching& p,
                   const std::vector<std::string>& tokens, const PictureSource& source) {
  plot::HeatmapGrid grid;
  for (const nn::PatchMap& map : p.maps)
    if (!map.by_head)
      grid.panels.push_back(
          {map.site, int(map.layers), int(map.columns), {map.effect.begin(), map.effect.end()}});
  for (std::int64_t layer = 0; layer < p.maps.front().layers; ++layer)
    grid.row_labels.push_back(fmt::format("L{}", layer));
  grid.col_labels = tokens;
  grid.row_axis = "layer", grid.col_axis = "token, clean/corrupt";
  grid.title = fmt::format(
      "Activation patching: where the clean prompt's answer comes from; run {}", source.run_name());
  grid.caption = fmt::format(
      "L is {:.4g} on the clean prompt and {:.4g} on the corrupt one. Each cell: the corrupt "
      "prompt run with the clean activation at that place; 1 brings all of L back, 0 nothing.",
      p.clean, p.corrupt);
  grid.value_name = "share of L";
  grid.scale = plot::ColorScale::kDiverging;
  plot::write_png(file.string(), plot::draw_heatmap(grid), grid.title + ". " + grid.caption,
                  png_facts(source, grid));
}

StudyTable token_table(const nn::TokenAttribution& a, const nn::AttentionFlow& flow,
                       std::int64_t query, const std::vector<std::string>& tokens) {
  StudyTable t{
      "Tokens",
      fmt::format("gradient: (embedding less the vocabulary's mean) . dL/d(embedding); "
                  "integrated: the same along the line between, whose sum is L less L of means, "
                  "{:.4g}, up to {:.2g}. Rollout and gradient x attention: from position {} on "
                  "through the patterns; they say where was read, not what it depends on",
                  a.value - a.baseline_value, a.completeness_error, query),
      {{"position"},
       {"token"},
       {"gradient", "L"},
       {"integrated", "L"},
       {"rollout"},
       {"gradient x attention"}},
      {}};
  for (std::size_t i = 0; i < tokens.size(); ++i)
    t.rows.push_back({double(i), tokens[i], a.input_gradient[i], a.integrated[i],
                      flow.rollout.at({query, std::int64_t(i)}),
                      flow.relevance.at({query, std::int64_t(i)})});
  return t;
}

StudyTable lens_table(const nn::LogitLens& lens, const std::vector<std::string>& tokens,
                      const nn::Vocabulary& vocabulary) {
  StudyTable t{"Logit lens",
               "what the stream after a layer would predict through the final norm and head",
               {{"position"},
                {"token"},
                {"layer"},
                {"of"},
                {"probability"},
                {"rank"},
                {"likeliest"},
                {"its probability"}},
               {}};
  for (std::int64_t p = lens.length - 1; p >= 0; --p)
    for (std::int64_t layer = 0; layer < lens.layers; ++layer) {
      const nn::LensCell& cell = lens.at(layer, p);
      const bool known = cell.token != nn::kIgnored;
      t.rows.push_back({double(p), tokens[std::size_t(p)], double(layer),
                        known ? vocabulary.label(cell.token) : std::string(), cell.probability,
                        known ? double(cell.rank) : std::nan(""), vocabulary.label(cell.top),
                        cell.top_probability});
    }
  return t;
}

StudyTable logit_attribution_table(const std::vector<nn::Contribution>& parts) {
  StudyTable t{
      "Direct logit attribution",
      "what each part writes into the stream for L, the final norm's scale held; they sum to L",
      {{"part"}},
      {}};
  for (const StudyTable::Column& c : effect_columns()) t.columns.push_back(c);
  for (const nn::Contribution& part : parts) {
    t.rows.push_back({part.name});
    add_effect(t.rows.back(), part.effect);
  }
  return t;
}

}  // namespace heed
