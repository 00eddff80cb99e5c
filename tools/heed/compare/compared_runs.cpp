#include "tools/heed/compare/compared_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "autograd/base/error.h"
#include "autograd/base/text.h"
#include "nn/lab/run/run_folder.h"
#include "tools/heed/pictures.h"

namespace heed {
namespace {

using Options = std::vector<std::pair<std::string, std::string>>;

Options options_of(lab::RunConfig config) {
  Options options;
  // Means are taken over seeds. The other three options change no loss and no weight.
  static constexpr std::string_view kLeftOut[] = {"seed", "accumulate", "eval-train",
                                                  "sample-every"};
  for (const lab::Setting& s : config.settings())
    if (std::ranges::count(kLeftOut, s.key) == 0) options.emplace_back(s.key, s.get());
  return options;
}

}  // namespace

ComparedRun read_compared(const std::filesystem::path& folder) {
  const lab::RunFolder files(folder);
  const lab::RunSummary summary = files.summary();
  if (!summary.note.empty()) throw autograd::IoError(summary.note);
  ComparedRun run{folder, summary.config};
  if (!files.has_state()) return run;
  for (const lab::MetricsRow& row : files.load().whole_history())
    if (!std::isnan(row.eval_loss)) run.eval_loss[row.step] = row.eval_loss;
  if (!summary.result) return run;
  const lab::RunResult& result = *summary.result;
  run.loss = result.loss;
  run.above_optimum = result.loss - result.optimal.value_or(NAN);
  run.accuracy = result.accuracy.value_or(NAN);
  run.seconds = result.seconds.value_or(NAN);
  return run;
}

std::string RunGroup::name() const {
  std::vector<std::string> words;
  for (const auto& [key, value] : options)
    words.push_back((key == "task" ? "" : key + "=") + (value.empty() ? "none" : value));
  return words.empty() ? "all runs" : join(words, ", ");
}

lab::MeanError RunGroup::mean(double ComparedRun::*number) const {
  std::vector<double> values;
  for (const ComparedRun& run : runs) values.push_back(run.*number);
  return lab::finite_mean_error(std::move(values));
}

std::vector<RunGroup> group_runs(std::vector<ComparedRun> runs) {
  std::vector<Options> all;  // by run; all lists have equal keys in equal order
  for (const ComparedRun& run : runs) all.push_back(options_of(run.config));
  const auto task = std::size_t(std::ranges::find(all.at(0), "task", &Options::value_type::first) -
                                all[0].begin());
  // Returns whether a run of the same task has another value of option k. For the option "task", a
  // run of any task.
  const auto differs = [&](const Options& mine, std::size_t k) {
    return std::ranges::any_of(all, [&](const Options& other) {
      return other[k] != mine[k] && (k == task || other[task] == mine[task]);
    });
  };
  std::vector<RunGroup> groups;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    RunGroup mine;
    for (std::size_t k = 0; k < all[i].size(); ++k)
      if (differs(all[i], k)) mine.options.push_back(all[i][k]);
    auto group = std::ranges::find(groups, mine.options, &RunGroup::options);
    if (group == groups.end()) group = groups.insert(group, std::move(mine));
    for (const ComparedRun& other : group->runs)
      if (other.config.seed == runs[i].config.seed)
        throw autograd::ValueError(
            other.folder.string() + " and " + runs[i].folder.string() +
            " have the same options and seed, so they are the same run; leave out one");
    group->runs.push_back(std::move(runs[i]));
  }
  return groups;
}

plot::LineChart curves_chart(const std::vector<RunGroup>& groups) {
  const std::size_t shown = std::min(groups.size(), kMostCurves);
  const std::string some = shown < groups.size()
                               ? fmt::format(", the first {} of {} settings", shown, groups.size())
                               : "";
  plot::LineChart chart{
      .title = "Loss during training: mean over the seeds, band of one standard error" + some,
      .x_name = "training step",
      .y_name = "eval_loss (nats per token)"};
  std::vector<double> means;
  for (std::size_t i = 0; i < shown; ++i) {
    plot::Series& series = chart.series.emplace_back(plot::Series{.name = groups[i].name()});
    std::vector<const lab::StepSeries*> of_runs;
    for (const ComparedRun& run : groups[i].runs) of_runs.push_back(&run.eval_loss);
    for (const auto& [step, m] : lab::mean_series(of_runs)) {
      const double error = m.n > 1 ? m.error : 0;
      series.x.push_back(double(step)), series.y.push_back(m.mean);
      series.low.push_back(m.mean - error), series.high.push_back(m.mean + error);
    }
    means.insert(means.end(), series.y.begin(), series.y.end());
  }
  chart.log_y = spans_decades(means);
  return chart;
}

}  // namespace heed
