// Tests of comparisons of runs: groups of runs that differ only in their seeds, means over seeds,
// and the chart.
#include <fmt/format.h>

#include "nn/lab/run/run_folder.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/pictures.h"
#include "tests/support/runs.h"
#include "tools/heed/compare/compared_runs.h"

namespace {

using namespace heed;

// Returns a run that is evaluated every 10 steps. `losses` are the losses of its evaluations.
ComparedRun record(std::int64_t seed, std::int64_t kv_heads, const std::vector<double>& losses) {
  ComparedRun run;
  run.folder = fmt::format("runs/{}-{}", kv_heads, seed);
  run.config = lab::preset("induction");
  run.config.seed = seed, run.config.model.attention.heads = 4,
  run.config.model.attention.kv_heads = kv_heads;
  for (std::size_t i = 0; i < losses.size(); ++i) run.eval_loss[Index(i) * 10] = losses[i];
  run.loss = losses.back();
  run.above_optimum = losses.back() - 0.5, run.accuracy = 1 - losses.back() / 10;
  return run;
}

std::vector<std::string> names(std::vector<ComparedRun> runs) {
  std::vector<std::string> all;
  for (const RunGroup& g : group_runs(std::move(runs))) all.push_back(g.name());
  return all;
}

TEST_CASE("runs that differ only in their seeds are one setting; settings keep the order of runs") {
  const std::vector<RunGroup> groups = group_runs(
      {record(1, 2, {3, 1}), record(1, 1, {3, 2}), record(2, 2, {5, 2}), record(3, 2, {5, NAN})});
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].name() == "kv-heads=2");
  CHECK(groups[1].name() == "kv-heads=1");
  CHECK(groups[0].mean(&ComparedRun::loss).n == 2);  // of three; one loss is NaN
  CHECK(groups[0].mean(&ComparedRun::loss).mean == 1.5);
  CHECK(groups[0].mean(&ComparedRun::loss).error == 0.5);
  CHECK(groups[0].mean(&ComparedRun::above_optimum).mean == 1);
  CHECK(groups[0].mean(&ComparedRun::accuracy).mean == Approx(0.85));
  CHECK(std::isnan(groups[1].mean(&ComparedRun::loss).error));
  CHECK(names({record(1, 2, {1}), record(2, 2, {1})}) == std::vector<std::string>{"all runs"});
}

TEST_CASE("a setting is named by the options that differ between the runs of its task") {
  std::vector<ComparedRun> runs = {record(1, 2, {3}), record(1, 2, {3})};
  runs[0].config.lr = 0.003, runs[1].config.lr = 0.0010;  // in their shortest form
  runs[0].config.model.attention.scale = 0.1;
  runs[1].config.text = "/p/q.txt";
  CHECK(names(runs) == std::vector<std::string>{"text=none, scale=0.1, lr=0.003",
                                                "text=/p/q.txt, scale=1/sqrt-d-head, lr=0.001"});
  runs.push_back(record(1, 4, {3}));
  runs[2].config.task = "copy";
  CHECK(names(runs)[2] == "copy");
  runs.push_back(runs[2]);
  runs[3].config.lr = 0.5;
  CHECK(names(runs)[3] == "copy, lr=0.5");
}

TEST_CASE("a run without a result has only its curve") {
  lab::Snapshot s = lab::Trainer(lab::testing::tiny_run()).snapshot();
  for (const double loss : {3.0, 2.0, double(NAN)}) {
    s.history.emplace_back(std::ssize(s.history)).eval_loss = loss;
    s.step = s.history.back().step;
  }
  const testing::Folder folder;
  lab::RunFolder(folder.path()).save(s);
  const ComparedRun run = read_compared(folder.path());
  CHECK(run.eval_loss == lab::StepSeries{{0, 3}, {1, 2}});
  CHECK(fmt::format("{} {} {}", run.loss, run.above_optimum, run.accuracy) == "nan nan nan");
}

TEST_CASE("a curve has a band of one standard error") {
  const plot::LineChart curves = curves_chart(group_runs(
      {record(1, 1, {3, 2}), record(2, 1, {3, 3}), record(1, 4, {2, 1}), record(2, 4, {2, 1})}));
  REQUIRE(curves.series.size() == 2);
  CHECK(curves.series[0].name == "kv-heads=1");
  CHECK(curves.series[0].y == std::vector<double>{3, 2.5});
  CHECK(curves.series[0].low == std::vector<double>{3, 2});
  CHECK(curves.series[0].high == std::vector<double>{3, 3});
  CHECK(curves.series[1].low == curves.series[1].y);  // equal losses have no band

  // The pixels of the band are a triangle: its height grows from the first step to the last.
  plot::LineChart bare = curves;
  for (plot::Series& series : bare.series) series.low.clear(), series.high.clear();
  const plot::Image with = plot::draw_chart(curves), without = plot::draw_chart(bare);
  std::vector<int> heights;
  for (int x = 0; x < with.width(); ++x) {
    int height = 0;
    for (int y = 0; y < with.height(); ++y) height += with.at(x, y) != without.at(x, y);
    if (height > 0) heights.push_back(height);
  }
  REQUIRE(heights.size() > 500);
  CHECK(heights.back() > 100);
  for (std::size_t i = 1; i < heights.size(); ++i) CHECK(heights[i] >= heights[i - 1] - 4);
  CHECK(plot::text_faults(with) == "");
}

}  // namespace
