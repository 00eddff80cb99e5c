// `heed gradcheck --curve`: the error of central differences against the step size.
#include <algorithm>
#include <cmath>

#include "autograd/check/curve.h"
#include "tools/heed/gradcheck/gradcheck.h"
#include "tools/heed/pictures.h"
#include "tools/heed/report/output.h"
#include "tools/plot/plot.h"

namespace heed {

using autograd::StepError;

namespace {

// The errors of one op for all step sizes.
struct Curve {
  std::string name, sample;
  std::vector<StepError> steps;
};

Curve curve_of(const autograd::Check& check, std::uint64_t seed) {
  const autograd::Samples samples = check.samples();
  if (samples.empty())
    usage_error("gradcheck --curve: {} has no samples; give another op", check.name());
  return {std::string(check.name()), samples[0].name,
          step_errors(samples[0].f, samples[0].inputs, seed)};
}

// Returns the step with the smallest error. NaN counts as the largest error.
const StepError& best_step(const Curve& curve, double StepError::*error) {
  return *std::ranges::min_element(curve.steps, [error](const StepError& a, const StepError& b) {
    return a.*error < b.*error || (std::isnan(b.*error) && !std::isnan(a.*error));
  });
}

plot::Series series_of(const Curve& curve, const std::string& name, double StepError::*error) {
  plot::Series series{name, {}, {}};
  for (const StepError& s : curve.steps) {
    series.x.push_back(s.step);
    series.y.push_back(s.*error);
  }
  return series;
}

void draw_curves(const std::string& file, const std::vector<Curve>& curves) {
  plot::LineChart chart{.x_name = "step h: largest change of an input, relative to the input",
                        .y_name = "error of the derivative, relative to its terms",
                        .log_y = true,
                        .log_x = true};
  for (const Curve& c : curves)
    chart.series.push_back(series_of(c, c.name, &StepError::two_points));
  if (curves.size() == 1) {
    chart.series[0].name = "two points: O(h²)";
    chart.series.push_back(series_of(curves[0], "six points: O(h⁶)", &StepError::six_points));
  }
  chart.title =
      curves.size() == 1
          ? fmt::format("Differences of {}: smaller steps, less truncation, more rounding (1/h)",
                        curves[0].name)
          : "Central differences: smaller steps, less truncation (h²), more rounding (1/h)";
  write_picture(file, {"", plot::stack_of(chart)}, {});
}

void add_curves(Report& report, const std::vector<Curve>& curves) {
  std::vector<Column> columns = {{"", "step", "", "{:.1e}"}};
  for (const Curve& c : curves) columns.push_back({"", c.name, "", "{:.1e}"});
  if (curves.size() == 1) columns.push_back({"", "six points", "", "{:.1e}"});
  Table& table = report.text_table(Table(columns));
  for (std::size_t i = 0; i < curves[0].steps.size(); ++i) {
    std::vector<Value> row = {curves[0].steps[i].step};
    for (const Curve& c : curves) row.push_back(c.steps[i].two_points);
    if (curves.size() == 1) row.push_back(curves[0].steps[i].six_points);
    table.add(row);
  }
  for (const Curve& c : curves) {
    const StepError &two = best_step(c, &StepError::two_points),
                    &more = best_step(c, &StepError::six_points);
    report.line(
        "{}, sample '{}': smallest error {:.1e} at step {:.1e}; with six points {:.1e} at {:.1e}",
        c.name, c.sample, two.two_points, two.step, more.six_points, more.step);
  }
}

}  // namespace

Report report_curves(const GradcheckRequest& request) {
  if (!request.curve.ends_with(".png"))
    usage_error("--curve writes a PNG and needs a FILE.png, got '{}'", request.curve);
  constexpr std::size_t kMost = 8;  // number of colors
  const auto checks = chosen_checks(request.ops);
  if (request.ops.empty() || checks.size() > kMost)
    usage_error(
        "gradcheck --curve draws 1 to {0} ops, got {1}; give up to {0} names, as in heed gradcheck "
        "softmax --curve {2}",
        kMost, request.ops.empty() ? "none" : std::to_string(checks.size()), request.curve);
  std::vector<Curve> curves;
  curves.reserve(checks.size());
  for (const autograd::Check* check : checks)
    curves.push_back(curve_of(*check, std::uint64_t(request.seed)));
  draw_curves(request.curve, curves);
  Report report(kCurveKeys);
  add_curves(report, curves);
  Table& list = report.table("curves");
  for (const Curve& c : curves) {
    Table steps(kStepColumns);
    for (const StepError& s : c.steps) steps.add({s.step, s.two_points, s.six_points});
    list.add({c.name, c.sample, list_of(steps)});
  }
  report.set("seed", request.seed);
  report.set("file", request.curve);
  report.line("{}", request.curve);
  return report;
}

}  // namespace heed
