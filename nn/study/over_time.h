// Heads over training time: the numbers of a study at every checkpoint of a run.
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

/// Returns the first sequences of the evaluation set: at most `most`, and fewer if their study
/// would take more than about 256 MB. If the task's sequences end at different positions, it
/// returns one sequence, because means would include padding.
Batch batch_over_time(const Transformer& model, const Task& task, std::int64_t most = 32);

/// The study of the loss at one checkpoint.
struct CheckpointStudy {
  std::int64_t step = 0;  ///< training step of the checkpoint
  double loss = 0;  ///< mean over the targets of a sequence, then the sequences; nats per token
  /// Mean loss over the positions that count for the task's accuracy; nats per token. NaN if no
  /// position counts.
  double counted_loss = 0;
  std::vector<HeadReport> heads;  ///< by layer, then head
  std::vector<LayerFlow> flow;    ///< by layer
};

/// The studies of all checkpoints of a run, on one batch.
struct OverTime {
  std::int64_t sequences = 0;  ///< number of sequences in the batch
  /// Optimal loss of these sequences, comparable to CheckpointStudy::loss. NaN if it is unknown.
  double optimal = std::numeric_limits<double>::quiet_NaN();
  std::vector<CheckpointStudy> checkpoints;  ///< by step

  /// Returns f(checkpoint) for every checkpoint. f may be a pointer to a member.
  template <class F>
  auto by_step(F f) const {
    std::vector<std::decay_t<std::invoke_result_t<F, const CheckpointStudy&>>> values;
    for (const CheckpointStudy& c : checkpoints) values.push_back(std::invoke(f, c));
    return values;
  }
  /// Returns one number of CheckpointStudy::heads[i] for every checkpoint.
  std::vector<double> by_step(std::size_t i, double HeadReport::*value) const {
    return by_step([&](const CheckpointStudy& c) { return c.heads[i].*value; });
  }
  /// Returns one number of CheckpointStudy::flow[i] for every checkpoint.
  std::vector<double> by_step(std::size_t i, double LayerFlow::*value) const {
    return by_step([&](const CheckpointStudy& c) { return c.flow[i].*value; });
  }
};

/// Loads the weights of each checkpoint in turn and studies the loss on the batch. The model keeps
/// the weights of the last checkpoint. Throws IoError, which names the file, if a checkpoint is
/// damaged, if its step is not the one in its name, if its recipe differs from that of the first
/// checkpoint, or if it does not fit the model. Throws NumericError if a loss is not finite.
OverTime over_time(Transformer& model, const std::vector<CheckpointFile>& checkpoints,
                   const Batch& batch, const ProgressCallback& progress = {});

/// The two consecutive checkpoints between which the loss falls fastest per step. The loss is
/// counted_loss, or `loss` if no position counts.
struct SteepestFall {
  std::int64_t from;  ///< step of the first checkpoint
  std::int64_t to;    ///< step of the second checkpoint
  /// Returns the step halfway between them.
  double middle() const { return double(from + to) / 2; }
};
/// Finds the steepest fall. Returns no value if the loss never falls.
std::optional<SteepestFall> steepest_fall(const OverTime& study);

/// Returns at most four heads, as indices of CheckpointStudy::heads in ascending order: those whose
/// score is largest at any checkpoint. A head whose score is NaN at all checkpoints is left out.
std::vector<std::size_t> strongest_heads(const OverTime& study, double HeadReport::*score);

/// Selects at most eight checkpoints for the page, by step: the first, the last and those nearest
/// to the steepest fall. Without a fall it selects the earliest ones instead.
std::vector<CheckpointFile> select_checkpoints(const std::vector<CheckpointFile>& all,
                                               const OverTime& study);

/// Returns the first step at which the score of any head of this layer is at least `least`, or no
/// value if that never happens.
std::optional<std::int64_t> first_reached(const OverTime& study, double HeadReport::*score,
                                          std::int64_t layer, double least);

}  // namespace heed::nn
