// The pictures of the command `heed compare`.
#include <algorithm>
#include <cmath>

#include "autograd/base/text.h"
#include "tools/heed/compare/compare_report.h"
#include "tools/heed/pictures.h"
#include "tools/plot/plot.h"

namespace heed {
namespace {

using nn::MeanError;

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

std::filesystem::path draw(const std::filesystem::path& file, const plot::LineChart& chart) {
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
  const std::string what = ComparedQuantity{c.of.series_name()}.words();
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
  chart.log_y = spans_decades(means);
  return chart;
}

std::filesystem::path draw_comparison(ResultFolder& folder, const RunComparison& c,
                                      const std::string& suffix) {
  return draw(folder.file("curves" + suffix + ".png"), curves_chart(c));
}

}  // namespace heed
