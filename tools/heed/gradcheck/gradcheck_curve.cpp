// heed gradcheck --curve: the error of central differences against their step.
#include <algorithm>
#include <cmath>

#include "autograd/check/curve.h"
#include "tools/heed/gradcheck/gradcheck_report.h"
#include "tools/heed/pictures.h"
#include "tools/heed/report/output.h"
#include "tools/plot/plot.h"

namespace heed {

using autograd::StepError;

namespace {

// One op and its curve.
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

// The step of the smallest error.
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
  plot::LineChart chart{.x_name = "step h: every input moves by at most this part of itself",
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
          ? fmt::format("Differences of {}: a smaller step truncates less, rounds more (1/h)",
                        curves[0].name)
          : "Central differences: a smaller step truncates less (h²), rounds more (1/h)";
  plot::write_png(file, plot::draw_chart(chart), chart.title, png_facts({}));
}

void print_curves(const std::vector<Curve>& curves) {
  const bool alone = curves.size() == 1;
  const auto column = [](const std::string& name) { return std::max<int>(10, int(name.size())); };
  print("{:<9}", "step");
  for (const Curve& c : curves) print("  {:>{}}", c.name, column(c.name));
  print("{}\n", alone ? "    six points" : "");
  for (std::size_t i = 0; i < curves[0].steps.size(); ++i) {
    print("{:<9.1e}", curves[0].steps[i].step);
    for (const Curve& c : curves) print("  {:>{}.1e}", c.steps[i].two_points, column(c.name));
    if (alone) print("  {:>12.1e}", curves[0].steps[i].six_points);
    print("\n");
  }
  print("\n");
  for (const Curve& c : curves) {
    const StepError &two = best_step(c, &StepError::two_points),
                    &more = best_step(c, &StepError::six_points);
    print("{}, sample '{}': smallest error {:.1e} at step {:.1e}; of six points {:.1e} at {:.1e}\n",
          c.name, c.sample, two.two_points, two.step, more.six_points, more.step);
  }
}

}  // namespace

int report_curves(const GradcheckRequest& request) {
  constexpr std::size_t kMost = 8;  // colors
  const auto checks = chosen_checks(request.ops);
  if (request.ops.empty() || checks.size() > kMost)
    usage_error("gradcheck --curve draws 1 to {} ops, got {}: heed gradcheck softmax --curve {}",
                kMost, request.ops.empty() ? "none" : std::to_string(checks.size()), request.curve);
  std::vector<Curve> curves;
  curves.reserve(checks.size());
  for (const autograd::Check* check : checks)
    curves.push_back(curve_of(*check, std::uint64_t(request.seed)));
  draw_curves(request.curve, curves);
  if (!request.json) {
    print_curves(curves);
    print("{}\n", request.curve);
    return kOk;
  }
  nn::Json list = nn::Json::array();
  for (const Curve& c : curves) {
    nn::Json steps = nn::Json::array();
    for (const StepError& s : c.steps)
      steps.push_back(nn::Json::object(
          {{"step", s.step}, {"error", s.two_points}, {"error_of_six_points", s.six_points}}));
    list.push_back(nn::Json::object({{"name", c.name}, {"sample", c.sample}, {"steps", steps}}));
  }
  print_json(nn::Json::object({{"curves", list}, {"seed", request.seed}, {"file", request.curve}}));
  return kOk;
}

}  // namespace heed
