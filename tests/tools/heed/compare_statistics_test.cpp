// Tests of comparisons of runs: groups of runs that differ only in their seeds, means over seeds,
// and charts.
#include <fmt/format.h>

#include "autograd/base/files.h"
#include "nn/run/run_folder.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/runs.h"
#include "tools/heed/compare/compare_report.h"

namespace {

using namespace heed;

const ComparedQuantity kLoss{"loss"};

// Returns a run that is evaluated every 10 steps. `losses` are the losses of its evaluations.
ComparedRun record(std::int64_t seed, std::int64_t kv_heads, const std::vector<double>& losses) {
  ComparedRun run;
  run.folder = fmt::format("runs/{}-{}", kv_heads, seed);
  run.config = nn::preset("induction");
  run.config.seed = seed, run.config.model.attention.heads = 4,
  run.config.model.attention.kv_heads = kv_heads;
  for (std::size_t i = 0; i < losses.size(); ++i) run.series[std::int64_t(i) * 10] = losses[i];
  run.final = losses.back();
  run.above = losses.back() - 0.5, run.accuracy = 1 - losses.back() / 10;
  return run;
}

std::vector<RunGroup> group(std::vector<ComparedRun> runs) {
  return group_runs(std::move(runs), kLoss);
}
RunComparison compare(std::vector<ComparedRun> runs) {
  return {kLoss, group_runs(std::move(runs), kLoss)};
}

TEST_CASE("runs that differ only in their seeds are one setting; settings keep the order of runs") {
  const std::vector<ComparedRun> runs = {record(1, 2, {3, 1}), record(1, 1, {3, 2}),
                                         record(2, 2, {5, 2})};
  const RunComparison c = compare(runs);
  REQUIRE(c.groups.size() == 2);
  CHECK(c.groups[0].name == "kv-heads=2");
  CHECK(c.groups[1].name == "kv-heads=1");
  CHECK(c.groups[0].value("kv-heads") == "2");
  const RunGroup& g = c.groups[0];
  CHECK(g.mean(&ComparedRun::final).mean == 1.5);
  CHECK(g.mean(&ComparedRun::final).error == 0.5);
  CHECK(g.mean(&ComparedRun::above).mean == 1);
  CHECK(g.mean(&ComparedRun::accuracy).mean == Approx(0.85));
  CHECK(g.best == 1);
  const std::string table = comparison({c}).as_text();
  INFO(table);
  CHECK_THAT(table, Contains("\n2  1.5000 ± 0.5000  1.0000 ") && Contains("  kv-heads=2\n"));
  CHECK_THAT(table, Contains("\n1           2.0000  2.0000 ") && Contains("  kv-heads=1\n"));

  CHECK(group({record(1, 2, {1}), record(2, 2, {1})})[0].name == "all runs");
  CHECK_THROWS_AS(group({record(1, 2, {1}), record(1, 2, {1})}), autograd::ValueError);
}

TEST_CASE("numbers of a setting are printed in their shortest form") {
  std::vector<ComparedRun> runs = {record(1, 2, {3}), record(1, 2, {3})};
  runs[0].config.lr = 0.003, runs[1].config.lr = 0.0010;
  runs[0].config.model.attention.scale = 0.1;
  CHECK(group(runs)[0].name == "scale=0.1, lr=0.003");
  CHECK(group(runs)[1].value("lr") == "0.001");
}

TEST_CASE("n is the number of runs in the mean") {
  const std::vector<ComparedRun> runs = {record(1, 2, {3, 1}), record(2, 2, {3, 2}),
                                         record(3, 2, {3, NAN})};
  const RunComparison c = compare(runs);
  const std::string table = comparison({c}).as_text();
  INFO(table);
  CHECK(table.find("\n2  1.5000 ± 0.5000") != std::string::npos);
  const nn::Json json = nn::Json::parse(comparison({c}).as_json());
  CHECK(*json.find("settings")->items()[0].find("n") == 2);
  CHECK(curves_chart(c).title.find("mean of 2 seeds") != std::string::npos);
  const testing::Folder folder;
  ResultFolder result("", folder / "compare");
  std::ifstream csv(write_comparison(result, {c})[0]);
  std::string line;
  std::getline(csv, line), std::getline(csv, line);
  CHECK(line.starts_with("all runs,loss,2,1.5,0.5,"));
}

TEST_CASE("lines of CSV of several tasks have the options that differ in the task of the line") {
  std::vector<ComparedRun> runs = {record(1, 2, {3, 1}), record(1, 2, {3, 2}), record(2, 2, {1})};
  runs[1].config.lr = 0.5, runs[2].above = NAN;
  for (ComparedRun& run : runs) run.config.task = "copy";
  const std::vector<RunComparison> tasks = {compare({record(1, 2, {3}), record(1, 4, {3})}),
                                            compare({runs[0], runs[1]}), compare({runs[2]})};
  const testing::Folder folder;
  ResultFolder result("", folder / "compare");
  const std::string file = autograd::read_file(write_comparison(result, tasks)[0].string());
  CHECK_THAT(file, Catch::Matchers::StartsWith("task,kv-heads,lr,setting,quantity,n,"));
  for (const char* line : {"\ninduction,2,,kv-heads=2,loss,1,", "\ncopy,,0.5,lr=0.5,loss,1,",
                           "\ncopy,,,all runs,loss,1,1.0,,1.0,,,"})
    CHECK_THAT(file, Contains(line));
}

TEST_CASE("settings are named by their directories; a table lists the options") {
  std::vector<ComparedRun> runs;
  for (const char* folder : {"a/x", "a/y", "b/x", "c", "d/e/"}) {
    runs.push_back(record(std::ssize(runs), runs.size() < 2 ? 2 : 1, {3, 1}));
    runs.back().folder = folder;
    runs.back().config.lr = 0.001 * double(std::max(std::ssize(runs), std::ptrdiff_t{2}));
    runs.back().config.text = runs.size() < 5 ? "/p/q.txt" : "/q/q.txt";
  }
  RunComparison c = compare(runs);
  name_groups(c.groups);
  const std::string text = comparison({c}).as_text();
  INFO(text);
  for (const char* row : {"\n2  1.0000 ± 0.0000", "  a/x and 1 more\n", "  b/x\n", "  c\n", "  e\n",
                          "\nkv-heads  2: a/x and 1 more; 1: b/x, c and e\n",
                          "\ntext      p/q.txt: a/x and 1 more, b/x and c; q/q.txt: e\n",
                          "\nlr        0.002: a/x and 1 more; 0.003: b/x; 0.004: c; 0.005: e\n"})
    CHECK_THAT(text, Contains(row));
  c = compare({runs[0], runs[1]});
  name_groups(c.groups);
  CHECK(c.groups[0].name == "all runs");
  CHECK(comparison({c}).as_text().find("value: settings") == std::string::npos);
}

// Writes a run with this history.
void write_run(const testing::Folder& folder, const std::vector<nn::MetricsRow>& history) {
  nn::Snapshot s = nn::Trainer(nn::testing::tiny_run()).snapshot();
  s.history = history, s.step = history.empty() ? 0 : history.back().step;
  nn::RunFolder(folder.path()).save(s);
}

TEST_CASE("a run without a result has only the final values of its last evaluation") {
  std::vector<nn::MetricsRow> history;
  for (const double loss : {3.0, 2.0, 1.0, double(NAN)}) {
    nn::MetricsRow& row = history.emplace_back(std::int64_t(history.size()));
    row.eval_loss = loss, row.eval_optimal = 0.5, row.eval_accuracy = 1 - loss / 10;
  }
  const testing::Folder folder;
  write_run(folder, history);
  for (const auto& [of, numbers] : {std::pair("loss", "nan nan nan nan"),
                                    {"accuracy", "nan nan nan nan"},
                                    {"eval_loss", "1 0.5 0.9 nan"},
                                    {"eval_accuracy", "0.9 0.5 0.9 nan"}}) {
    INFO(of);
    const ComparedQuantity quantity{of};
    const ComparedRun run = read_compared(folder.path(), quantity);  // it has no result
    CHECK(fmt::format("{} {} {} {}", run.final, run.above, run.accuracy, run.seconds) == numbers);
    CHECK(run.series == (quantity.rises() ? nn::StepSeries{{0, 0.7}, {1, 0.8}, {2, 0.9}}
                                          : nn::StepSeries{{0, 3}, {1, 2}, {2, 1}}));
  }
}

TEST_CASE("a run without an evaluation cannot be compared") {
  const testing::Folder folder;
  nn::MetricsRow step(1);
  step.loss = 2;
  for (const std::vector<nn::MetricsRow>& history :
       {std::vector<nn::MetricsRow>{}, std::vector<nn::MetricsRow>{step}}) {
    write_run(folder, history);
    CHECK_THROWS_WITH(read_compared(folder.path(), kLoss),
                      (folder / "state.safetensors").string() +
                          ": the history has no evaluation; continue the run until its first "
                          "evaluation (`eval-every`)");
  }
}

TEST_CASE("a curve has a band of one standard error") {
  const std::vector<ComparedRun> runs = {record(1, 1, {3, 2}), record(2, 1, {3, 3}),
                                         record(1, 4, {3, 1})};
  const RunComparison c = compare(runs);
  const plot::LineChart curves = curves_chart(c);
  REQUIRE(curves.series.size() == 2);
  CHECK(curves.series[0].name == "kv-heads=1");
  CHECK(curves.series[0].y == std::vector<double>{3, 2.5});
  CHECK(curves.series[0].low == std::vector<double>{3, 2});
  CHECK(curves.series[0].high == std::vector<double>{3, 3});
  CHECK(curves.series[1].low == curves.series[1].y);  // a single run has no band
  plot::draw_chart(curves);
}

}  // namespace
