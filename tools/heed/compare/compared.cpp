#include "tools/heed/compare/compared.h"

#include <algorithm>
#include <map>

#include "nn/run/run_folder.h"
#include "nn/study/over_time.h"

namespace heed {
namespace {

// The weights of every checkpoint, and the last ones where no checkpoint has them.
std::vector<nn::CheckpointFile> weights_of(const nn::RunFolder& run) {
  std::vector<nn::CheckpointFile> files = run.checkpoints();
  const nn::CheckpointFile last =
      run.last_weights().value_or(nn::CheckpointFile{0, run.file(nn::RunFolder::kModel)});
  if (files.empty() || files.back().step < last.step) files.push_back(last);
  return files;
}

// The largest or smallest that is finite.
double best_of(const std::vector<double>& values, bool largest) {
  double best = NAN;
  for (const double x : values)
    if (std::isfinite(x) && !(largest ? x <= best : x >= best)) best = x;
  return best;
}

void measure_heads(ComparedRun& run, double nn::HeadReport::*score) {
  const nn::RunFolder folder(run.record->folder);
  nn::LoadedRun loaded = folder.open(nn::RunFolder::kModel, nn::Use::kSequences);
  const nn::OverTime study =
      nn::over_time(loaded.model, weights_of(folder), batch_over_time(loaded.model, *loaded.task));
  for (const nn::Moment& moment : study.moments) {
    std::vector<double> scores;
    for (const nn::HeadReport& head : moment.heads) scores.push_back(head.*score);
    run.series.steps.push_back(double(moment.step));
    run.series.values.push_back(best_of(scores, true));
  }
  run.heads = study.moments.back().heads;
}

void measure_evaluations(ComparedRun& run, double nn::MetricsRow::*value) {
  for (const nn::MetricsRow& row : run.record->evaluations) {
    run.series.steps.push_back(double(row.step));
    run.series.values.push_back(row.*value);
  }
}

}  // namespace

std::string ComparedQuantity::words() const {
  if (name == "loss") return "evaluation loss (nats per token)";
  if (name == "accuracy") return "accuracy of evaluations";
  return "largest " + name + " of any head";
}

std::vector<std::string> compared_names() {
  std::vector<std::string> names = {"loss", "accuracy"};
  for (const nn::HeadQuantity& q : nn::head_quantities()) names.emplace_back(q.name);
  return names;
}

ComparedQuantity compared_quantity(const std::string& name) {
  ComparedQuantity quantity{name};
  for (const nn::HeadQuantity& q : nn::head_quantities())
    if (q.name == name) quantity.head = &q;
  return quantity;
}

ComparedRun compare_run(const RunRecord& run, const ComparedQuantity& of,
                        std::optional<double> target) {
  ComparedRun result{.record = &run};
  if (of.head)
    measure_heads(result, of.head->value);
  else
    measure_evaluations(
        result, of.name == "loss" ? &nn::MetricsRow::eval_loss : &nn::MetricsRow::eval_accuracy);
  if (!result.series.values.empty()) result.final = result.series.values.back();
  result.best = best_of(result.series.values, of.rises());
  if (!run.evaluations.empty()) {
    const nn::MetricsRow& last = run.evaluations.back();
    result.accuracy = last.eval_accuracy;
    result.above = last.eval_loss - last.eval_optimal;
  }
  if (target) result.steps_to_target = nn::first_step(result.series, *target, of.rises());
  return result;
}

ComparedGroup compare_group(const RunGroup& group, std::vector<ComparedRun> runs, bool rises) {
  ComparedGroup result{.group = &group, .runs = std::move(runs)};
  const auto mean = [&](auto number) {
    std::vector<double> values;
    for (const ComparedRun& run : result.runs) values.push_back(number(run));
    return nn::finite_mean_error(values);
  };
  result.final = mean([](const ComparedRun& r) { return r.final; });
  result.accuracy = mean([](const ComparedRun& r) { return r.accuracy; });
  result.above = mean([](const ComparedRun& r) { return r.above; });
  result.steps_to_target = mean([](const ComparedRun& r) { return r.steps_to_target; });
  result.seconds = mean([](const ComparedRun& r) { return r.seconds(); });
  std::vector<double> bests;
  std::vector<const nn::StepSeries*> series;
  for (const ComparedRun& run : result.runs) {
    bests.push_back(run.best);
    series.push_back(&run.series);
  }
  result.best = best_of(bests, rises);
  result.curve = nn::mean_series(series);
  return result;
}

std::vector<HeadMean> head_means(const ComparedGroup& group, const nn::HeadQuantity& quantity) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<double>> values;
  for (const ComparedRun& run : group.runs)
    for (const nn::HeadReport& head : run.heads)
      values[{head.layer, head.head}].push_back(head.*quantity.value);
  std::vector<HeadMean> means;
  for (const auto& [place, list] : values)
    means.push_back({place.first, place.second, nn::finite_mean_error(list)});
  return means;
}

}  // namespace heed
