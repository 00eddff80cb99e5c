// State of a training run as a value. Trainer creates and restores it; RunFolder (nn/lab/run)
// stores it on disk.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/io/named_tensor.h"
#include "nn/io/safetensors.h"
#include "nn/lab/train/config.h"
#include "nn/lab/train/metrics.h"

namespace heed::lab {

/// Key of the text of config.toml in the metadata of a saved snapshot, and of a file that
/// `heed export` wrote.
inline constexpr const char* kConfigKey = "config";

/// Everything that determines the remaining steps of a run and the contents of its files.
struct Snapshot {
  RunConfig config;  ///< configuration of the run
  Index step = 0;    ///< number of steps done
  /// Tensors named "model.NAME", "optimizer.NAME" and, after the first evaluation, "best.NAME".
  /// Trainer::snapshot() returns tensors that share the trainer's memory, so that the next step
  /// changes them.
  std::vector<NamedTensor> tensors = {};
  std::vector<MetricsRow> history = {};          ///< Trainer::history()
  std::optional<double> best_loss = {};          ///< lowest finite eval_loss, if any
  Index best_step = 0;                           ///< step at which `best_loss` was measured
  std::string data_stream = {};                  ///< Generator::state() of the stream of batches
  std::string dropout_stream = {};               ///< Generator::state() of the stream of dropout
  std::map<std::string, std::string> data = {};  ///< entries of TaskInfo::data
  ///@{
  /// Members that only a finished run sets. Trainer::from() ignores them.
  bool finished = false;
  std::string result = {};  ///< the final evaluation as JSON, see RunResult in nn/lab/run
  /// The evaluation after the last step, if a longer run would not perform it. Then neither
  /// `history` nor `best_loss` contains it.
  std::optional<MetricsRow> last_evaluation = {};
  ///@}
  std::string origin = "the snapshot";  ///< source to name in errors, such as a path

  /// Returns the tensors whose names begin with `prefix`, and removes `prefix` from the names.
  std::vector<NamedTensor> part(std::string_view prefix) const;
  /// Returns the prefix with which part() returns the weights of the lowest eval_loss, and the step
  /// of these weights. Before the first evaluation, part() has no tensors with this prefix.
  std::pair<std::string_view, Index> best() const;
  /// Returns the history with `last_evaluation`.
  std::vector<MetricsRow> whole_history() const;
};

/// Reads the weights of a model: all tensors of a weights file, or those named "model.NAME" of a
/// saved snapshot, without the prefix. Throws the errors of load_safetensors().
SafeTensors load_weights(const std::string& path);

/// Returns the CRC-32C of the history of steps, the weights, the optimizer's state and the random
/// streams. Evaluations and the best weights are left out.
std::uint32_t hash_of(const Snapshot& snapshot);

/// Returns the recipe of a run: the settings that a resumed run must share with the saved run. The
/// text is that of config.toml with default values for the settings that a resumed run may change,
/// such as the number of steps, the intervals, the conditions of an early end and the paths of text
/// files. The contents of a text file are compared elsewhere (saved_task).
std::string recipe_text(RunConfig config);
/// A setting whose values differ in two recipes, as lines of config.toml: "lr = 0.003".
struct RecipeDifference {
  std::string a;  ///< line of the first recipe
  std::string b;  ///< line of the second recipe
};
/// Returns the first setting whose values differ in the recipes `a` and `b`, or nothing if there is
/// none. Values are compared, so that 0.1 equals 0.10. Throws ValueError if a recipe cannot be
/// parsed; an error in `b` names `b_origin` as its source.
std::optional<RecipeDifference> recipe_difference(const std::string& a, const std::string& b,
                                                  const std::string& b_origin);

/// Thrown if the sequences of a saved run are not available: its text file cannot be read or no
/// longer has the text of the run, or another program defines its task.
struct TextError : autograd::IoError {
  using IoError::IoError;
};
/// Returns the task of a saved run: `own` if it is given, else the task that `config` names. `data`
/// was read from `origin`. Throws TextError if the sequences are not available, and IoError if
/// `data` is incomplete. If `can_resume` is false, no error advises to resume the run.
std::unique_ptr<Task> saved_task(const RunConfig& config,
                                 const std::map<std::string, std::string>& data,
                                 const std::string& origin, std::unique_ptr<Task> own = nullptr,
                                 bool can_resume = true);

}  // namespace heed::lab
