#include "tools/heed/compare/compared_runs.h"

#include <algorithm>
#include <ranges>

#include "nn/run/run_folder.h"

namespace heed {
namespace {

// Returns the best finite value of a series, or NaN if no value is finite.
template <class Values>
double best_of(const Values& values, const ComparedQuantity& of) {
  const auto rank = [&](double x) { return of.rises() ? x : -x; };
  double best = NAN;
  for (const double x : values)
    if (std::isfinite(x) && !(rank(x) <= rank(best))) best = x;
  return best;
}

std::vector<std::pair<std::string, std::string>> options_of(nn::RunConfig config) {
  std::vector<std::pair<std::string, std::string>> options;
  // Means are taken over seeds. The other three options change no loss and no weight.
  static constexpr std::string_view kLeftOut[] = {"seed", "accumulate", "eval-train",
                                                  "sample-every"};
  for (const nn::Setting& s : config.settings())
    if (std::ranges::count(kLeftOut, s.key) == 0) options.emplace_back(s.key, s.get());
  return options;
}

// Sets the members of a group and of its runs that are computed from the runs.
void finish_group(RunGroup& group, const ComparedQuantity& of) {
  for (const auto& [key, value] : group.options)
    group.name += (group.name.empty() ? "" : ", ") + key + "=" + value;
  if (group.options.empty()) group.name = "all runs";
  std::vector<double> bests;
  std::vector<const nn::StepSeries*> series;
  for (ComparedRun& run : group.runs) {
    run.best = best_of(std::views::values(run.series), of);
    bests.push_back(run.best);
    series.push_back(&run.series);
  }
  group.best = best_of(bests, of);
  group.curve = nn::mean_series(series);
}

}  // namespace

ComparedRun read_compared(const std::filesystem::path& folder, const ComparedQuantity& of) {
  const nn::RunFolder files(folder);
  const nn::RunSummary summary = files.summary();
  if (!summary.note.empty()) throw autograd::IoError(summary.note);
  ComparedRun run{folder, summary.config};
  if (!files.has_state()) return run;
  nn::RunResult last;  // of the last evaluation during training
  for (const nn::MetricsRow& row : files.load().whole_history()) {
    if (std::isnan(row.eval_loss)) continue;
    last.loss = row.eval_loss, last.optimal = row.eval_optimal, last.accuracy = row.eval_accuracy;
    run.series[row.step] = of.rises() ? row.eval_accuracy : row.eval_loss;
  }
  if (run.series.empty())
    throw autograd::IoError(
        files.file(nn::RunFolder::kState).string() +
        ": the history has no evaluation; continue the run until its first evaluation "
        "(`eval-every`)");
  const std::optional<nn::RunResult>& result = summary.result;
  const nn::RunResult end = of.is_result() ? result.value_or(nn::RunResult{.loss = NAN}) : last;
  run.accuracy = end.accuracy.value_or(NAN);
  run.above = end.loss - end.optimal.value_or(NAN);
  if (result) run.seconds = result->seconds.value_or(NAN);
  run.final = of.rises() ? run.accuracy : end.loss;
  return run;
}

nn::MeanError RunGroup::mean(double ComparedRun::*number) const {
  std::vector<double> values;
  for (const ComparedRun& run : runs) values.push_back(run.*number);
  return nn::finite_mean_error(std::move(values));
}

const std::string& RunGroup::value(const std::string& option) const {
  return std::find_if(options.begin(), options.end(),
                      [&](const auto& o) { return o.first == option; })
      ->second;
}

std::vector<RunGroup> group_runs(std::vector<ComparedRun> runs, const ComparedQuantity& of) {
  std::vector<std::vector<std::pair<std::string, std::string>>>
      all;  // by run; all lists have equal keys in equal order
  for (const ComparedRun& run : runs) all.push_back(options_of(run.config));
  std::vector<std::size_t> differing;
  for (std::size_t k = 0; !all.empty() && k < all[0].size(); ++k)
    if (std::any_of(all.begin(), all.end(), [&](const auto& o) { return o[k] != all[0][k]; }))
      differing.push_back(k);
  std::vector<RunGroup> groups;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    RunGroup mine;
    for (const std::size_t k : differing) mine.options.push_back(all[i][k]);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const RunGroup& g) { return g.options == mine.options; });
    if (group == groups.end()) group = groups.insert(group, std::move(mine));
    for (const ComparedRun& other : group->runs)
      if (other.config.seed == runs[i].config.seed)
        throw autograd::ValueError(
            other.folder.string() + " and " + runs[i].folder.string() +
            " have the same options and seed, so they are the same run; leave out one");
    group->runs.push_back(std::move(runs[i]));
  }
  for (RunGroup& group : groups) finish_group(group, of);
  return groups;
}

}  // namespace heed
