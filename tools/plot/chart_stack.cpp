#include "tools/plot/chart_stack.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "autograd/base/error.h"
#include "tools/plot/axis.h"
#include "tools/plot/colormap.h"
#include "tools/plot/tick_labels.h"

namespace heed::plot {
namespace {

constexpr int kStackWidth = 1000, kEdge = 24, kSpace = 8, kTickLength = 5;
constexpr double kSmall = 15, kLarge = 22;  // sizes of text
constexpr double kCurve = 1.8, kPointSize = 6;
constexpr Rgb kStackGrid{232, 232, 232};
const int kSmallCap = cap_height(kSmall), kSmallLine = line_height(kSmall);

// On and off, in pixels, of curves as thick as kCurve.
const std::array<std::vector<double>, kDashPatterns> kPatterns = {
    {{}, {9, 6}, {1.5, 5}, {12, 5, 1.5, 5}}};
const std::vector<double> kReference = {14, 8};

// M. Okabe, K. Ito (2008), "Color Universal Design", without black and the faint yellow.
constexpr std::array<Rgb, 7> kFewColors = {{{0, 114, 178},
                                            {213, 94, 0},
                                            {0, 158, 115},
                                            {204, 121, 167},
                                            {230, 159, 0},
                                            {86, 180, 233},
                                            {120, 94, 40}}};

Rgb color_of(int i, std::size_t count) {
  if (i < 0) return kInk;
  if (count <= kFewColors.size()) return kFewColors[std::size_t(i)];
  return viridis(0.9 * i / double(count - 1));
}

struct Spot {
  double x, y;
};

// Draws connected lines with a pattern that runs on from one to the next.
class Pen {
 public:
  Pen(Image& image, Rgb color, const std::vector<double>& pattern)
      : image_(image), color_(color), pattern_(pattern) {}
  void line(Spot a, Spot b) {
    if (pattern_.empty()) return image_.line(a.x, a.y, b.x, b.y, color_, kCurve);
    const double length = std::hypot(b.x - a.x, b.y - a.y);
    double done = 0;
    while (done < length) {
      const double next = std::min(length, done + pattern_[part_] - in_part_);
      const auto at = [&](double d) {
        return Spot{a.x + d / length * (b.x - a.x), a.y + d / length * (b.y - a.y)};
      };
      const Spot from = at(done), to = at(next);
      if (part_ % 2 == 0) image_.line(from.x, from.y, to.x, to.y, color_, kCurve);
      in_part_ += next - done;
      done = next;
      if (in_part_ < pattern_[part_] - 1e-9) continue;
      in_part_ = 0;
      part_ = (part_ + 1) % pattern_.size();
    }
  }

 private:
  Image& image_;
  Rgb color_;
  const std::vector<double>& pattern_;
  std::size_t part_ = 0;
  double in_part_ = 0;
};

// Where a panel lies, and how values become pixels in it.
struct Area {
  int left = 0, top = 0, right = 0, bottom = 0;
  Axis x, y;
  Spot spot(double a, double b) const {
    return {left + x.share(a) * (right - left), bottom - y.share(b) * (bottom - top)};
  }
};

void check_stack(const ChartStack& stack) {
  using autograd::ValueError;
  check<ValueError>(!stack.panels.empty(), "chart stack", "has no panel");
  check<ValueError>(stack.dashes.size() <= std::size_t(kDashPatterns), "chart stack", "has ",
                    stack.dashes.size(), " dashes, there are ", kDashPatterns, " patterns");
  for (const StackedChart& panel : stack.panels)
    for (const StackedSeries& s : panel.series) {
      check(s.y.size() == stack.x.size(), "chart stack", "a series of '", panel.name, "' has ",
            s.y.size(), " values, x has ", stack.x.size());
      check<ValueError>(s.color < int(stack.colors.size()), "chart stack", "color ", s.color,
                        " has no name");
      const std::size_t named = s.name.empty() ? std::max<std::size_t>(1, stack.dashes.size())
                                               : std::size_t(kDashPatterns);
      check<ValueError>(s.dash >= 0 && std::size_t(s.dash) < named, "chart stack", "dash ", s.dash,
                        " has no name");
    }
}

struct Key {
  std::string name;
  Rgb color;
  const std::vector<double>* pattern;
};

std::vector<Key> keys_of(const ChartStack& stack) {
  std::vector<Key> keys;
  for (std::size_t i = 0; i < stack.colors.size(); ++i)
    keys.push_back({stack.colors[i], color_of(int(i), stack.colors.size()), &kPatterns[0]});
  for (std::size_t i = 0; i < stack.dashes.size(); ++i)
    keys.push_back({stack.dashes[i], kMuted, &kPatterns[i]});
  if (stack.vline) keys.push_back({stack.vline->name, kInk, &kReference});
  return keys;
}

// The keys in rows from y on; returns the y below. Without an image it only measures.
int draw_keys(Image* image, const ChartStack& stack, int y) {
  constexpr int kSwatch = 46, kBetween = 28;
  int x = kEdge;
  const std::vector<Key> keys = keys_of(stack);
  for (const Key& key : keys) {
    const int width = kSwatch + kSpace + text_width(key.name, kSmall);
    if (x > kEdge && x + width > kStackWidth - kEdge) x = kEdge, y += kSmallLine;
    if (image) {
      const double middle = y + kSmallCap / 2.0;
      Pen(*image, key.color, *key.pattern).line({double(x), middle}, {double(x + kSwatch), middle});
      image->text(x + kSwatch + kSpace, y, key.name, {.size = kSmall});
    }
    x += width + kBetween;
  }
  return keys.empty() ? y : y + kSmallLine + kSpace;
}

// A name at the right of a panel, and the y that it is of.
struct SideLabel {
  std::string text;
  Rgb color;
  double at, middle;
};

std::string reference_text(const HLine& line) {
  return (line.name.empty() ? "" : line.name + " ") + format_number(line.y, 3);
}

std::vector<SideLabel> side_labels(const ChartStack& stack, const StackedChart& panel,
                                   const Area& area) {
  std::vector<SideLabel> labels;
  for (const StackedSeries& s : panel.series)
    for (std::size_t i = s.y.size(); !s.name.empty() && i-- > 0;) {
      if (!area.y.shows(s.y[i])) continue;
      const double at = area.spot(0, s.y[i]).y;
      labels.push_back({s.name, color_of(s.color, stack.colors.size()), at, at});
      break;
    }
  for (const HLine& line : panel.hlines) {
    if (!area.y.shows(line.y)) continue;
    const double at = area.spot(0, line.y).y;
    labels.push_back({reference_text(line), kMuted, at, at});
  }
  // Those that would overlap move apart: down from the top, then up from the bottom.
  std::sort(labels.begin(), labels.end(), [](auto& a, auto& b) { return a.at < b.at; });
  for (std::size_t i = 1; i < labels.size(); ++i)
    labels[i].middle = std::max(labels[i].middle, labels[i - 1].middle + kSmallLine);
  double lowest = area.bottom;
  for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
    label->middle = std::min(label->middle, lowest);
    lowest = label->middle - kSmallLine;
  }
  return labels;
}

// The labels of y that have room: powers of ten first.
void draw_y_axis(Image& image, const Area& area) {
  const auto round = [&](std::size_t i) {
    const double power = std::log10(std::abs(area.y.ticks[i]));
    return area.y.log && std::abs(power - std::round(power)) < 1e-9;
  };
  std::vector<std::size_t> order(area.y.ticks.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_partition(order.begin(), order.end(), round);
  std::vector<int> taken;
  for (const std::size_t i : order) {
    const int y = int(std::lround(area.spot(0, area.y.ticks[i]).y));
    const bool free = std::all_of(taken.begin(), taken.end(),
                                  [&](int other) { return std::abs(other - y) >= kSmallLine; });
    if (!free) continue;
    taken.push_back(y);
    image.rect(area.left, y, area.right - area.left, 1, kStackGrid);
    image.rect(area.left - kTickLength, y, kTickLength, 1, kInk);
    image.text(area.left - kTickLength - kSpace, y - kSmallCap / 2, area.y.labels[i],
               {.size = kSmall, .align = Align::kRight});
  }
}

// The grid of x in every panel, its numbers below the last one.
void draw_x_axis(Image& image, const Area& area, bool numbers) {
  const double count = double(std::max<std::size_t>(area.x.labels.size(), 1));
  const int step =
      label_step((area.right - area.left) / count, text_width(area.x.labels, kSmall) + kSmallCap);
  for (std::size_t i = 0; i < area.x.ticks.size(); ++i) {
    const int x = int(std::lround(area.spot(area.x.ticks[i], 0).x));
    image.rect(x, area.top, 1, area.bottom - area.top, kStackGrid);
    image.rect(x, area.bottom, 1, numbers ? kTickLength : 0, kInk);
    if (numbers && int(i) % step == 0)
      image.text(x, area.bottom + kTickLength + kSpace, area.x.labels[i],
                 {.size = kSmall, .align = Align::kCenter});
  }
}

void draw_curve(Image& image, const ChartStack& stack, const StackedSeries& s, const Area& area) {
  constexpr std::size_t kFewPoints = 30;
  const Rgb color = color_of(s.color, stack.colors.size());
  Pen pen(image, color, kPatterns[std::size_t(s.dash)]);
  const auto shows = [&](std::size_t i) { return i < s.y.size() && area.y.shows(s.y[i]); };
  for (std::size_t i = 0; i < s.y.size(); ++i) {
    if (!shows(i)) continue;
    const Spot at = area.spot(stack.x[i], s.y[i]);
    if (shows(i + 1)) pen.line(at, area.spot(stack.x[i + 1], s.y[i + 1]));
    const bool alone = !shows(i + 1) && (i == 0 || !shows(i - 1));
    if (alone || s.y.size() <= kFewPoints) image.line(at.x, at.y, at.x, at.y, color, kPointSize);
  }
}

void draw_stacked(Image& image, const ChartStack& stack, const StackedChart& panel,
                  const Area& area, bool last) {
  image.text(area.left, area.top - kSpace - kSmallCap,
             shorten_text(area.y.title(panel.name), kStackWidth - kEdge - area.left, kSmall),
             {.size = kSmall});
  draw_x_axis(image, area, last);
  draw_y_axis(image, area);
  image.rect(area.left, area.top, 1, area.bottom - area.top + 1, kInk);
  image.rect(area.left, area.bottom, area.right - area.left, 1, kInk);
  const auto across = [&](Rgb color, Spot a, Spot b) { Pen(image, color, kReference).line(a, b); };
  if (stack.vline) {
    const double x = area.spot(stack.vline->x, 0).x;
    across(kInk, {x, double(area.top)}, {x, double(area.bottom)});
  }
  for (const HLine& line : panel.hlines) {
    if (!area.y.shows(line.y)) continue;
    const double y = area.spot(0, line.y).y;
    across(kMuted, {double(area.left), y}, {double(area.right), y});
  }
  for (const StackedSeries& s : panel.series) draw_curve(image, stack, s, area);
  for (const SideLabel& label : side_labels(stack, panel, area)) {
    constexpr int kLead = 12;
    image.line(area.right + 2, label.at, area.right + kLead, label.middle, label.color, 1.5);
    image.text(area.right + kLead + 4, int(std::lround(label.middle)) - kSmallCap / 2, label.text,
               {.color = label.color, .size = kSmall});
  }
}

Axis y_axis_of(const StackedChart& panel) {
  std::vector<double> values = panel.ends;
  for (const StackedSeries& s : panel.series) values.insert(values.end(), s.y.begin(), s.y.end());
  for (const HLine& line : panel.hlines) values.push_back(line.y);
  return fit_axis(values, panel.log_y, 0.06, std::max(4, panel.height / 25));
}

// The panels from y on, all of one width.
std::vector<Area> areas_of(const ChartStack& stack, int y) {
  int numbers = 0, names = kSmallCap;  // half of the last x label may stand out
  std::vector<Area> areas;
  const Axis x = fit_axis(stack.x, false, 0.02, 9);
  for (const StackedChart& panel : stack.panels) {
    y += kSmallLine + kSpace;
    areas.push_back({0, y, 0, y + panel.height, x, y_axis_of(panel)});
    y += panel.height + kSpace;
    numbers = std::max(numbers, text_width(areas.back().y.labels, kSmall));
    for (const SideLabel& label : side_labels(stack, panel, areas.back()))
      names = std::max(names, 16 + text_width(label.text, kSmall));
  }
  for (Area& area : areas) {
    area.left = kEdge + numbers + kSpace + kTickLength;
    area.right = kStackWidth - kEdge - names;
  }
  return areas;
}

}  // namespace

Image draw_chart_stack(const ChartStack& stack) {
  check_stack(stack);
  constexpr int kTextWidth = kStackWidth - 2 * kEdge;
  const auto title = wrap_text(stack.title, kTextWidth, kLarge);
  const auto caption = wrap_text(stack.caption, kTextWidth, kSmall);
  int y = kEdge + int(title.size()) * line_height(kLarge) + 4;
  const int caption_y = y;
  y += int(caption.size()) * kSmallLine + kSpace;
  const int keys_y = y;
  const std::vector<Area> areas = areas_of(stack, draw_keys(nullptr, stack, y));
  const int x_name_y = areas.back().bottom + kTickLength + 2 * kSpace + kSmallLine;

  Image image(kStackWidth, x_name_y + kSmallLine + kEdge / 2);
  image.text_lines(kEdge, kEdge, title, kTextWidth, {.size = kLarge});
  image.text_lines(kEdge, caption_y, caption, kTextWidth, {.color = kMuted, .size = kSmall});
  draw_keys(&image, stack, keys_y);
  for (std::size_t i = 0; i < areas.size(); ++i)
    draw_stacked(image, stack, stack.panels[i], areas[i], i + 1 == areas.size());
  image.text((areas.back().left + areas.back().right) / 2, x_name_y, stack.x_name,
             {.size = kSmall, .align = Align::kCenter});
  return image;
}

}  // namespace heed::plot
