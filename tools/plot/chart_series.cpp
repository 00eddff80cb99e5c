#include "tools/plot/chart_series.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace heed::plot {
namespace {

// Returns the y coordinate in pixels of the edge of a band at `value`, clamped to the plot.
double band_y(const Area& area, double value) {
  if (std::isfinite(value) && !area.y.shows(value)) return area.bottom;
  return std::clamp(area.spot(0, value).y, double(area.top), double(area.bottom));
}

}  // namespace

void draw_band(Canvas& canvas, const Series& s, Rgb color, const Area& area) {
  constexpr double kPale = 0.2;
  const auto x = [&](std::size_t i) { return area.spot(s.x[i], 0).x; };
  for (std::size_t i = 0; i + 1 < s.low.size() && !s.points; ++i)
    if (area.x.shows(s.x[i]) && area.x.shows(s.x[i + 1]))
      canvas.area(x(i), band_y(area, s.low[i]), band_y(area, s.high[i]), x(i + 1),
                  band_y(area, s.low[i + 1]), band_y(area, s.high[i + 1]), color, kPale);
}

void draw_dot(Canvas& canvas, const Series& s, Spot at, Rgb color) {
  constexpr double kDot = 10, kRing = 14;  // a ring is visible around a dot
  canvas.line(at.x, at.y, at.x, at.y, color, s.hollow ? kRing : kDot);
  if (s.hollow) canvas.line(at.x, at.y, at.x, at.y, kWhite, kDot);
}

void draw_points(Canvas& canvas, const Series& s, Rgb color, const Area& area) {
  for (std::size_t i = 0; i < s.x.size(); ++i)
    if (area.shows(s, i)) draw_dot(canvas, s, area.spot(s.x[i], s.y[i]), color);
}

struct Label {
  double left, right, top, bottom;
};

// Returns whether a label covers a dot, a line at 0 or the diagonal of a panel whose axes are
// equal.
bool covers_marks(const Label& label, const LineChart& panel, const Area& area) {
  constexpr double kNear = 4;  // pixels
  const double left = label.left - kNear, right = label.right + kNear, top = label.top - kNear,
               bottom = label.bottom + kNear;
  const auto is_inside = [&](const Spot& p) {
    return p.x > left && p.x < right && p.y > top && p.y < bottom;
  };
  for (const Series& s : panel.series)
    for (std::size_t i = 0; i < s.x.size(); ++i)
      if (is_inside(area.spot(s.x[i], s.y[i]))) return true;
  const Spot zero = area.spot(0, 0);
  if ((zero.y > top && zero.y < bottom) || (zero.x > left && zero.x < right)) return true;
  const double slope = double(area.bottom - area.top) / double(area.right - area.left);
  const auto diagonal = [&](double x) { return area.bottom - slope * (x - area.left); };
  return left < area.right && diagonal(left) > top && diagonal(right) < bottom;
}

void draw_labels(Canvas& canvas, const LineChart& panel, const Area& area) {
  constexpr int kTries = 6;  // at most one line away: farther, a label seems to name another mark
  const int cap = cap_height(ChartStyle::kText), line = line_height(ChartStyle::kText);
  std::vector<Label> labels;
  for (const Series& s : panel.series)
    for (std::size_t i = 0; i < s.labels.size(); ++i) {
      if (s.labels[i].empty() || !area.shows(s, i)) continue;
      const auto [x, y] = area.spot(s.x[i], s.y[i]);
      const int width = text_width(s.labels[i], ChartStyle::kText);
      const auto place = [&](int n) {
        const double left =
            n % 2 == 0 ? x + ChartStyle::kLabelGap : x - ChartStyle::kLabelGap - width;
        const double top = y - cap / 2.0 + (n / 2 + 1) / 2 * (n / 2 % 2 == 0 ? -line : line);
        return Label{left, left + width, top, top + cap};
      };
      const auto is_free = [&](const Label& label) {
        return label.left > area.left && label.right < ChartStyle::kWidth - ChartStyle::kMargin &&
               label.top > area.top && label.bottom < area.bottom &&
               std::ranges::none_of(labels,
                                    [&](const Label& other) {
                                      return label.left < other.right && other.left < label.right &&
                                             std::abs(label.top - other.top) < line;
                                    }) &&
               !(panel.equal && covers_marks(label, panel, area));
      };
      int n = 0;
      while (n < kTries && !is_free(place(n))) ++n;
      if (n == kTries && panel.equal) continue;
      const Label label = place(n < kTries ? n : 0);
      labels.push_back(label);
      canvas.text(int(label.left), int(label.top), s.labels[i], {.size = ChartStyle::kText});
    }
}

void draw_equality(Canvas& canvas, const Area& area) {
  const Spot zero = area.spot(0, 0);
  canvas.rect(int(std::lround(zero.x)), area.top, 1, area.height(), kMuted);
  canvas.rect(area.left, int(std::lround(zero.y)), area.width(), 1, kMuted);
  Pen pen{kMuted, ChartStyle::kReference, ChartStyle::kCurve};
  canvas.stroke(pen, {double(area.left), double(area.bottom)},
                {double(area.right), double(area.top)});
}

void draw_curve(Canvas& canvas, const Series& s, Rgb color, const Area& area, bool may_dot) {
  constexpr double kDot = 7;
  constexpr std::size_t kFew = 30;  // a curve with more points gets no dots
  Pen pen{color, s.dash, ChartStyle::kCurve};
  const bool dots = may_dot && s.x.size() <= kFew;
  for (std::size_t i = 0; i < s.x.size(); ++i) {
    if (!area.shows(s, i)) continue;
    const Spot at = area.spot(s.x[i], s.y[i]);
    const bool next = area.shows(s, i + 1), alone = !next && (i == 0 || !area.shows(s, i - 1));
    if (next) canvas.stroke(pen, at, area.spot(s.x[i + 1], s.y[i + 1]));
    if (alone || dots) canvas.line(at.x, at.y, at.x, at.y, color, kDot);
  }
}

}  // namespace heed::plot
