#include "tools/heed/study/effects_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tools/heed/study/cell_table.h"

namespace heed {
namespace {

std::string label_of(const Value& mark, const std::string& name) {
  const std::string text = mark == Value() ? "" : *mark.as<std::string>();
  return text.empty() || text == "-" ? "" : name + " " + text;
}

void add_heads(std::vector<EffectPoint>& points, const HeadStudy& heads) {
  for (std::size_t i = 0; i < heads.measured->heads.size(); ++i) {
    const nn::MeasuredHead& h = heads.measured->heads[i];
    points.push_back(
        {h.gradient.mean, h.needed.mean, label_of(heads.mark(i), nn::head_name(h.report)), false});
  }
}

void add_cells(std::vector<EffectPoint>& points, const std::vector<nn::CellCut>& cells,
               const Subject& s) {
  constexpr std::size_t kLabeled = 6;
  const std::vector<Value> marks = marks_of_cells(cells, s);
  std::vector<std::size_t> order(cells.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) {
    return std::abs(cells[i].predicted - cells[i].effect);
  });
  for (std::size_t n = 0; n < order.size(); ++n) {
    const nn::CellCut& cut = cells[order[n]];
    points.push_back({cut.predicted, cut.effect,
                      n < kLabeled ? label_of(marks[order[n]], nn::cell_name(cut.cells[0])) : "",
                      true});
  }
}

}  // namespace

Files draw_effects_of(const std::filesystem::path& folder, const Subject& s, const HeadStudy& heads,
                      const std::vector<nn::CellCut>& cells) {
  std::vector<EffectPoint> points;
  std::string what = "Squares: cells, L is " + s.texts.objective + ".";
  if (heads.measured && heads.sample->run.objective.is_linear() == s.objective.is_linear()) {
    add_heads(points, heads);
    what += fmt::format(" Dots: heads on {}, L is {}.", heads.sample->sequences,
                        heads.sample->objective_text);
  }
  add_cells(points, cells, s);
  return draw_effects(folder, points, s.source, what);
}

}  // namespace heed
