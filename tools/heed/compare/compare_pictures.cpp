// The pictures of the command `heed compare`.
#include <algorithm>
#include <cmath>

#include "autograd/base/text.h"
#include "tools/heed/compare/compare_report.h"
#include "tools/heed/pictures.h"
#include "tools/plot/plot.h"

namespace heed {
namespace {

using nn::ComparedRun;
using nn::MeanError;
using nn::RunGroup;

void add_mean(plot::Series& series, double x, const MeanError& m) {
  const double error = m.n > 1 ? m.error : 0;
  series.x.push_back(x);
  series.y.push_back(m.mean);
  series.low.push_back(m.mean - error);
  series.high.push_back(m.mean + error);
}

// Returns a text with the number of runs in each mean: ", mean of 5 seeds and its standard error",
// or ", mean of 3 to 5 seeds and its standard error" if this number is not the same for all means.
// If no mean has two runs: ", 1 seed" or ", no seed". Returns "" if `means` is empty.
std::string seeds_text(const std::vector<MeanError>& means) {
  if (means.empty()) return "";
  const auto [least, most] = std::minmax_element(
      means.begin(), means.end(), [](const auto& a, const auto& b) { return a.n < b.n; });
  if (most->n <= 1) return most->n == 1 ? ", 1 seed" : ", no seed";
  const std::string some = least->n < most->n ? fmt::format("{} to ", least->n) : "";
  return fmt::format(", mean of {}{} seeds and its standard error", some, most->n);
}

// Returns whether all runs of the group reach the target. If they do not, the mean number of steps
// to the target is not drawn, because a mean over only the runs that reach the target is too low.
bool all_reached(const RunGroup& g) {
  return g.mean(&ComparedRun::steps_to_target).n == g.runs.size();
}

// Returns the index of `text` in the list. Appends it if it is missing.
std::size_t index_in(std::vector<std::string>& list, const std::string& text) {
  const auto found = std::find(list.begin(), list.end(), text);
  const auto index = std::size_t(found - list.begin());
  if (found == list.end()) list.push_back(text);
  return index;
}

std::filesystem::path draw(const autograd::PathAt& file, const plot::LineChart& chart) {
  std::string alt;
  for (const plot::Series& s : chart.series)
    if (!s.y.empty() && std::isfinite(s.y.back()))
      alt += fmt::format("{}{}: {:.4g} at {:g}.", alt.empty() ? "" : " ",
                         s.name.empty() ? "The last" : s.name, s.y.back(), s.x.back());
  return write_picture(file, {"", plot::stack_of(chart), alt}, {})[0];
}

}  // namespace

plot::LineChart curves_chart(const RunComparison& c) {
  const std::size_t shown = std::min(c.groups.size(), kMostCurves);
  const std::string some =
      shown < c.groups.size() ? fmt::format(", the first {} of {} settings", shown, c.groups.size())
                              : "";
  std::vector<MeanError> finals;
  for (const RunGroup& g : c.groups) finals.push_back(g.mean(&ComparedRun::final));
  const std::string what = nn::ComparedQuantity(c.of.series_name()).words();
  plot::LineChart chart{.title = fmt::format("During training: {}, task {}{}{}", what, c.task(),
                                             seeds_text(finals), some),
                        .x_name = "training step",
                        .y_name = what};
  std::vector<double> means;
  for (std::size_t i = 0; i < shown; ++i) {
    const RunGroup& g = c.groups[i];
    plot::Series& series = chart.series.emplace_back(plot::Series{.name = g.name});
    for (const auto& [step, mean] : g.curve) add_mean(series, double(step), mean);
    means.insert(means.end(), series.y.begin(), series.y.end());
  }
  if (c.target) chart.hlines.push_back({"target", *c.target});
  chart.log_y = spans_decades(means);
  return chart;
}

plot::LineChart against_chart(const RunComparison& c, const std::string& option,
                              double ComparedRun::*number) {
  const bool steps = number == &ComparedRun::steps_to_target;
  const std::string what =
      steps       ? fmt::format("Steps until {} is {} {}", c.of.series_name(),
                          c.of.rises(c.target.value_or(0)) ? "at least" : "at most",
                                c.target.value_or(NAN))
      : c.of.head ? fmt::format("Largest {} of any head, at the end", c.of.name)
                  : "Final " + c.of.words();
  std::vector<MeanError> drawn;
  std::string not_drawn;
  std::vector<std::string> values;  // distinct values of the option
  for (const RunGroup& g : c.groups) {
    if (!steps || all_reached(g)) drawn.push_back(g.mean(number));
    index_in(values, g.value(option));
  }
  if (const std::size_t count = c.groups.size() - drawn.size(); count > 0)
    not_drawn = fmt::format("; {} {} not drawn, since not all seeds reached it",
                            counted(std::int64_t(count), "setting"), count == 1 ? "is" : "are");
  const auto number_of = [](const std::string& value) {
    return heed::parse_number<double>(value).value_or(NAN);
  };
  const bool numbers = std::all_of(values.begin(), values.end(), [&](const std::string& value) {
    return std::isfinite(number_of(value));
  });
  plot::LineChart chart{
      .title = fmt::format("{}{} against {}: task {}{}{}", what, c.of.head && !steps ? "," : "",
                           option, c.task(), seeds_text(drawn), not_drawn),
      .x_name = option,
      .y_name = what};
  if (!numbers) chart.x_labels = values;
  struct Point {
    double x;
    std::size_t series;
    MeanError mean;
  };
  std::vector<Point> points;
  std::vector<std::string> names;  // names of the series
  for (const RunGroup& g : c.groups) {
    const std::string value = g.value(option);
    points.push_back({numbers ? number_of(value) : double(index_in(values, value)),
                      index_in(names, g.name_without(option)),
                      steps && !all_reached(g) ? MeanError() : g.mean(number)});
  }
  // The points of a curve must be ordered by x. The groups may be in any order.
  std::stable_sort(points.begin(), points.end(),
                   [](const Point& a, const Point& b) { return a.x < b.x; });
  for (const std::string& name : names) chart.series.push_back({.name = name, .points = !numbers});
  for (const Point& p : points) {
    // Points of several series at the same value are drawn side by side.
    const double offset = double(p.series + 1) / double(names.size() + 1);
    add_mean(chart.series[p.series], numbers ? p.x : p.x + 0.5 * (offset - 0.5), p.mean);
  }
  chart.log_x = numbers && points.front().x > 0 && points.back().x >= 8 * points.front().x;
  return chart;
}

std::vector<std::filesystem::path> draw_comparison(nn::ResultFolder& folder, const RunComparison& c,
                                                   const std::string& against,
                                                   const std::string& suffix) {
  const auto file = [&](const char* name) { return folder.file(name + suffix + ".png"); };
  std::vector<std::filesystem::path> files = {draw(file("curves"), curves_chart(c))};
  if (against.empty()) return files;
  files.push_back(draw(file("against"), against_chart(c, against, &ComparedRun::final)));
  if (c.target)
    files.push_back(draw(file("steps"), against_chart(c, against, &ComparedRun::steps_to_target)));
  return files;
}

}  // namespace heed
