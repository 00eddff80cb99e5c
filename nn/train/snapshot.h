// The state of a training run as a value: Trainer makes and restores it, RunFolder (nn/run) keeps
// it on disk.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/io/named_tensor.h"
#include "nn/train/config.h"
#include "nn/train/metrics.h"

namespace heed::nn {

/// Everything that decides the steps to come and the contents of a run's files.
struct Snapshot {
  RunConfig config;
  std::int64_t step = 0;  ///< steps done
  /// "model.NAME", "optimizer.NAME" and, once a run was evaluated, "best.NAME". Those of
  /// Trainer::snapshot() share its memory: they are the trainer's until its next step.
  std::vector<NamedTensor> tensors = {};
  std::vector<MetricsRow> history = {};  ///< a row per step or evaluation
  std::optional<double> best_loss = {};  ///< lowest finite evaluation loss, and its step
  std::int64_t best_step = 0;
  std::string data_stream = {}, dropout_stream = {};  ///< Generator::state()
  /// Identifies the training data, by name (TaskInfo::data).
  std::map<std::string, std::string> data = {};
  std::string origin = "the snapshot";  ///< what errors name: the file it was read from

  /// The tensors whose names begin with `prefix`, without it.
  std::vector<NamedTensor> part(std::string_view prefix) const;
};

/// CRC-32C of rows, weights, moments and random streams; evaluations are left out.
std::uint32_t hash_of(const Snapshot& snapshot);

/// The settings that a resumed run must share with the run that was saved, as text: config.toml
/// without length, intervals, rules of an early end and the path of a text (whose contents are
/// compared instead).
std::string recipe_text(RunConfig config);
/// A setting that two recipes do not share, as lines of config.toml: "lr = 0.003".
struct RecipeDifference {
  std::string a, b;
};
/// The first setting whose values differ. Values are compared, not their spelling. `b_origin` is
/// what errors name if `b` cannot be parsed. ValueError.
std::optional<RecipeDifference> recipe_difference(const std::string& a, const std::string& b,
                                                  const std::string& b_origin);

/// The task of a saved run: `own`, or the one that `config` names. IoError unless its data are
/// those of `data`, which was read from `origin`, and for a text that is not at its path any more.
std::unique_ptr<Task> saved_task(const RunConfig& config,
                                 const std::map<std::string, std::string>& data,
                                 const std::string& origin, std::unique_ptr<Task> own = nullptr);

}  // namespace heed::nn
