#include "tools/plot/chart.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "autograd/base/error.h"
#include "tools/plot/axis.h"
#include "tools/plot/chart_series.h"
#include "tools/plot/colormap.h"
#include "tools/plot/tick_labels.h"

namespace heed::plot {
namespace {

constexpr int kWidth = ChartStyle::kWidth, kMargin = ChartStyle::kMargin;
constexpr int kLabelGap = ChartStyle::kLabelGap, kReference = ChartStyle::kReference;
constexpr double kText = ChartStyle::kText, kCurve = ChartStyle::kCurve;
constexpr int kHeight = 640, kTick = 5, kLeader = 16, kLongestName = 280;
constexpr double kTitle = 22;  // text size, pixels per em
constexpr int kTicks = 7;      // largest requested number of ticks of a y axis
constexpr Rgb kGridLine{232, 232, 232};
constexpr TextStyle kCentered{.size = kText, .align = Align::kCenter};
const int kCap = cap_height(kText), kLine = line_height(kText);

// Returns true if the stack states the meaning of its colors or dashes. Otherwise each series of a
// panel has a different color, and the legend contains the name of each series.
bool explains_colors(const ChartStack& stack) {
  return !stack.colors.empty() || !stack.dashes.empty();
}

Rgb series_color(const ChartStack& stack, const LineChart& panel, std::size_t i) {
  if (!explains_colors(stack)) return category_color(i, panel.series.size());
  const int color = panel.series[i].color;
  return color < 0 ? kInk : category_color(std::size_t(color), stack.colors.size());
}

Rgb hline_color(const ChartStack& stack, const LineChart& panel, std::size_t i) {
  const std::size_t place = panel.series.size() + i;
  return explains_colors(stack) || place >= kCategoryColors
             ? kMuted
             : category_color(place, kCategoryColors);
}

void check_stack(const ChartStack& stack) {
  using autograd::ValueError;
  check<ValueError>(!stack.panels.empty(), "chart", "needs at least one panel, got none");
  check<ValueError>(stack.dashes.size() <= std::size_t(kDashPatterns), "chart", "needs at most ",
                    kDashPatterns, " dashes, got ", stack.dashes.size());
  for (const LineChart& panel : stack.panels)
    for (const Series& s : panel.series) {
      check(s.x.size() == s.y.size(), "chart", "series ", s.name, " needs as many x as y, got ",
            s.x.size(), " and ", s.y.size());
      check(s.low.size() == s.high.size() && (s.low.empty() || s.low.size() == s.y.size()), "chart",
            "series ", s.name, " needs a low and a high for each of ", s.y.size(),
            " y, or none, got ", s.low.size(), " and ", s.high.size());
      check<ValueError>(s.color < int(stack.colors.size()), "chart", "color ", s.color,
                        " has no name; needs at most ", std::ssize(stack.colors) - 1);
      const std::size_t named = s.name.empty() && explains_colors(stack)
                                    ? std::max<std::size_t>(1, stack.dashes.size())
                                    : std::size_t(kDashPatterns);
      check<ValueError>(s.dash >= 0 && std::size_t(s.dash) < named, "chart", "dash ", s.dash,
                        " has no name; needs 0 to ", named - 1);
    }
}

struct Key {
  std::string name;
  Rgb color;
  int dash;
  const Series* dots = nullptr;  // the series, if it has dots instead of a line
};

std::vector<Key> legend_of(const ChartStack& stack) {
  std::vector<Key> keys;
  for (std::size_t i = 0; i < stack.colors.size(); ++i)
    keys.push_back({stack.colors[i], category_color(i, stack.colors.size()), 0});
  for (std::size_t i = 0; i < stack.dashes.size(); ++i)
    keys.push_back({stack.dashes[i], kMuted, int(i)});
  for (const LineChart& panel : stack.panels)
    for (std::size_t i = 0; i < panel.series.size() && !explains_colors(stack); ++i)
      if (const Series& s = panel.series[i]; !s.name.empty())
        keys.push_back({shorten_text(s.name, kLongestName, kText), series_color(stack, panel, i),
                        s.dash, s.points ? &s : nullptr});
  if (stack.vline) keys.push_back({stack.vline->name, kInk, kReference});
  return keys;
}

// Draws the legend in rows above the panels and returns the y below it. If `canvas` is null, it
// only computes this y.
int draw_legend(Canvas* canvas, const ChartStack& stack, int left, int y) {
  constexpr int kSwatch = 36, kBetween = 32;
  const double thickness = explains_colors(stack) ? kCurve : 4;
  int x = left;
  const std::vector<Key> keys = legend_of(stack);
  for (const Key& key : keys) {
    const int width = kSwatch + kLabelGap + text_width(key.name, kText);
    if (x > left && x + width > kWidth - kMargin) {
      x = left;
      y += kLine;
    }
    if (canvas) {
      const double middle = y + kCap / 2.0;
      Pen pen{key.color, key.dash, thickness};
      if (key.dots)
        draw_dot(*canvas, *key.dots, {x + kSwatch / 2.0, middle}, key.color);
      else
        canvas->stroke(pen, {double(x), middle}, {double(x + kSwatch), middle});
      canvas->text(x + kSwatch + kLabelGap, y, key.name);
    }
    x += width + kBetween;
  }
  return keys.empty() ? y : y + kLine;
}

// A label to the right of a panel: the name of a curve, or the name and value of a reference line.
struct SideLabel {
  std::string text;
  Rgb color;
  double at;      // y of the curve's end or of the reference line, in pixels
  double middle;  // y of the label's middle, in pixels
};

std::string hline_text(const LineChart& panel, const HLine& line) {
  const bool off_scale = panel.log_y && line.y <= 0;
  return shorten_text(line.name, kLongestName, kText) + (line.name.empty() ? "" : " ") +
         format_number(line.y, 4) + (off_scale ? " (off scale)" : "");
}

std::vector<SideLabel> side_labels(const ChartStack& stack, const LineChart& panel,
                                   const Area& area) {
  std::vector<SideLabel> labels;
  const auto add = [&](std::string text, Rgb color, double value) {
    const double y = area.y.shows(value) ? area.spot(0, value).y : area.bottom;
    labels.push_back({std::move(text), color, y, y});
  };
  for (std::size_t k = 0; k < panel.series.size() && explains_colors(stack); ++k)
    if (const Series& s = panel.series[k]; !s.name.empty()) {
      std::size_t i = s.y.size();
      while (i > 0 && !area.shows(s, i - 1)) --i;
      if (i > 0)
        add(shorten_text(s.name, kLongestName, kText), series_color(stack, panel, k), s.y[i - 1]);
    }
  for (std::size_t i = 0; i < panel.hlines.size(); ++i)
    if (const HLine& line = panel.hlines[i]; std::isfinite(line.y))
      add(hline_text(panel, line), hline_color(stack, panel, i), line.y);
  // Moves overlapping labels apart: first downwards, then back up from the bottom edge.
  std::sort(labels.begin(), labels.end(), [](auto& a, auto& b) { return a.at < b.at; });
  for (std::size_t i = 1; i < labels.size(); ++i)
    labels[i].middle = std::max(labels[i].middle, labels[i - 1].middle + kLine);
  double lowest = area.bottom;
  for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
    label->middle = std::min(label->middle, lowest);
    lowest = label->middle - kLine;
  }
  return labels;
}

// Draws the vertical grid lines and, below the last panel, the tick labels. If the labels would
// overlap, only every second, fifth, ... label is drawn.
void draw_x_axis(Canvas& canvas, const Area& area, bool last) {
  const double count = double(std::max<std::size_t>(area.x.labels.size(), 1));
  const int step = label_step(area.width() / count, text_width(area.x.labels, kText) + kCap);
  for (std::size_t i = 0; i < area.x.ticks.size(); ++i) {
    const int x = int(std::lround(area.spot(area.x.ticks[i], 0).x));
    canvas.rect(x, area.top, 1, area.height(), kGridLine);
    canvas.rect(x, area.bottom, 1, last ? kTick : 0, kInk);
    if (last && int(i) % step == 0)
      canvas.text(x, area.bottom + kTick + kLabelGap, area.x.labels[i], kCentered);
  }
}

// Draws those horizontal grid lines and labels that do not overlap. On a logarithmic axis, powers
// of ten have priority.
void draw_y_axis(Canvas& canvas, const Area& area) {
  const auto is_power = [&](std::size_t i) {
    const double power = std::log10(std::abs(area.y.ticks[i]));
    return area.y.log && std::abs(power - std::round(power)) < 1e-9;
  };
  std::vector<std::size_t> order(area.y.ticks.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_partition(order.begin(), order.end(), is_power);
  std::vector<int> taken;
  for (const std::size_t i : order) {
    const int y = int(std::lround(area.spot(0, area.y.ticks[i]).y));
    const bool free = std::all_of(taken.begin(), taken.end(),
                                  [&](int other) { return std::abs(other - y) >= kLine; });
    if (!free) continue;
    taken.push_back(y);
    canvas.rect(area.left, y, area.width(), 1, kGridLine);
    canvas.rect(area.left - kTick, y, kTick, 1, kInk);
    canvas.text(area.left - kTick - kLabelGap, y - kCap / 2, area.y.labels[i],
                {.size = kText, .align = Align::kRight});
  }
}

void draw_axes(Canvas& canvas, const LineChart& panel, const Area& area, bool last) {
  draw_x_axis(canvas, area, last);
  draw_y_axis(canvas, area);
  canvas.rect(area.left, area.top, 1, area.height() + 1, kInk);
  canvas.rect(area.left, area.bottom, area.width(), 1, kInk);
  const bool beside = !panel.y_name.empty();  // if false, the title is the name of the y axis
  canvas.text(area.left, area.top - kLabelGap - kCap,
              shorten_text(beside ? panel.title : area.y.title(panel.title),
                           kWidth - kMargin - area.left, kText),
              {.size = kText});
  canvas.text(kMargin, area.middle(),
              shorten_text(area.y.title(panel.y_name), area.height(), kText),
              {.size = kText, .align = Align::kCenter, .upward = true});
  if (last)
    canvas.text(area.center(), area.bottom + kTick + kLabelGap + kLine,
                shorten_text(area.x.title(panel.x_name), area.width(), kText), kCentered);
}

void draw_panel(Canvas& canvas, const ChartStack& stack, const LineChart& panel, const Area& area) {
  bool any = false;
  if (panel.equal) draw_equality(canvas, area);
  for (std::size_t i = 0; i < panel.series.size(); ++i)  // bands are below all curves
    draw_band(canvas, panel.series[i], series_color(stack, panel, i), area);
  if (stack.vline) {
    const double x = area.spot(stack.vline->x, 0).x;
    Pen pen{kInk, kReference, kCurve};
    canvas.stroke(pen, {x, double(area.top)}, {x, double(area.bottom)});
  }
  for (std::size_t i = 0; i < panel.series.size(); ++i) {
    const Series& s = panel.series[i];
    const Rgb color = series_color(stack, panel, i);
    for (std::size_t k = 0; k < s.x.size(); ++k) any = any || area.shows(s, k);
    if (s.points)
      draw_points(canvas, s, color, area);
    else
      draw_curve(canvas, s, color, area, explains_colors(stack) || s.dash == 0);
  }
  draw_labels(canvas, panel, area);
  // Reference lines are drawn above the curves, because noisy curves would hide them.
  for (std::size_t i = 0; i < panel.hlines.size(); ++i) {
    if (!area.y.shows(panel.hlines[i].y)) continue;
    const double y = area.spot(0, panel.hlines[i].y).y;
    Pen pen{hline_color(stack, panel, i), kReference, kCurve};
    canvas.stroke(pen, {double(area.left), y}, {double(area.right), y});
  }
  for (const SideLabel& label : side_labels(stack, panel, area)) {
    canvas.line(area.right + 2, label.at, area.right + kLeader, label.middle, label.color, kCurve);
    canvas.text(area.right + kLeader + kLabelGap, int(std::lround(label.middle)) - kCap / 2,
                label.text, {.color = explains_colors(stack) ? label.color : kInk, .size = kText});
  }
  if (!any) canvas.text(area.center(), area.middle(), "no data", kCentered);
}

Axis y_axis_of(const LineChart& panel, bool log_x, int wanted) {
  Area area;
  area.x.log = log_x;
  area.y.log = panel.log_y;
  std::vector<double> y = panel.ends;
  for (const Series& s : panel.series)
    for (std::size_t i = 0; i < s.x.size(); ++i) {
      if (!area.shows(s, i)) continue;
      y.push_back(s.y[i]);
      if (panel.equal) y.insert(y.end(), {s.x[i], 0});
      if (s.low.empty()) continue;
      y.push_back(s.low[i]);
      y.push_back(s.high[i]);
    }
  for (const HLine& line : panel.hlines) y.push_back(line.y);
  return fit_axis(y, panel.log_y, 0.05, wanted);
}

// Returns the x axis of all panels.
Axis x_axis_of(const ChartStack& stack) {
  const LineChart& last = stack.panels.back();
  if (last.equal) return y_axis_of(last, last.log_x, kTicks);
  std::vector<double> x;
  for (const LineChart& panel : stack.panels)
    for (const Series& s : panel.series)
      for (std::size_t i = 0; i < s.x.size(); ++i)
        if (Axis{.log = panel.log_y, .ticks = {}, .labels = {}}.shows(s.y[i])) x.push_back(s.x[i]);
  return fit_axis(x, last.log_x, 0.02, 8);
}

// Places the panels below each other, all with the same width, except that `equal` panels may be
// narrower. The legend begins at `y`, and `below` pixels remain free below the last panel.
std::vector<Area> lay_out(const ChartStack& stack, int y, int below) {
  int left = 0, right = kMargin + kCap;  // leaves room for half of the last x label
  std::vector<Area> areas;
  for (const LineChart& panel : stack.panels) {
    const int height = panel.height > 0 ? panel.height : stack.panels.size() > 1 ? 96 : 0;
    Area area{.bottom = height,
              .x = {},
              .y = y_axis_of(panel, stack.panels.back().log_x,
                             height > 0 ? std::clamp(height / 25, 4, kTicks) : kTicks)};
    left = std::max(left, kMargin + (panel.y_name.empty() ? 0 : kLine) +
                              text_width(area.y.labels, kText) + kLabelGap + kTick);
    for (const SideLabel& label : side_labels(stack, panel, area))
      right = std::max(right, kLeader + kLabelGap + text_width(label.text, kText) + kMargin);
    areas.push_back(std::move(area));
  }
  const Axis x = x_axis_of(stack);
  y = draw_legend(nullptr, stack, left, y);
  for (std::size_t i = 0; i < areas.size(); ++i) {
    Area& area = areas[i];
    area.top = y + kLabelGap + (stack.panels[i].title.empty() ? 0 : kLine);
    area.bottom = area.bottom > 0 ? area.top + area.bottom : kHeight - below;
    area.left = left, area.right = kWidth - right, area.x = x;
    y = area.bottom + kLabelGap;
    if (!stack.panels[i].equal) continue;
    area.right = std::min(area.right, left + area.height());
    area.x = y_axis_of(stack.panels[i], false, kTicks);
    y = area.bottom + below;
  }
  return areas;
}

}  // namespace

void draw(const ChartStack& stack, Canvas& canvas) {
  check_stack(stack);
  constexpr int kTextWidth = kWidth - 2 * kMargin;
  const auto title = wrap_text(stack.title, kTextWidth, kTitle);
  const auto caption = wrap_text(stack.caption, kTextWidth, kText);
  const int caption_y = kMargin + int(title.size()) * line_height(kTitle) + 4;
  const int legend_y = caption_y + int(caption.size()) * kLine + (caption.empty() ? 0 : kLabelGap);
  const int below =
      kTick + kLabelGap + (stack.panels.back().x_name.empty() ? 0 : kLine) + kCap + 4 + kMargin;
  const std::vector<Area> areas = lay_out(stack, legend_y, below);

  canvas.resize(kWidth, areas.back().bottom + below);
  canvas.text_lines(kMargin, kMargin, title, kTextWidth, {.size = kTitle});
  canvas.text_lines(kMargin, caption_y, caption, kTextWidth, {.color = kMuted, .size = kText});
  draw_legend(&canvas, stack, areas[0].left, legend_y);
  for (std::size_t i = 0; i < areas.size(); ++i) {
    draw_axes(canvas, stack.panels[i], areas[i], i + 1 == areas.size() || stack.panels[i].equal);
    draw_panel(canvas, stack, stack.panels[i], areas[i]);
  }
}

Image draw_chart_stack(const ChartStack& stack) {
  Image image;
  draw(stack, image);
  return image;
}

ChartStack stack_of(LineChart chart) {
  const std::string title = std::exchange(chart.title, "");
  return {.title = title, .panels = {std::move(chart)}};
}

Image draw_chart(const LineChart& chart) { return draw_chart_stack(stack_of(chart)); }

}  // namespace heed::plot
