// Tests of the chart over_time.png (its panels and lines), and of the sentence about induction.
#include "tests/support/catch.h"
#include "tools/heed/study/over_time.h"

namespace {

using namespace heed;

// Returns a study over three steps of a model with two layers of this number of heads. At step s,
// head h of layer l has the induction score (l + h) / 10 + s. `known` is NaN or 1: the factor of
// this score, of the counted loss and of the optimal loss.
nn::OverTime study_of(std::int64_t layers, std::int64_t heads, double known = 1) {
  nn::OverTime study{.sequences = 2, .steps = {0, 10, 20}};
  for (const std::int64_t step : study.steps) {
    const auto add = [&](nn::HeadIndex place, const char* quantity, double value) {
      study.numbers.push_back({step, place, quantity, value});
    };
    add({-1, -1}, "value", -3);
    add({-1, -1}, "loss", std::isnan(known) ? 1 : 3 - double(step) / 10);
    add({-1, -1}, "counted_loss", (step == 20 ? 0.1 : 3) * known);
    add({-1, -1}, "optimal_loss", 0.5 * known);
    for (std::int64_t layer = 0; layer < layers; ++layer)
      add({layer, -1}, "resid_post_grad", 2 + double(layer));
    for (std::int64_t layer = 0; layer < layers; ++layer)
      for (std::int64_t head = 0; head < heads; ++head) {
        add({layer, head}, "induction", (double(layer + head) / 10 + double(step)) * known);
        add({layer, head}, "importance", 0);
        add({layer, head}, "needed", -double(step));
      }
  }
  return study;
}

plot::ChartStack chart_of(const nn::OverTime& study) {
  nn::TaskInfo info;
  info.name = "toy", info.accuracy = "all right";
  return over_time_chart(study, info, "log odds", "2 sequences");
}

const plot::LineChart* panel(const plot::ChartStack& stack, const std::string& begins) {
  const auto found = std::ranges::find_if(
      stack.panels, [&](const plot::LineChart& p) { return p.title.starts_with(begins); });
  return found == stack.panels.end() ? nullptr : &*found;
}

TEST_CASE("over_time.png has a line for each head, and marks the steepest fall") {
  const plot::ChartStack stack = chart_of(study_of(2, 6));
  CHECK(stack.panels.size() == 6);
  CHECK(stack.title == "Heads during training: toy");
  CHECK_THAT(stack.caption, Contains("all right"));
  CHECK(stack.colors == std::vector<std::string>{"layer 0", "layer 1"});
  CHECK(stack.dashes == std::vector<std::string>{"head 0, 4", "head 1, 5", "head 2", "head 3"});
  const plot::LineChart* induction = panel(stack, "induction score");
  REQUIRE(induction);
  REQUIRE(induction->series.size() == 12);
  const plot::Series& last = induction->series[11];
  CHECK((last.color == 1 && last.dash == 1));
  CHECK(last.x == std::vector<double>{0, 10, 20});
  CHECK(last.y == std::vector<double>{0.6, 10.6, 20.6});
  CHECK(panel(stack, "loss")->series[0].y == std::vector<double>{3, 2, 1});
  CHECK(panel(stack, "loss")->series[1].y == std::vector<double>{3, 3, 0.1});
  CHECK(panel(stack, "loss")->hlines.at(0).y == 0.5);
  CHECK(panel(stack, "dL/dg, a slope: positive where a slightly larger output of the head would"));
  const plot::Series& flow = panel(stack, "gradient flow")->series.at(1);
  CHECK((flow.color == 1 && flow.dash == 0));
  CHECK(flow.y == std::vector<double>{3, 3, 3});
  REQUIRE(stack.vline);
  CHECK(stack.vline->x == 15);  // the counted loss falls between steps 10 and 20
  CHECK(plot::draw_chart_stack(stack).width() == 1000);
}

TEST_CASE("over_time.png leaves out a panel without values, and draws a single head") {
  const plot::ChartStack stack = chart_of(study_of(1, 1, NAN));
  CHECK_FALSE(panel(stack, "induction score"));
  CHECK(stack.panels.size() == 5);
  CHECK(panel(stack, "loss")->hlines.empty());
  CHECK_FALSE(stack.vline);
  CHECK(plot::draw_chart_stack(stack).width() == 1000);
}

TEST_CASE("induction forms in the first layer whose score reaches 0.5 after the first step") {
  nn::OverTime study = study_of(2, 4);
  CHECK_THAT(induction_forms(study), Contains("Layer 0: ") && Contains(" 0.5 at step 10."));
  study.numbers.insert(study.numbers.begin(), {0, {0, 1}, "induction", 0.5});
  CHECK_THAT(induction_forms(study), Contains("Layer 1: "));
  CHECK(induction_forms(study_of(2, 4, NAN)).empty());
}

}  // namespace
