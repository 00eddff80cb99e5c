#include "tools/plot/network.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "autograd/base/error.h"
#include "tools/plot/chart_series.h"
#include "tools/plot/text.h"

namespace heed::plot {
namespace {

constexpr int kRowHeight = 84, kPadding = 8, kHalfHeight = 14;
constexpr double kNetworkTitle = 22, kWidest = 9, kThinnest = 1;

// Returns the index of each value among the distinct values.
std::map<Index, int> places_of(const std::set<Index>& values) {
  std::map<Index, int> places;
  for (const Index x : values) places.emplace(x, int(places.size()));
  return places;
}

// A node: its center, and half of its width.
struct NodeBox {
  double x, y, half_width;
  int above = 0, below = 0;  // edges that go around it
};

// Returns the points of an edge from the right side of one box to the left side of another, moved
// down by `shift`. It goes around every box that a straight line would touch.
std::vector<Spot> path_of(const NodeBox& from, const NodeBox& to, double shift,
                          std::map<std::string, NodeBox>& boxes) {
  constexpr double kLane = 7;
  std::vector<Spot> path{{from.x + from.half_width, from.y + shift}};
  const Spot end{to.x - to.half_width, to.y + shift};
  std::vector<NodeBox*> between;
  for (auto& [name, box] : boxes)
    if (box.x > from.x && box.x < to.x) between.push_back(&box);
  std::ranges::sort(between, {}, &NodeBox::x);
  for (NodeBox* box : between) {
    const Spot start = path.back();
    const double left = box->x - box->half_width, right = box->x + box->half_width;
    const auto height_at = [&](double x) {
      return start.y + (end.y - start.y) * (x - start.x) / (end.x - start.x) - box->y;
    };
    const double a = height_at(left), b = height_at(right), near = kHalfHeight + kLane;
    if (left <= start.x || std::min(a, b) > near || std::max(a, b) < -near) continue;
    const bool is_below = a + b > 0;
    const double y = near + kLane * (is_below ? box->below++ : box->above++);
    for (const double x : {left, right}) path.push_back({x, box->y + (is_below ? y : -y)});
  }
  path.push_back(end);
  return path;
}

}  // namespace

void draw(const Network& network, Canvas& canvas) {
  constexpr int kLeft = ChartStyle::kMargin, kRoom = ChartStyle::kWidth - 2 * kLeft;
  constexpr double kSize = ChartStyle::kText;
  const auto title = wrap_text(network.title, kRoom, kNetworkTitle),
             caption = wrap_text(network.caption, kRoom, kSize);
  std::set<Index> used_columns, used_rows;
  for (const Network::Node& n : network.nodes)
    used_columns.insert(n.column), used_rows.insert(n.row);
  const auto columns = places_of(used_columns), rows = places_of(used_rows);
  const int top = kLeft + int(title.size()) * line_height(kNetworkTitle) +
                  int(caption.size()) * line_height(kSize) + kRowHeight / 2;
  canvas.resize(ChartStyle::kWidth, top + std::max(1, int(rows.size())) * kRowHeight);
  canvas.text_lines(kLeft,
                    canvas.text_lines(kLeft, kLeft, title, kRoom, {.size = kNetworkTitle}) + 4,
                    caption, kRoom, {.color = kMuted, .size = kSize});

  std::map<std::string, NodeBox> boxes;
  const double step = double(kRoom - 6 * kLeft) / std::max(1, int(columns.size()) - 1);
  for (const Network::Node& n : network.nodes)
    boxes[n.name] = {4 * kLeft + step * columns.at(n.column),
                     double(top + kRowHeight * rows.at(n.row)),
                     text_width(n.name, kSize) / 2.0 + kPadding};
  double largest = 0;
  for (const Network::Edge& e : network.edges) largest = std::max(largest, std::abs(e.value));
  std::map<std::pair<std::string, std::string>, int> parallel;  // edges between the same nodes
  for (const Network::Edge& e : network.edges) {
    heed::check<autograd::ValueError>(boxes.contains(e.from) && boxes.contains(e.to), "network",
                                      "the edge ", e.name, " has an end that is not a node");
    const int n = parallel[{e.from, e.to}]++;
    const double shift = (n % 2 ? -1 : 1) * ((n + 1) / 2) * (kWidest + 2);
    const double share = std::abs(e.value) / largest;
    Pen pen{kEdgeColors[e.color], e.value > 0 ? 1 : 0, std::max(kThinnest, kWidest * share)};
    const std::vector<Spot> path = path_of(boxes[e.from], boxes[e.to], shift, boxes);
    for (std::size_t i = 1; i < path.size(); ++i) canvas.stroke(pen, path[i - 1], path[i]);
  }
  for (const auto& [name, box] : boxes) {
    const int width = int(2 * box.half_width), height = 2 * kHalfHeight;
    const int x = int(box.x) - width / 2, y = int(box.y) - kHalfHeight;
    canvas.rect(x, y, width, height, kWhite);
    canvas.frame(x, y, width, height, kInk);
    canvas.text(int(box.x), int(box.y) - cap_height(kSize) / 2, name,
                {.size = kSize, .align = Align::kCenter});
  }
}

}  // namespace heed::plot
