// Tests of the chart over_time.png (its panels and lines) and of the table over_time.csv.
#include "tests/support/catch.h"
#include "tools/heed/study/over_time.h"

namespace {

using namespace heed;

// Returns a study over three steps of a model with two layers of six heads. At step s, head h of
// layer l has the induction score (l + h) / 10 + s.
nn::OverTime six_heads() {
  nn::OverTime study;
  study.sequences = 2, study.optimal = 0.5;
  for (const std::int64_t step : {0, 10, 20}) {
    nn::CheckpointStudy m;
    m.step = step, m.loss = 3 - double(step) / 10, m.counted_loss = step == 20 ? 0.1 : 3;
    for (std::int64_t layer = 0; layer < 2; ++layer) {
      for (std::int64_t head = 0; head < 6; ++head) {
        nn::HeadReport h{};
        h.layer = layer, h.head = head;
        h.values.fill(0);
        h[nn::kInduction] = double(layer + head) / 10 + double(step);
        h[nn::kNeeded] = -double(step);
        m.heads.push_back(h);
      }
      m.flow.push_back({layer, 1, 2 + double(layer)});
    }
    study.checkpoints.push_back(m);
  }
  return study;
}

nn::TaskInfo info() {
  nn::TaskInfo f;
  f.name = "toy", f.accuracy = "all right";
  return f;
}

const plot::LineChart* panel(const plot::ChartStack& stack, const std::string& begins) {
  const auto found =
      std::find_if(stack.panels.begin(), stack.panels.end(),
                   [&](const plot::LineChart& p) { return p.title.starts_with(begins); });
  return found == stack.panels.end() ? nullptr : &*found;
}

TEST_CASE("over_time.png has a line for each head, and marks the steepest fall") {
  const plot::ChartStack stack = over_time_chart(six_heads(), info(), "log odds", "2 sequences");
  CHECK(stack.panels.size() == 11);
  CHECK(stack.title == "Heads during training: toy");
  CHECK(stack.caption.find("all right") != std::string::npos);
  CHECK(stack.colors == std::vector<std::string>{"layer 0", "layer 1"});
  CHECK(stack.dashes == std::vector<std::string>{"head 0, 4", "head 1, 5", "head 2", "head 3"});
  const plot::LineChart* induction = panel(stack, "induction score");
  REQUIRE(induction);
  REQUIRE(induction->series.size() == 12);
  CHECK(induction->series[11].color == 1);
  CHECK(induction->series[11].dash == 1);
  CHECK(induction->series[11].x == std::vector<double>{0, 10, 20});
  CHECK(induction->series[11].y == std::vector<double>{0.6, 10.6, 20.6});
  CHECK(panel(stack, "loss")->series[0].y == std::vector<double>{3, 2, 1});
  CHECK(panel(stack, "dL/dg")->title ==
        "dL/dg, a slope: positive where a slightly larger output of the head would raise L");
  CHECK(panel(stack, "loss")->series[1].y == std::vector<double>{3, 3, 0.1});
  CHECK(panel(stack, "loss")->hlines.at(0).y == 0.5);
  CHECK(panel(stack, "gradient flow")->series.at(1).y == std::vector<double>{3, 3, 3});
  REQUIRE(stack.vline);
  CHECK(stack.vline->x == 15);  // the counted loss falls between steps 10 and 20
  CHECK(plot::draw_chart_stack(stack).width() == 1000);
}

TEST_CASE("over_time.png leaves out a panel without values, and draws a single head") {
  nn::OverTime study = six_heads();
  study.optimal = NAN;
  for (nn::CheckpointStudy& m : study.checkpoints) {
    m.heads.resize(1);
    m.flow.resize(1);
    m.heads[0][nn::kInduction] = NAN;
    m.loss = 1, m.counted_loss = NAN;
  }
  const plot::ChartStack stack = over_time_chart(study, info(), "log odds", "2 sequences");
  CHECK_FALSE(panel(stack, "induction score"));
  CHECK(stack.panels.size() == 10);  // 2 of them: L, and needed
  CHECK(panel(stack, "loss")->hlines.empty());
  CHECK_FALSE(stack.vline);
  CHECK(plot::draw_chart_stack(stack).width() == 1000);
}

TEST_CASE("over_time.csv has a row for each number, with an empty value for NaN") {
  nn::OverTime study;
  study.checkpoints = {{0, -3, 4, 1.5, {{}}, {{1, 0.125, 0.5}}}};
  nn::HeadReport& head = study.checkpoints[0].heads[0];
  head.layer = 1, head[nn::kInduction] = 0.5, head[nn::kNeeded] = -0.5;
  const std::string csv = to_csv(over_time_table(study));
  CHECK(csv.starts_with(
      "step,layer,head,quantity,value\n0,,,value,-3.0\n0,,,loss,4.0\n0,,,counted_loss,1.5\n"
      "0,,,optimal_loss,\n0,1,,resid_pre_grad,0.125\n"
      "0,1,,resid_post_grad,0.5\n"));
  CHECK(csv.find("\n0,1,0,induction,0.5\n") != std::string::npos);
  CHECK(csv.find("\n0,1,0,needed,-0.5\n0,1,0,predicted,\n") != std::string::npos);
  CHECK(csv.find("suffices") == std::string::npos);  // it is not measured over time
}

}  // namespace
