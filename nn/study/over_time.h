// Heads over training time: a study of every checkpoint of a run.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "nn/run/run_folder.h"
#include "nn/study/study.h"
#include "nn/train/progress_callback.h"

namespace heed::nn {

/// Sequences and L that are studied at each checkpoint.
struct OverTimeSubject {
  Batch batch;                                  ///< sequences of L, of the scores and effects
  Objective objective = {Objective::kLogOdds};  ///< L
  Batch evaluation;     ///< sequences of the losses, and of the means that replace outputs of heads
  bool effects = true;  ///< whether kNeeded and kPredicted of each head are measured
};

/// Returns L = log odds on the first sequences of the evaluation set: at most `most`, and fewer if
/// their study would need more than about 256 MB. Effects are not measured.
OverTimeSubject evaluation_over_time(const Transformer& model, const Task& task,
                                     std::int64_t most = 32);

/// The study of one checkpoint.
struct CheckpointStudy {
  std::int64_t step = 0;  ///< training step of the checkpoint
  double value = 0;       ///< L, mean over the sequences
  double loss = 0;        ///< mean over the targets of each sequence, then over the sequences; nats
  /// Mean loss over the positions that count in the task's accuracy, nats. NaN if no position
  /// counts.
  double counted_loss = 0;
  /// Reports ordered by layer, then by head. If effects are measured, each head is replaced by its
  /// mean, and kNeeded and kPredicted are set.
  std::vector<HeadReport> heads;
  std::vector<LayerFlow> flow;  ///< one entry for each layer
};

/// The studies of all checkpoints of a run, on one batch.
struct OverTime {
  std::int64_t sequences = 0;  ///< number of sequences of L
  /// Mean loss of the Bayes-optimal predictor on the evaluation sequences, comparable with
  /// CheckpointStudy::loss. NaN if it is unknown.
  double optimal = std::numeric_limits<double>::quiet_NaN();
  std::vector<CheckpointStudy> checkpoints;  ///< ordered by step

  /// Returns the values f(checkpoint), in the order of the checkpoints. f is a function or a
  /// pointer to a member of CheckpointStudy.
  template <class F>
  auto by_step(F f) const {
    std::vector<std::decay_t<std::invoke_result_t<F, const CheckpointStudy&>>> values;
    for (const CheckpointStudy& c : checkpoints) values.push_back(std::invoke(f, c));
    return values;
  }
  /// Returns one quantity of heads[i], in the order of the checkpoints.
  std::vector<double> by_step(std::size_t i, Quantity quantity) const {
    return by_step([&](const CheckpointStudy& c) { return c.heads[i][quantity]; });
  }
  /// Returns one quantity of flow[i], in the order of the checkpoints.
  std::vector<double> by_step(std::size_t i, double LayerFlow::*value) const {
    return by_step([&](const CheckpointStudy& c) { return c.flow[i].*value; });
  }
};

/// Loads the weights of each checkpoint into the model, and studies them.
/// Afterwards the model has the weights of the last checkpoint. Throws IoError, with the name of
/// the file, if a checkpoint is damaged, does not fit the model, or has another step than its name.
/// Throws IoError if the recipe in a checkpoint (the settings of its run, see recipe_text())
/// differs from the recipe in the first checkpoint. Throws NumericError if L is not finite.
OverTime over_time(Transformer& model, const std::vector<CheckpointFile>& checkpoints,
                   const OverTimeSubject& subject, const ProgressCallback& progress = {});

/// The two consecutive checkpoints between which the loss falls fastest per step. The loss is
/// CheckpointStudy::counted_loss, or CheckpointStudy::loss if no position counts.
struct SteepestFall {
  std::int64_t from;  ///< step of the first checkpoint
  std::int64_t to;    ///< step of the second checkpoint
  /// Returns the step halfway between `from` and `to`.
  double middle() const { return double(from + to) / 2; }
};
/// Returns the steepest fall, or no value if the loss never falls.
std::optional<SteepestFall> steepest_fall(const OverTime& study);

/// Returns the four heads with the largest scores, as indices into CheckpointStudy::heads, in
/// ascending order. Each head is ranked by its largest score at any checkpoint. A head whose scores
/// are all negative or NaN is left out, so that fewer than four heads may remain.
std::vector<std::size_t> strongest_heads(const OverTime& study, Quantity score);

/// Selects at most `most` checkpoints, but at least four, for the HTML page. Returns them by step:
/// the first, the last, the two of the steepest fall, and others at equal distances.
std::vector<CheckpointFile> select_checkpoints(const std::vector<CheckpointFile>& all,
                                               const OverTime& study, std::size_t most);

/// Returns the first step at which a head of this layer has a score of at least `least`. Returns no
/// value if no checkpoint has such a head.
std::optional<std::int64_t> first_reached(const OverTime& study, Quantity score, std::int64_t layer,
                                          double least);

}  // namespace heed::nn
