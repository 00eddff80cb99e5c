#include "tools/heed/compare/compare_pictures.h"

#include <algorithm>
#include <cmath>

#include "autograd/base/text.h"
#include "tools/heed/pictures.h"
#include "tools/heed/report/output.h"
#include "tools/plot/plot.h"

namespace heed {
namespace {

void add_mean(plot::Series& series, double x, const nn::MeanError& m) {
  const double error = m.n > 1 ? m.error : 0;
  series.x.push_back(x);
  series.y.push_back(m.mean);
  series.low.push_back(m.mean - error);
  series.high.push_back(m.mean + error);
}

// ", mean of 5 seeds", ", mean of 3 to 5 seeds": those that the means are of; "" without any mean.
std::string seeds_text(const std::vector<nn::MeanError>& means) {
  if (means.empty()) return "";
  std::size_t least = means[0].n, most = least;
  for (const nn::MeanError& m : means) least = std::min(least, m.n), most = std::max(most, m.n);
  if (most <= 1) return most == 1 ? ", 1 seed" : ", no seed";
  const std::string some = least < most ? fmt::format("{} to ", least) : "";
  return fmt::format(", mean of {}{} seeds and its standard error", some, most);
}

// The mean over those runs alone that reach the target would make a setting look fast.
bool all_reached(const ComparedGroup& g) { return g.steps_to_target.n == g.runs.size(); }

// "; not drawn, since not all seeds reached it: kv-heads=1 (0 of 5), kv-heads=2 (3 of 5)"
std::string not_drawn_text(const RunComparison& c) {
  constexpr std::size_t kNamed = 4;
  std::string text;
  std::size_t count = 0;
  for (const ComparedGroup& g : c.settings) {
    if (all_reached(g) || ++count > kNamed) continue;
    text += fmt::format("{}{} ({} of {})", count > 1 ? ", " : "", g.group->name(),
                        g.steps_to_target.n, g.runs.size());
  }
  if (count > kNamed) text += fmt::format(" and {} more", count - kNamed);
  return count == 0 ? "" : "; not drawn, since not all seeds reached it: " + text;
}

// Of the series with this index.
struct ChartPoint {
  std::size_t series;
  double x;
  nn::MeanError mean;
};

std::string task_of(const RunComparison& c) { return c.groups[0].runs[0]->config.task; }

// A setting without one option.
std::string name_without(const RunGroup& group, const std::string& option) {
  RunGroup rest = group;
  std::erase_if(rest.values, [&](const OptionValue& value) { return value.first == option; });
  return rest.values.empty() ? "" : rest.name();
}

std::vector<std::string> values_of_option(const RunComparison& c, const std::string& option) {
  std::vector<std::string> values;
  for (const RunGroup& group : c.groups)
    if (const std::string value = group.value(option);
        std::find(values.begin(), values.end(), value) == values.end())
      values.push_back(value);
  return values;
}

bool all_numbers(const std::vector<std::string>& values) {
  return std::all_of(values.begin(), values.end(), [](const std::string& value) {
    const auto number = heed::parse_number<double>(value);
    return number && std::isfinite(*number);
  });
}

std::filesystem::path draw(const std::filesystem::path& file, const plot::LineChart& chart) {
  std::string alt = chart.title + ".";
  for (const plot::Series& s : chart.series)
    if (!s.y.empty() && std::isfinite(s.y.back()))
      alt += fmt::format(" {}: {:.4g} at {:g}.", s.name.empty() ? "The last" : s.name, s.y.back(),
                         s.x.back());
  plot::write_png(file.string(), plot::draw_chart(chart), alt, png_facts({}));
  return file;
}

}  // namespace

plot::LineChart curves_chart(const RunComparison& c) {
  const std::size_t shown = std::min(c.settings.size(), kMostCurves);
  const std::string some = shown < c.settings.size() ? fmt::format(", the first {} of {} settings",
                                                                   shown, c.settings.size())
                                                     : "";
  std::vector<nn::MeanError> finals;
  for (const ComparedGroup& g : c.settings) finals.push_back(g.final);
  plot::LineChart chart{.title = fmt::format("{} while training: task {}{}{}", c.of.words(),
                                             task_of(c), seeds_text(finals), some),
                        .x_name = "training step",
                        .y_name = c.of.words()};
  chart.title[0] = char(std::toupper(static_cast<unsigned char>(chart.title[0])));
  std::vector<double> means;
  for (std::size_t i = 0; i < shown; ++i) {
    const ComparedGroup& g = c.settings[i];
    plot::Series series{.name = g.group->name()};
    for (std::size_t k = 0; k < g.curve.steps.size(); ++k)
      add_mean(series, g.curve.steps[k], g.curve.values[k]);
    means.insert(means.end(), series.y.begin(), series.y.end());
    chart.series.push_back(std::move(series));
  }
  if (c.target) chart.hlines.push_back({"target", *c.target});
  chart.log_y = spans_decades(means);
  return chart;
}

plot::LineChart against_chart(const RunComparison& c, const std::string& option,
                              nn::MeanError ComparedGroup::*number) {
  const bool steps = number == &ComparedGroup::steps_to_target;
  const std::string what =
      steps       ? fmt::format("Steps until {} is {} {}", c.of.name,
                          c.of.rises() ? "at least" : "at most", c.target.value_or(NAN))
      : c.of.head ? fmt::format("Largest {} of any head, at the end", c.of.name)
                  : "Final " + c.of.words();
  std::vector<nn::MeanError> drawn;
  for (const ComparedGroup& g : c.settings)
    if (!steps || all_reached(g)) drawn.push_back(g.*number);
  plot::LineChart chart{
      .title = fmt::format("{}{} against {}: task {}{}{}", what, c.of.head && !steps ? "," : "",
                           option, task_of(c), seeds_text(drawn), steps ? not_drawn_text(c) : ""),
      .x_name = option,
      .y_name = what};
  const std::vector<std::string> values = values_of_option(c, option);
  const bool numbers = all_numbers(values);
  if (!numbers) chart.x_labels = values;
  std::vector<ChartPoint> points;
  for (const ComparedGroup& g : c.settings) {
    const std::string value = g.group->value(option), name = name_without(*g.group, option);
    auto series = std::find_if(chart.series.begin(), chart.series.end(),
                               [&](const plot::Series& s) { return s.name == name; });
    if (series == chart.series.end())
      series = chart.series.insert(series, {.name = name, .points = !numbers});
    const auto place = std::find(values.begin(), values.end(), value) - values.begin();
    const double x = numbers ? *heed::parse_number<double>(value) : double(place);
    points.push_back({std::size_t(series - chart.series.begin()), x,
                      steps && !all_reached(g) ? nn::MeanError() : g.*number});
  }
  // A line goes from left to right, whatever the order of the groups.
  std::stable_sort(points.begin(), points.end(),
                   [](const ChartPoint& a, const ChartPoint& b) { return a.x < b.x; });
  for (const ChartPoint& p : points) add_mean(chart.series[p.series], p.x, p.mean);
  for (std::size_t i = 0; i < chart.series.size() && !numbers; ++i)  // beside each other
    for (double& x : chart.series[i].x)
      x += 0.5 * (double(i + 1) / double(chart.series.size() + 1) - 0.5);
  chart.log_x = numbers && points.front().x > 0 && points.back().x >= 8 * points.front().x;
  return chart;
}

std::vector<std::filesystem::path> draw_comparison(const std::filesystem::path& folder,
                                                   const RunComparison& c,
                                                   const std::string& against) {
  std::vector<std::filesystem::path> files = {draw(folder / "curves.png", curves_chart(c))};
  if (against.empty()) return files;
  files.push_back(draw(folder / "against.png", against_chart(c, against, &ComparedGroup::final)));
  if (c.target)
    files.push_back(
        draw(folder / "steps.png", against_chart(c, against, &ComparedGroup::steps_to_target)));
  return files;
}

}  // namespace heed
