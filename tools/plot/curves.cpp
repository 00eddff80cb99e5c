#include "tools/plot/curves.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "autograd/base/error.h"

namespace heed::plot {
namespace {

constexpr int kWidth = 1200, kHeight = 760, kMargin = 24;
constexpr int kText = 2, kTitle = 3;  // text scales
constexpr int kCap = kCapHeight * kText, kLine = kLineHeight * kText;
constexpr int kTick = 6, kLabelGap = 8;
constexpr std::size_t kNameCharacters = 32;
constexpr Rgb kGridLine{225, 225, 225};

// M. Okabe, K. Ito (2008), "Color Universal Design"; yellow last, it is faint on white.
constexpr std::array<Rgb, 8> kColors = {{{0, 114, 178},
                                         {213, 94, 0},
                                         {0, 158, 115},
                                         {204, 121, 167},
                                         {230, 159, 0},
                                         {86, 180, 233},
                                         {0, 0, 0},
                                         {240, 228, 66}}};

Rgb color_of(std::size_t i) { return kColors[i % kColors.size()]; }

// One axis: the range in axis units (log10 of the value if logarithmic) and its ticks, in values.
struct Axis {
  bool log = false;
  double low = 0, high = 1;
  std::vector<double> ticks;
  std::vector<std::string> labels;

  bool shows(double value) const {
    return std::isfinite(value) && std::abs(value) < 1e300 && (!log || value > 0);
  }
  double unit(double value) const { return log ? std::log10(value) : value; }
  double share(double value) const { return (unit(value) - low) / (high - low); }  // 0 to 1
};

std::string fixed(double value, int decimals) {
  char text[64];
  const auto end =
      std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, decimals).ptr;
  return std::string(text, end);
}

void linear_ticks(Axis& axis, double low, double high, int wanted) {
  const double rough = (high - low) / wanted;
  const double decade = std::pow(10.0, std::floor(std::log10(rough)));
  const double step = decade * (rough <= 1.001 * decade   ? 1
                                : rough <= 2.001 * decade ? 2
                                : rough <= 5.001 * decade ? 5
                                                          : 10);
  const int decimals = std::max(0, -int(std::floor(std::log10(step * 1.001))));
  const bool plain = decimals <= 4 && std::max(std::abs(low), std::abs(high)) < 1e6;
  for (double i = std::ceil(low / step); i * step <= high; ++i) {
    const double value = i == 0 ? 0 : i * step;  // not -0
    axis.ticks.push_back(value);
    axis.labels.push_back(plain ? fixed(value, decimals) : format_number(value, 6));
    if (axis.ticks.size() > 100) break;  // i + 1 == i at the end of double's precision
  }
}

void log_ticks(Axis& axis, int wanted) {
  const double decades = axis.high - axis.low;
  if (decades < 0.7) {  // too few round numbers in it
    linear_ticks(axis, std::pow(10.0, axis.low), std::pow(10.0, axis.high), wanted);
    return;
  }
  const int stride = std::max(1, int(std::ceil(decades / 8)));
  const int first = int(std::floor(axis.low));
  for (int d = first; d <= std::ceil(axis.high); d += stride) {
    for (const int factor : {1, 2, 5}) {
      if (factor > 1 && decades > 3.5) continue;
      const double value = factor * std::pow(10.0, d), at = std::log10(value);
      if (at < axis.low || at > axis.high) continue;
      axis.ticks.push_back(value);
      axis.labels.push_back(format_number(value, 4));
    }
  }
}

// The axis that shows all `values` it can, with some air at both ends.
Axis fit_axis(const std::vector<double>& values, bool log, double air, int wanted) {
  Axis axis;
  axis.log = log;
  bool any = false;
  for (const double v : values) {
    if (!axis.shows(v)) continue;
    const double u = axis.unit(v);
    axis.low = any ? std::min(axis.low, u) : u;
    axis.high = any ? std::max(axis.high, u) : u;
    any = true;
  }
  const double magnitude = std::max(std::abs(axis.low), std::abs(axis.high));
  const double span = axis.high - axis.low;
  const double pad = span > 1e-9 * magnitude ? air * span : std::max(0.1 * magnitude, 0.5);
  axis.low -= pad;
  axis.high += pad;
  if (log) {
    log_ticks(axis, wanted);
  } else {
    linear_ticks(axis, axis.low, axis.high, wanted);
  }
  return axis;
}

// The rectangle of the curves, and how values become pixels in it.
struct Plot {
  int left = 0, top = 0, right = 0, bottom = 0;
  Axis x, y;
  double px(double value) const { return left + x.share(value) * (right - left); }
  double py(double value) const { return bottom - y.share(value) * (bottom - top); }
};

// The names of the curves in rows above the plot; returns the y below them. Without an image it
// only measures.
int draw_legend(Image* image, const LineChart& chart, int left, int y) {
  constexpr int kSwatch = 36, kBetween = 32;
  int x = left;
  bool any = false;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const std::string name = shorten_text(chart.series[i].name, kNameCharacters);
    if (name.empty()) continue;
    const int width = kSwatch + kLabelGap + text_width(name, kText);
    if (any && x + width > kWidth - kMargin) {
      x = left;
      y += kLine;
    }
    if (image) {
      const double middle = y + kCap / 2.0;
      image->line(x, middle, x + kSwatch, middle, color_of(i), 4);
      image->text(x + kSwatch + kLabelGap, y, name);
    }
    x += width + kBetween;
    any = true;
  }
  return any ? y + kLine : y;
}

std::string hline_text(const LineChart& chart, const HLine& line) {
  const std::string value = format_number(line.y, 4);
  const bool off_scale = chart.log_y && line.y <= 0;
  return shorten_text(line.name, kNameCharacters) + (line.name.empty() ? "" : " ") + value +
         (off_scale ? " (off scale)" : "");
}

void draw_hlines(Image& image, const LineChart& chart, const Plot& plot) {
  struct Label {
    std::string text;
    Rgb color;
    double at;      // y of the line
    double middle;  // y of the label
  };
  std::vector<Label> labels;
  for (std::size_t i = 0; i < chart.hlines.size(); ++i) {
    const HLine& line = chart.hlines[i];
    if (!std::isfinite(line.y)) continue;
    const Rgb color = color_of(chart.series.size() + i);
    const double y = plot.y.shows(line.y) ? plot.py(line.y) : plot.bottom;
    labels.push_back({hline_text(chart, line), color, y, y});
    if (!plot.y.shows(line.y)) continue;
    constexpr int kDash = 14, kPeriod = 22;
    for (int x = plot.left; x < plot.right; x += kPeriod) {
      image.line(x, y, std::min(x + kDash, plot.right), y, color, 2);
    }
  }
  // Labels that would overlap move apart: down from the top, then up from the bottom.
  std::sort(labels.begin(), labels.end(), [](auto& a, auto& b) { return a.at < b.at; });
  for (std::size_t i = 1; i < labels.size(); ++i) {
    labels[i].middle = std::max(labels[i].middle, labels[i - 1].middle + kLine);
  }
  double lowest = plot.bottom;
  for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
    label->middle = std::min(label->middle, lowest);
    lowest = label->middle - kLine;
    constexpr int kLeader = 16;
    image.line(plot.right + 2, label->at, plot.right + kLeader, label->middle, label->color, 2);
    image.text(plot.right + kLeader + kLabelGap, int(std::lround(label->middle)) - kCap / 2,
               label->text);
  }
}

void draw_axes(Image& image, const Plot& plot) {
  for (std::size_t i = 0; i < plot.x.ticks.size(); ++i) {
    const int x = int(std::lround(plot.px(plot.x.ticks[i])));
    image.rect(x, plot.top, 1, plot.bottom - plot.top, kGridLine);
    image.rect(x, plot.bottom, 1, kTick, kInk);
    image.text(x, plot.bottom + kTick + kLabelGap, plot.x.labels[i], {.align = Align::kCenter});
  }
  for (std::size_t i = 0; i < plot.y.ticks.size(); ++i) {
    const int y = int(std::lround(plot.py(plot.y.ticks[i])));
    image.rect(plot.left, y, plot.right - plot.left, 1, kGridLine);
    image.rect(plot.left - kTick, y, kTick, 1, kInk);
    image.text(plot.left - kTick - kLabelGap, y - kCap / 2, plot.y.labels[i],
               {.align = Align::kRight});
  }
  image.rect(plot.left, plot.top, 1, plot.bottom - plot.top + 1, kInk);
  image.rect(plot.left, plot.bottom, plot.right - plot.left, 1, kInk);
}

void draw_series(Image& image, const Series& series, Rgb color, const Plot& plot) {
  constexpr double kThickness = 2.5, kDot = 8;
  const auto shows = [&](std::size_t i) {
    return i < series.x.size() && plot.x.shows(series.x[i]) && plot.y.shows(series.y[i]);
  };
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (!shows(i)) continue;
    const double x = plot.px(series.x[i]), y = plot.py(series.y[i]);
    if (shows(i + 1)) {
      image.line(x, y, plot.px(series.x[i + 1]), plot.py(series.y[i + 1]), color, kThickness);
    } else if (i == 0 || !shows(i - 1)) {
      image.line(x, y, x, y, color, kDot);  // a point with no neighbor
    }
  }
}

}  // namespace

Image draw_chart(const LineChart& chart) {
  std::vector<double> xs, ys;
  for (const Series& s : chart.series) {
    autograd::check(s.x.size() == s.y.size(), "chart", "series ", s.name, " has ", s.x.size(),
                    " x and ", s.y.size(), " y");
    for (std::size_t i = 0; i < s.x.size(); ++i) {
      if (!std::isfinite(s.x[i]) || !std::isfinite(s.y[i])) continue;
      if (chart.log_y && s.y[i] <= 0) continue;
      xs.push_back(s.x[i]);
      ys.push_back(s.y[i]);
    }
  }
  const bool empty = xs.empty();
  int right = kMargin + kCap;  // half of the last x label may stand out
  for (const HLine& line : chart.hlines) {
    if (!std::isfinite(line.y)) continue;
    ys.push_back(line.y);
    right = std::max(right, 24 + text_width(hline_text(chart, line), kText) + kMargin);
  }

  Plot plot;
  plot.x = fit_axis(xs, false, 0.02, 8);
  plot.y = fit_axis(ys, chart.log_y, 0.05, 7);
  int numbers = 0;
  for (const std::string& label : plot.y.labels) {
    numbers = std::max(numbers, text_width(label, kText));
  }
  plot.left = kMargin + (chart.y_name.empty() ? 0 : kLine) + numbers + kLabelGap + kTick;
  plot.right = kWidth - right;
  const auto title = wrap_text(visible_text(chart.title), kWidth - 2 * kMargin, kTitle);
  const int below_title = kMargin + int(title.size()) * kLineHeight * kTitle;
  plot.top = draw_legend(nullptr, chart, plot.left, below_title) + kLabelGap;
  plot.bottom = kHeight - kMargin - (chart.x_name.empty() ? 0 : kLine) - kTextHeight * kText -
                kLabelGap - kTick;

  Image image(kWidth, kHeight);
  int y = kMargin;
  for (const std::string& line : title) {
    image.text(kWidth / 2, y, line, {.scale = kTitle, .align = Align::kCenter});
    y += kLineHeight * kTitle;
  }
  draw_legend(&image, chart, plot.left, below_title);
  draw_axes(image, plot);
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    draw_series(image, chart.series[i], color_of(i), plot);
  }
  draw_hlines(image, chart, plot);  // above the curves: a noisy one would hide them
  const int middle = (plot.left + plot.right) / 2;
  if (empty) {
    image.text(middle, (plot.top + plot.bottom) / 2, "no data", {.align = Align::kCenter});
  }
  image.text(middle, kHeight - kMargin - kTextHeight * kText, chart.x_name,
             {.align = Align::kCenter});
  image.text(kMargin, (plot.top + plot.bottom) / 2, chart.y_name,
             {.align = Align::kCenter, .upward = true});
  return image;
}

}  // namespace heed::plot
