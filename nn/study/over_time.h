// What training does to each head: the numbers of a study at every checkpoint of a run.
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

/// The first `most` sequences of the evaluation set, fewer where a study of them would take more
/// than about 256 MB, and one where sequences end at different places: means would be of padding.
Batch batch_over_time(const Transformer& model, const Task& task, std::int64_t most = 32);

/// The study of the loss at one checkpoint.
struct Moment {
  std::int64_t step = 0;
  double loss = 0;          ///< of a sequence's targets, mean over the sequences; nats per token
  double counted_loss = 0;  ///< mean over the positions of the task's accuracy; NaN if none counts
  std::vector<HeadReport> heads;
  std::vector<LayerFlow> flow;
};

struct OverTime {
  std::int64_t sequences = 0;
  double optimal = std::numeric_limits<double>::quiet_NaN();  ///< of these, as Moment::loss
  std::vector<Moment> moments;                                ///< by step

  /// A member, or a function, of every moment.
  template <class F>
  auto by_step(F f) const {
    std::vector<std::decay_t<std::invoke_result_t<F, const Moment&>>> values;
    for (const Moment& m : moments) values.push_back(std::invoke(f, m));
    return values;
  }
  /// The value of Moment::heads[i], or Moment::flow[i], at every moment.
  std::vector<double> by_step(std::size_t i, double HeadReport::*value) const {
    return by_step([&](const Moment& m) { return m.heads[i].*value; });
  }
  std::vector<double> by_step(std::size_t i, double LayerFlow::*value) const {
    return by_step([&](const Moment& m) { return m.flow[i].*value; });
  }
};

/// Studies the loss on this batch with the weights of each checkpoint in turn, those of the last
/// one stay in the model. IoError naming the file for one that is damaged, is of another step than
/// its name says, of another recipe than the first, or does not fit the model; NumericError for
/// weights whose loss is not finite.
OverTime over_time(Transformer& model, const std::vector<CheckpointFile>& checkpoints,
                   const Batch& batch, const ProgressCallback& progress = {});

/// Between which checkpoints the loss falls fastest: of the counted tokens, of all where none
/// counts.
struct SteepestFall {
  std::int64_t from, to;  ///< steps
  double middle() const { return double(from + to) / 2; }
};
/// Nothing if it never falls.
std::optional<SteepestFall> steepest_fall(const OverTime& study);

/// The heads, as indices of Moment::heads in their order, whose score is largest at any checkpoint:
/// at most four, none whose score is NaN throughout.
std::vector<std::size_t> strongest_heads(const OverTime& study, double HeadReport::*score);

/// The checkpoints to look at closely: the first, the last and those nearest to the steepest fall,
/// without one the earliest; at most eight, by step.
std::vector<CheckpointFile> telling_checkpoints(const std::vector<CheckpointFile>& all,
                                                const OverTime& study);

/// The first step at which a head of this layer reaches `least`; nothing if none ever does.
std::optional<std::int64_t> first_reached(const OverTime& study, double HeadReport::*score,
                                          std::int64_t layer, double least);

}  // namespace heed::nn
