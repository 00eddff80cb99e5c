// Heads over training time: a study of every checkpoint of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/run/run_folder.h"
#include "nn/study/study.h"
#include "nn/train/progress_callback.h"

namespace heed::nn {

/// Sequences and L that are studied at each checkpoint.
struct OverTimeSubject {
  Batch batch;                                  ///< sequences of L, of the scores and effects
  Objective objective = {Objective::kLogOdds};  ///< L
  Batch evaluation;  ///< sequences of the losses, and of the means that replace outputs of heads
};

/// Returns the first sequences of the evaluation set: at most 32, and fewer if their study would
/// need more than about 256 MB.
Batch evaluation_over_time(const Transformer& model, const Task& task);

/// A number of the model, of a layer or of a head at one checkpoint.
struct TimedNumber {
  std::int64_t step;  ///< training step of the checkpoint
  HeadIndex place;    ///< the head; head is -1 for a layer, and layer and head are -1 for the model
  /// Quantities of the model: "value" (L, mean over the sequences), "loss" (mean over the targets
  /// of each sequence, then over the evaluation sequences; nats), "counted_loss" (mean loss over
  /// the positions that count in the task's accuracy; NaN if no position counts), and
  /// "optimal_loss" (loss of the Bayes-optimal predictor, comparable with "loss"; NaN if it is
  /// unknown). Of a layer: "resid_pre_grad" and "resid_post_grad", mean_norm() of these gradients.
  /// For a head, `quantity` is the name of a HeadQuantity that is_over_time(). For the
  /// effects, each head is replaced by its mean over the evaluation sequences.
  std::string quantity;
  double value;  ///< the number
};

/// The studies of all checkpoints of a run, on one batch.
struct OverTime {
  std::int64_t sequences = 0;             ///< number of sequences of L
  std::vector<std::int64_t> steps = {};   ///< of the checkpoints, ascending
  std::vector<TimedNumber> numbers = {};  ///< ordered by step, then by place

  /// One quantity of one place, at each of the steps.
  struct Curve {
    HeadIndex place;             ///< TimedNumber::place
    std::vector<double> values;  ///< one for each of the steps
  };
  /// Returns a quantity of all places that have it, ordered by place.
  std::vector<Curve> curves(std::string_view quantity) const;
  /// Returns a quantity of the model at each of the steps.
  std::vector<double> of_model(std::string_view quantity) const;
};

/// Loads the weights of each checkpoint into the model, and studies them. Afterwards the model
/// contains the weights of the last checkpoint. Throws IoError, with the name of the file, if a
/// checkpoint is damaged, does not fit the model, or has another step than its name. Throws IoError
/// if the recipe in a checkpoint (the settings of its run, see recipe_text()) differs from the
/// recipe in the first checkpoint. Throws NumericError if L is not finite.
OverTime over_time(Transformer& model, const std::vector<CheckpointFile>& checkpoints,
                   const OverTimeSubject& subject, const ProgressCallback& progress = {});

/// The two consecutive checkpoints between which the loss falls fastest per step. The loss is
/// "counted_loss", or "loss" if no position counts.
struct SteepestFall {
  std::int64_t from;  ///< step of the first checkpoint
  std::int64_t to;    ///< step of the second checkpoint
  /// Returns the step halfway between `from` and `to`.
  double middle() const { return double(from + to) / 2; }
};
/// Returns the steepest fall, or no value if the loss never falls.
std::optional<SteepestFall> steepest_fall(const OverTime& study);

}  // namespace heed::nn
