#include "tools/plot/curves.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "autograd/base/error.h"
#include "tools/plot/axis.h"
#include "tools/plot/tick_labels.h"

namespace heed::plot {
namespace {

constexpr int kWidth = 1000, kHeight = 640, kMargin = 24;
constexpr double kText = 16.5, kTitle = 22;  // sizes
constexpr int kTick = 5, kLabelGap = 8, kLeader = 16, kLongestName = 280;
constexpr double kDashLength = 14, kDashPeriod = 22;  // of dashed lines
constexpr Rgb kGridLine{232, 232, 232};
constexpr TextStyle kCentered{.size = kText, .align = Align::kCenter};
const int kCap = cap_height(kText), kLine = line_height(kText);
const int kXName = kHeight - kMargin - kCap - 4;  // the y of the x axis' name

// M. Okabe, K. Ito (2008), "Color Universal Design"; yellow last, it is faint on white.
constexpr std::array<Rgb, 8> kColors = {{{0, 114, 178},
                                         {213, 94, 0},
                                         {0, 158, 115},
                                         {204, 121, 167},
                                         {230, 159, 0},
                                         {86, 180, 233},
                                         {0, 0, 0},
                                         {240, 228, 66}}};

Rgb series_color(std::size_t i) { return kColors[i % kColors.size()]; }

// The rectangle of the curves, and how values become pixels in it.
struct Plot {
  int left = 0, top = 0, right = 0, bottom = 0;
  Axis x, y;
  double px(double value) const { return left + x.share(value) * (right - left); }
  double py(double value) const { return bottom - y.share(value) * (bottom - top); }
  int width() const { return right - left; }
  int height() const { return bottom - top; }
  int center() const { return (left + right) / 2; }
  int middle() const { return (top + bottom) / 2; }
};

struct Point {
  double x, y;
};

// The dashes of a line from a to b, which begins `done` pixels after that of its first dash;
// returns where it ends, for the line that goes on there.
double draw_dashed(Image& image, Point a, Point b, Rgb color, double thickness, double done) {
  const double length = std::hypot(b.x - a.x, b.y - a.y);
  for (double dash = -std::fmod(done, kDashPeriod); dash < length; dash += kDashPeriod) {
    const double from = std::max(dash, 0.0) / length,
                 to = std::min(dash + kDashLength, length) / length;
    if (!(from < to)) continue;  // the line begins in the gap
    image.line(a.x + from * (b.x - a.x), a.y + from * (b.y - a.y), a.x + to * (b.x - a.x),
               a.y + to * (b.y - a.y), color, thickness);
  }
  return done + length;
}

// The names of the curves in rows above the plot; returns the y below them. Without an image it
// only measures.
int draw_legend(Image* image, const LineChart& chart, int left, int y) {
  constexpr int kSwatch = 36, kBetween = 32;
  int x = left;
  bool any = false;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const std::string name = shorten_text(chart.series[i].name, kLongestName, kText);
    if (name.empty()) continue;
    const int width = kSwatch + kLabelGap + text_width(name, kText);
    if (any && x + width > kWidth - kMargin) {
      x = left;
      y += kLine;
    }
    if (image) {
      const double middle = y + kCap / 2.0;
      const double from = x, to = x + kSwatch;
      if (chart.series[i].dashed)  // two dashes
        draw_dashed(*image, {from, middle}, {to, middle}, series_color(i), 4, 0);
      else
        image->line(from, middle, to, middle, series_color(i), 4);
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
  return shorten_text(line.name, kLongestName, kText) + (line.name.empty() ? "" : " ") + value +
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
    const Rgb color = series_color(chart.series.size() + i);
    const double y = plot.y.shows(line.y) ? plot.py(line.y) : plot.bottom;
    labels.push_back({hline_text(chart, line), color, y, y});
    if (!plot.y.shows(line.y)) continue;
    draw_dashed(image, {double(plot.left), y}, {double(plot.right), y}, color, 2, 0);
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
    image.line(plot.right + 2, label->at, plot.right + kLeader, label->middle, label->color, 2);
    image.text(plot.right + kLeader + kLabelGap, int(std::lround(label->middle)) - kCap / 2,
               label->text, {.size = kText});
  }
}

void draw_axes(Image& image, const LineChart& chart, const Plot& plot) {
  // All numbers along x, or every second, fifth, ..., so that they stand apart.
  const double count = double(std::max<std::size_t>(plot.x.labels.size(), 1));
  const int step = label_step(plot.width() / count, text_width(plot.x.labels, kText) + kCap);
  for (std::size_t i = 0; i < plot.x.ticks.size(); ++i) {
    const int x = int(std::lround(plot.px(plot.x.ticks[i])));
    image.rect(x, plot.top, 1, plot.height(), kGridLine);
    image.rect(x, plot.bottom, 1, kTick, kInk);
    if (int(i) % step != 0) continue;
    image.text(x, plot.bottom + kTick + kLabelGap, plot.x.labels[i], kCentered);
  }
  for (std::size_t i = 0; i < plot.y.ticks.size(); ++i) {
    const int y = int(std::lround(plot.py(plot.y.ticks[i])));
    image.rect(plot.left, y, plot.width(), 1, kGridLine);
    image.rect(plot.left - kTick, y, kTick, 1, kInk);
    image.text(plot.left - kTick - kLabelGap, y - kCap / 2, plot.y.labels[i],
               {.size = kText, .align = Align::kRight});
  }
  image.rect(plot.left, plot.top, 1, plot.height() + 1, kInk);
  image.rect(plot.left, plot.bottom, plot.width(), 1, kInk);
  image.text(plot.center(), kXName, shorten_text(plot.x.title(chart.x_name), plot.width(), kText),
             kCentered);
  image.text(kMargin, plot.middle(), shorten_text(plot.y.title(chart.y_name), plot.height(), kText),
             {.size = kText, .align = Align::kCenter, .upward = true});
}

// Of a value in a band, which may reach beyond what the axis shows.
double band_y(const Plot& plot, double value) {
  if (std::isfinite(value) && !plot.y.shows(value)) return plot.bottom;
  return std::clamp(plot.py(value), double(plot.top), double(plot.bottom));
}

void draw_band(Image& image, const Series& series, Rgb color, const Plot& plot) {
  constexpr double kPale = 0.2;
  for (std::size_t i = 0; i + 1 < series.low.size() && !series.points; ++i)
    if (plot.x.shows(series.x[i]) && plot.x.shows(series.x[i + 1]))
      image.area(plot.px(series.x[i]), band_y(plot, series.low[i]), band_y(plot, series.high[i]),
                 plot.px(series.x[i + 1]), band_y(plot, series.low[i + 1]),
                 band_y(plot, series.high[i + 1]), color, kPale);
}

void draw_points(Image& image, const Series& series, Rgb color, const Plot& plot) {
  constexpr double kDot = 10, kBar = 2, kEnd = 6;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (!plot.x.shows(series.x[i]) || !plot.y.shows(series.y[i])) continue;
    const double x = plot.px(series.x[i]), y = plot.py(series.y[i]);
    image.line(x, y, x, y, color, kDot);
    if (series.low.empty()) continue;
    const double low = band_y(plot, series.low[i]), high = band_y(plot, series.high[i]);
    image.line(x, low, x, high, color, kBar);
    for (const double end : {low, high}) image.line(x - kEnd, end, x + kEnd, end, color, kBar);
  }
}

void draw_series(Image& image, const Series& series, Rgb color, const Plot& plot) {
  if (series.points) return draw_points(image, series, color, plot);
  constexpr double kThickness = 2, kDot = 7;
  constexpr std::size_t kFew = 30;  // points that are each worth a dot
  const auto shows = [&](std::size_t i) {
    return i < series.x.size() && plot.x.shows(series.x[i]) && plot.y.shows(series.y[i]);
  };
  const bool dots = !series.dashed && series.x.size() <= kFew;
  double dashed = 0;  // pixels
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (!shows(i)) continue;
    const Point at{plot.px(series.x[i]), plot.py(series.y[i])};
    const bool next = shows(i + 1), alone = !next && (i == 0 || !shows(i - 1));
    const Point to = next ? Point{plot.px(series.x[i + 1]), plot.py(series.y[i + 1])} : at;
    if (next && series.dashed)
      dashed = draw_dashed(image, at, to, color, kThickness, dashed);
    else if (next)
      image.line(at.x, at.y, to.x, to.y, color, kThickness);
    if (alone || dots) image.line(at.x, at.y, at.x, at.y, color, kDot);
  }
}

// All points that the chart can show.
Series shown_points(const LineChart& chart) {
  Series points;
  Axis x, y;
  x.log = chart.log_x;
  y.log = chart.log_y;
  for (const Series& s : chart.series) {
    heed::check(s.x.size() == s.y.size(), "chart", "series ", s.name, " has ", s.x.size(),
                " x and ", s.y.size(), " y");
    heed::check(s.low.size() == s.high.size() && (s.low.empty() || s.low.size() == s.y.size()),
                "chart", "series ", s.name, " has ", s.y.size(), " y and a band of ", s.low.size(),
                " and ", s.high.size());
    for (std::size_t i = 0; i < s.x.size(); ++i) {
      if (!x.shows(s.x[i]) || !y.shows(s.y[i])) continue;
      points.x.push_back(s.x[i]);
      points.y.push_back(s.y[i]);
      if (s.low.empty()) continue;
      points.y.push_back(s.low[i]);
      points.y.push_back(s.high[i]);
    }
  }
  return points;
}

// Names along x, each in a column of its own.
void label_x(Plot& plot, const std::vector<std::string>& names) {
  const int width = plot.width() / int(names.size()) - kLabelGap;
  plot.x = {
      .log = false, .low = -0.5, .high = double(names.size()) - 0.5, .ticks = {}, .labels = {}};
  for (std::size_t i = 0; i < names.size(); ++i) {
    plot.x.ticks.push_back(double(i));
    plot.x.labels.push_back(shorten_text(names[i], width, kText));
  }
}

Plot lay_out(const LineChart& chart, Series points, int below_title) {
  int right = kMargin + kCap;  // half of the last x label may stand out
  for (const HLine& line : chart.hlines) {
    if (!std::isfinite(line.y)) continue;
    points.y.push_back(line.y);
    right =
        std::max(right, kLeader + kLabelGap + text_width(hline_text(chart, line), kText) + kMargin);
  }
  Plot plot;
  plot.x = fit_axis(points.x, chart.log_x, 0.02, 8);
  plot.y = fit_axis(points.y, chart.log_y, 0.05, 7);
  const int numbers = text_width(plot.y.labels, kText);
  plot.left = kMargin + (chart.y_name.empty() ? 0 : kLine) + numbers + kLabelGap + kTick;
  plot.right = kWidth - right;
  plot.top = draw_legend(nullptr, chart, plot.left, below_title) + kLabelGap;
  plot.bottom = kXName - (chart.x_name.empty() ? 0 : kLine) - kLabelGap - kTick;
  if (!chart.x_labels.empty()) label_x(plot, chart.x_labels);
  return plot;
}

}  // namespace

Image draw_chart(const LineChart& chart) {
  const Series points = shown_points(chart);
  constexpr int kTitleWidth = kWidth - 2 * kMargin;
  const auto title = wrap_text(chart.title, kTitleWidth, kTitle);
  const int below_title = kMargin + int(title.size()) * line_height(kTitle) + 4;
  const Plot plot = lay_out(chart, points, below_title);

  Image image(kWidth, kHeight);
  image.text_lines(kMargin, kMargin, title, kTitleWidth, {.size = kTitle});
  draw_legend(&image, chart, plot.left, below_title);
  draw_axes(image, chart, plot);
  for (std::size_t i = 0; i < chart.series.size(); ++i)  // below every curve
    draw_band(image, chart.series[i], series_color(i), plot);
  for (std::size_t i = 0; i < chart.series.size(); ++i)
    draw_series(image, chart.series[i], series_color(i), plot);
  draw_hlines(image, chart, plot);  // above the curves: a noisy one would hide them
  if (points.x.empty()) image.text(plot.center(), plot.middle(), "no data", kCentered);
  return image;
}

}  // namespace heed::plot
