#include "tools/plot/network.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "autograd/base/error.h"
#include "tools/plot/chart_series.h"
#include "tools/plot/colormap.h"
#include "tools/plot/text.h"

namespace heed::plot {
namespace {

constexpr int kRowHeight = 84, kPadding = 8;
constexpr double kNetworkTitle = 22, kWidest = 9, kThinnest = 1;

// Returns the index of each value among the distinct values.
std::map<std::int64_t, int> places_of(const std::set<std::int64_t>& values) {
  std::map<std::int64_t, int> places;
  for (const std::int64_t x : values) places.emplace(x, int(places.size()));
  return places;
}

}  // namespace

void draw(const Network& network, Canvas& canvas) {
  constexpr int kLeft = ChartStyle::kMargin, kRoom = ChartStyle::kWidth - 2 * kLeft;
  constexpr double kSize = ChartStyle::kText;
  const auto title = wrap_text(network.title, kRoom, kNetworkTitle),
             caption = wrap_text(network.caption, kRoom, kSize);
  std::set<std::int64_t> used_columns, used_rows;
  for (const Network::Node& n : network.nodes)
    used_columns.insert(n.column), used_rows.insert(n.row);
  const auto columns = places_of(used_columns), rows = places_of(used_rows);
  const int top = kLeft + int(title.size()) * line_height(kNetworkTitle) +
                  int(caption.size()) * line_height(kSize) + kRowHeight / 2;
  canvas.resize(ChartStyle::kWidth, top + std::max(1, int(rows.size())) * kRowHeight);
  canvas.text_lines(kLeft,
                    canvas.text_lines(kLeft, kLeft, title, kRoom, {.size = kNetworkTitle}) + 4,
                    caption, kRoom, {.color = kMuted, .size = kSize});

  std::map<std::string, Spot> centers;
  const double step = double(kRoom - 6 * kLeft) / std::max(1, int(columns.size()) - 1);
  // If the nodes of a row were on one line, an edge would cross the nodes between its ends.
  // Therefore the columns are shifted downwards by 0, 1 and 2 times kSlope in turn.
  constexpr double kSlope = 10;
  for (const Network::Node& n : network.nodes)
    centers[n.name] = {4 * kLeft + step * columns.at(n.column),
                       top + kRowHeight * rows.at(n.row) + kSlope * (columns.at(n.column) % 3)};
  double largest = 0;
  for (const Network::Edge& e : network.edges) largest = std::max(largest, std::abs(e.value));
  std::map<std::pair<std::string, std::string>, int> parallel;  // edges between the same nodes
  for (const Network::Edge& e : network.edges) {
    heed::check<autograd::ValueError>(centers.contains(e.from) && centers.contains(e.to), "network",
                                      "the edge ", e.name, " has an end that is not a node");
    const int n = parallel[{e.from, e.to}]++;
    const double shift = (n % 2 ? -1 : 1) * ((n + 1) / 2) * (kWidest + 2);
    const Spot a = centers[e.from], b = centers[e.to];
    const double share = std::abs(e.value) / largest;
    canvas.line(a.x, a.y + shift, b.x, b.y + shift,
                diverging((e.value < 0 ? -1 : 1) * (0.35 + 0.65 * share)),
                std::max(kThinnest, kWidest * share));
  }
  for (const auto& [name, center] : centers) {
    const int width = text_width(name, kSize) + 2 * kPadding,
              height = cap_height(kSize) + 2 * kPadding;
    const int x = int(center.x) - width / 2, y = int(center.y) - height / 2;
    canvas.rect(x, y, width, height, kWhite);
    canvas.frame(x, y, width, height, kInk);
    canvas.text(int(center.x), y + kPadding, name, {.size = kSize, .align = Align::kCenter});
  }
}

}  // namespace heed::plot
