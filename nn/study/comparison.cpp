#include "nn/study/comparison.h"

#include <algorithm>
#include <map>
#include <ranges>

#include "nn/run/run_folder.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Returns the best finite value of a series. For a quantity of heads, this is the value with the
// largest magnitude. Returns NaN if no value is finite.
template <class Values>
double best_of(const Values& values, const ComparedQuantity& of) {
  const auto rank = [&](double x) { return of.head ? std::abs(x) : of.rises() ? x : -x; };
  double best = NAN;
  for (const double x : values)
    if (std::isfinite(x) && !(rank(x) <= rank(best))) best = x;
  return best;
}

std::vector<std::pair<std::string, std::string>> options_of(RunConfig config) {
  std::vector<std::pair<std::string, std::string>> options;
  // Means are taken over seeds. The other five options change no loss and no weight.
  static constexpr std::string_view kLeftOut[] = {"seed", "accumulate", "eval-train",
                                                  "sample-every", "sample-prompt"};
  for (const Setting& s : config.settings())
    if (std::ranges::count(kLeftOut, s.key) == 0) options.emplace_back(s.key, s.get());
  return options;
}

// Sets the members of a group and of its runs that are computed from the runs.
void finish_group(RunGroup& group, const ComparedQuantity& of, std::optional<double> target) {
  group.name = group.options.empty() ? "all runs" : group.name_without("");
  std::vector<double> bests;
  std::vector<const StepSeries*> series;
  for (ComparedRun& run : group.runs) {
    run.best = best_of(std::views::values(run.series), of);
    if (target) run.steps_to_target = first_step(run.series, *target, of.rises(*target));
    bests.push_back(run.best);
    series.push_back(&run.series);
  }
  group.best = best_of(bests, of);
  group.curve = mean_series(series);
}

}  // namespace

ComparedQuantity::ComparedQuantity(std::string name_) : name(std::move(name_)) {
  for (const HeadQuantity& q : head_quantities())
    if (q.name == name) head = &q;
}

std::vector<std::string> ComparedQuantity::names() {
  std::vector<std::string> names = {"loss", "accuracy", "eval_loss", "eval_accuracy"};
  for (const HeadQuantity& q : head_quantities())
    if (q.is_over_time()) names.emplace_back(q.name);
  return names;
}

std::string ComparedQuantity::words() const {
  if (!rises()) return name + " (nats per token)";
  if (!head) return name;
  return "largest " + name + " of any head";
}

ComparedRun read_compared(const std::filesystem::path& folder, const ComparedQuantity& of) {
  const RunFolder files(folder);
  const RunSummary summary = files.summary();
  ComparedRun run{folder, summary.config};
  if (!files.has_state()) return run;
  RunResult last;  // of the last evaluation during training
  for (const MetricsRow& row : files.load().whole_history()) {
    if (std::isnan(row.eval_loss)) continue;
    last.loss = row.eval_loss, last.optimal = row.eval_optimal, last.accuracy = row.eval_accuracy;
    run.series[row.step] = of.rises() ? row.eval_accuracy : row.eval_loss;
  }
  if (run.series.empty())
    throw IoError(files.file(RunFolder::kState).string() +
                  ": the history has no evaluation; continue the run until its first evaluation "
                  "(`eval-every`)");
  const std::optional<RunResult>& result = summary.result;
  run.has_result = result.has_value();
  const RunResult end = of.is_result() || of.head ? result.value_or(RunResult{.loss = NAN}) : last;
  run.accuracy = end.accuracy.value_or(NAN);
  run.above = end.loss - end.optimal.value_or(NAN);
  if (result) run.seconds = result->seconds.value_or(NAN);
  if (of.head)
    run.series = {};
  else
    run.final = of.rises() ? run.accuracy : end.loss;
  return run;
}

void measure_heads(ComparedRun& run, const ComparedQuantity& of) {
  const RunFolder folder(run.folder);
  LoadedRun loaded = folder.open(RunFolder::kState, Use::kSequences);
  std::vector<CheckpointFile> weights = folder.checkpoints();
  const CheckpointFile last{loaded.step.value_or(0), folder.file(loaded.weights)};
  // The last weights replace checkpoints of their step and of later steps. If the others belong to
  // another run, over_time() throws, because the last weights have a different recipe.
  std::erase_if(weights, [&](const CheckpointFile& c) { return c.step >= last.step; });
  weights.push_back(last);
  OverTimeSubject subject = evaluation_over_time(loaded.model, *loaded.task);
  subject.effects = of.head->source == HeadQuantity::kEffects;
  const OverTime study = over_time(loaded.model, weights, subject);
  const std::vector<OverTime::Curve> heads = study.curves(of.head->name);
  for (std::size_t i = 0; i < study.steps.size(); ++i) {
    std::vector<double> scores;
    for (const OverTime::Curve& head : heads) scores.push_back(head.values[i]);
    run.series[study.steps[i]] = best_of(scores, of);
  }
  run.final = run.series.rbegin()->second;
  for (const TimedNumber& n : study.numbers)
    if (n.step == study.steps.back() && n.place.head >= 0) run.heads.push_back(n);
}

std::string RunGroup::name_without(const std::string& option) const {
  std::string text;
  for (const auto& [key, value] : options)
    if (key != option) text += (text.empty() ? "" : ", ") + key + "=" + value;
  return text;
}

MeanError RunGroup::mean(double ComparedRun::*number) const {
  std::vector<double> values;
  for (const ComparedRun& run : runs) values.push_back(run.*number);
  return finite_mean_error(std::move(values));
}

const std::string& RunGroup::value(const std::string& option) const {
  return std::find_if(options.begin(), options.end(),
                      [&](const auto& o) { return o.first == option; })
      ->second;
}

std::vector<RunGroup> group_runs(std::vector<ComparedRun> runs, const ComparedQuantity& of,
                                 std::optional<double> target) {
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
        throw ValueError(
            other.folder.string() + " and " + runs[i].folder.string() +
            " have the same options and seed, so they are the same run; leave out one");
    group->runs.push_back(std::move(runs[i]));
  }
  for (RunGroup& group : groups) finish_group(group, of, target);
  return groups;
}

std::map<HeadIndex, MeanError> head_means(const RunGroup& group, const HeadQuantity& quantity) {
  std::map<HeadIndex, std::vector<double>> values;
  for (const ComparedRun& run : group.runs)
    for (const TimedNumber& n : run.heads)
      if (n.quantity == quantity.name) values[n.place].push_back(n.value);
  std::map<HeadIndex, MeanError> means;
  for (const auto& [head, list] : values) means[head] = finite_mean_error(list);
  return means;
}

}  // namespace heed::nn
