// What heed compare finds: a quantity of every run, and its means over the seeds of a setting.
#pragma once

#include <string>
#include <vector>

#include "nn/study/head_scores.h"
#include "nn/train/statistics.h"
#include "tools/heed/compare/run_groups.h"

namespace heed {

/// What is compared: "loss", "accuracy", or the name of a head's score.
struct ComparedQuantity {
  std::string name;
  const nn::HeadQuantity* head = nullptr;  ///< of a head's score
  bool rises() const { return name != "loss"; }
  /// "evaluation loss (nats per token)"
  std::string words() const;
};
/// Names that it can have.
std::vector<std::string> compared_names();
/// The one of this name, which is one of compared_names().
ComparedQuantity compared_quantity(const std::string& name);

/// One run's numbers.
struct ComparedRun {
  const RunRecord* record;
  nn::StepSeries series = {};
  std::vector<nn::HeadReport> heads =
      {};  ///< of the last weights, where a head's score is compared
  double final = NAN, best = NAN, accuracy = NAN, above = NAN;  ///< above: the best possible loss
  double steps_to_target = NAN;
  double seconds() const { return record->seconds.value_or(NAN); }
};

/// The numbers of a run; of a head's score the largest of any head, at every checkpoint and at the
/// end. IoError for weights or texts that cannot be read.
ComparedRun compare_run(const RunRecord& run, const ComparedQuantity& of,
                        std::optional<double> target);

/// A setting: its runs' numbers and their means.
struct ComparedGroup {
  const RunGroup* group;
  std::vector<ComparedRun> runs;
  nn::MeanError final = {}, accuracy = {}, above = {}, steps_to_target = {}, seconds = {};
  double best = NAN;  ///< of any run at any evaluation
  nn::MeanSeries curve = {};
};
/// Means over `runs`, the numbers of this group's. `rises`: the best is the largest.
ComparedGroup compare_group(const RunGroup& group, std::vector<ComparedRun> runs, bool rises);

/// A head's scores over the runs of a setting.
struct HeadMean {
  std::int64_t layer, head;
  nn::MeanError value;
};
/// By layer, then head; n of each is in how many runs the score is finite.
std::vector<HeadMean> head_means(const ComparedGroup& group, const nn::HeadQuantity& quantity);

}  // namespace heed
