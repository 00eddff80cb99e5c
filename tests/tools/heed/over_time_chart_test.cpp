// Tests of the chart over_time.png (its panels and lines), and of the sentence about what forms.
#include "tests/support/catch.h"
#include "tools/heed/study/over_time.h"

namespace {

using namespace heed;

// Returns a study over three steps of a model with two layers of this number of heads, and an MLP
// that counts. At step s, head h of layer l has the effect -(l + h) s. `known` is NaN or 1: the
// factor of the scores, of the counted loss and of the optimal loss.
lab::OverTime study_of(Index heads, double known = 1) {
  lab::OverTime study{.steps = {0, 10, 20},
                      .value = {-3, -3, -1},
                      .accuracy = {0, 0, 1},
                      .loss = {3, 2, 1},
                      .counted_loss = {3 * known, 3 * known, 0.1 * known},
                      .optimal_loss = 0.5 * known,
                      .resid = {{1, 2, 3}, {2, 2, 2}, {3, 3, 3}}};
  for (Index i = 0; i <= 2 * heads; ++i) {
    const double size = double(i / heads + i % heads), none = NAN;
    lab::ComponentCurves c{.name = "c",
                           .counts = i > 0,
                           .effect = {0, -10 * size, -20 * size},
                           .accuracy = {1, 1, 0.5},
                           .path = {0, 0, 0},
                           .gradient = {0, 0, 0},
                           .score = {0.1 * known, 0.2 * known, 0.3 * known},
                           .values = {0, 0, 0},
                           .scores = {0, 0, 0},
                           .passes = {0, 0, 0}};
    if (i < 2 * heads)
      c.head = {i / heads, i % heads}, c.name = nn::head_name(*c.head);
    else
      c.name = "L1MLP", c.score = c.values = c.scores = c.passes = {none, none, none};
    study.components.push_back(std::move(c));
  }
  return study;
}

plot::ChartStack chart_of(const lab::OverTime& study) {
  lab::TaskInfo info;
  info.name = "toy", info.accuracy = "all right";
  return over_time_chart(study, info, "log p", "32 sequences");
}

const plot::LineChart* panel(const plot::ChartStack& stack, const std::string& begins) {
  const auto found = std::ranges::find_if(
      stack.panels, [&](const plot::LineChart& p) { return p.title.starts_with(begins); });
  return found == stack.panels.end() ? nullptr : &*found;
}

TEST_CASE("over_time.png has a line for each component that counts, and marks the steepest fall") {
  const plot::ChartStack stack = chart_of(study_of(6));
  CHECK(stack.panels.size() == 11);
  CHECK_THAT(stack.caption, Contains("all right"));
  CHECK(stack.dashes == std::vector<std::string>{"head 0, 4", "head 1, 5", "head 2", "head 3"});
  const plot::LineChart* effects = panel(stack, "effect");
  REQUIRE(effects);
  REQUIRE(effects->series.size() == 12);  // not L0H0, but the MLP
  const plot::Series& last = effects->series[10];
  CHECK((last.color == 1 && last.dash == 1));
  CHECK(last.x == std::vector<double>{0, 10, 20});
  CHECK(last.y == std::vector<double>{0, -60, -120});
  CHECK(effects->series[11].name == "L1MLP");
  CHECK(panel(stack, "score")->series.size() == 11);
  CHECK(panel(stack, "loss")->series[1].y == std::vector<double>{3, 3, 0.1});
  CHECK(panel(stack, "loss")->hlines.at(0).y == 0.5);
  CHECK(panel(stack, "|dL/d(residual stream)|")->series.size() == 3);
  REQUIRE(stack.vline);
  CHECK(stack.vline->x == 15);  // the counted loss falls between steps 10 and 20
  CHECK(plot::draw_chart_stack(stack).width() == 1000);
}

TEST_CASE("over_time.png leaves out a panel without values") {
  const plot::ChartStack stack = chart_of(study_of(1, NAN));
  CHECK_FALSE(panel(stack, "score: "));
  CHECK(panel(stack, "loss")->hlines.empty());
  CHECK(plot::draw_chart_stack(stack).width() == 1000);
}

TEST_CASE("a sentence names the component whose effect grows most while the loss falls fastest") {
  CHECK_THAT(what_forms(study_of(3)), Contains("between steps 10 and 20; there the effect of L1H2 "
                                               "goes from -30 to -60."));
  lab::OverTime flat = study_of(3);
  flat.counted_loss = {1, 2, 3};
  CHECK(what_forms(flat).empty());
}

}  // namespace
