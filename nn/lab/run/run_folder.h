// The directory of a training run. RunFolder is the only code that contains the names of the files
// of a run.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "nn/io/safetensors.h"
#include "nn/lab/run/locked_folder.h"
#include "nn/lab/run/run_result.h"
#include "nn/lab/train/trainer.h"

namespace heed::lab {

/// A file with the weights of one step: checkpoints/000200.safetensors, or RunFolder::kState.
struct CheckpointFile {
  Index step;                  ///< step of the weights
  std::filesystem::path file;  ///< path, including the run's directory
};

/// The intended use of the task of an opened run.
enum class Use {
  /// Only prompts are needed. A text file or the program that defines the task need not exist,
  /// because the vocabulary is in the metadata of the weights.
  kPrompts,
  /// Training or evaluation sequences are needed.
  kSequences
};

/// A run that was opened to evaluate it, to generate from it or to study it.
struct LoadedRun {
  RunConfig config;            ///< the run's configuration
  std::unique_ptr<Task> task;  ///< task of the run; Use::kPrompts: only for prompts
  Transformer model;           ///< model of the run, with the weights of the file
  std::string weights;         ///< name of the file
  std::optional<Index> step;   ///< step of the weights, if the file contains it
  std::string note;            ///< note about the file for the user; "" if none
};

/// The contents of the header of RunFolder::kState, without the tensors.
struct RunSummary {
  RunConfig config;                                ///< the run's configuration
  std::optional<Index> step = {};                  ///< step of the last save, if known
  bool finished = false;                           ///< true: trained to the last step or early end
  std::optional<RunResult> result = {};            ///< of a finished run
  std::string note = {};                           ///< the error in a damaged result, or ""
  std::optional<MetricsRow> last_evaluation = {};  ///< the last row with an evaluation
};

/// The directory of a run. The object stores only the path, and every function reads the disk
/// again. Every file is written atomically (write_file), and never through a symbolic link inside
/// the directory. Unless stated otherwise, all functions throw IoError with file and reason if a
/// file cannot be read, written or parsed.
///
/// kState is the run. All other files that save() writes are copies of parts of it. A directory
/// with only kConfig and kModel is a run of weights, which can be used but not resumed.
class RunFolder {
 public:
  static constexpr const char* kState = "state.safetensors";  ///< the run
  static constexpr const char* kConfig = "config.toml";       ///< configuration of the run
  static constexpr const char* kModel = "model.safetensors";  ///< weights of the last save
  static constexpr const char* kBest = "best.safetensors";    ///< weights with the lowest eval_loss
  static constexpr const char* kMetrics = "metrics.csv";      ///< the history
  static constexpr const char* kLossPicture = "loss.png";     ///< loss curves
  static constexpr const char* kAttentionPicture = "attention.png";  ///< attention patterns
  static constexpr const char* kCheckpoints = "checkpoints";         ///< directory of checkpoints
  /// Names of all files directly inside the directory.
  static constexpr const char* kFiles[] = {kState,   kConfig,      kModel,           kBest,
                                           kMetrics, kLossPicture, kAttentionPicture};
  /// Returns whether a run has files of this name, such as "loss.png" or
  /// "checkpoints/000200.safetensors".
  static bool contains(const std::string& name);
  /// Returns whether `name` is that of a temporary file of write_file() for such a file:
  /// "loss.png.tmp123.0".
  static bool is_temporary(const std::string& name);

  /// Stores the path. The directory need not exist.
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  /// Returns the runs in the directory `runs`, ordered by path. Directories that cannot be read,
  /// and links whose target cannot be determined, are included.
  static std::vector<RunFolder> list(const std::filesystem::path& runs);
  /// Returns the run that was saved last; nothing if no run in `runs` was saved.
  static std::optional<RunFolder> newest(const std::filesystem::path& runs = "runs");
  /// Creates and locks a directory for a new run: the first of runs/TASK-1, runs/TASK-2, ... that
  /// does not exist.
  static LockedFolder make_next(const std::string& task,
                                const std::filesystem::path& runs = "runs");
  /// Removes temporary files of killed processes, if the directory is locked.
  static void remove_temporaries(const LockedFolder& run);

  /// Returns the path that was passed to the constructor.
  const std::filesystem::path& path() const { return path_; }
  /// Returns the path as text, for messages.
  std::string text() const { return path_.string(); }
  /// Returns the path of a file inside the directory.
  std::filesystem::path file(std::string_view name) const { return path_ / name; }

  /// Returns whether the directory is a run: whether it has kState, or kConfig and kModel.
  bool is_run() const;
  /// Returns whether the directory has kState. Only then the run can be resumed.
  bool has_state() const;
  /// Returns the time of the last save; nothing if there was none or the directory is inaccessible.
  std::optional<std::filesystem::file_time_type> last_saved() const;
  /// Reads the header of kState; of a run of weights, kConfig and the header of kModel. Does not
  /// read the tensors, so their checksum is not verified.
  RunSummary summary() const;
  /// Returns the configuration in summary().
  RunConfig config() const;
  /// Returns the checkpoints up to the step of kState, ordered by step; all of them if kState is
  /// missing or damaged. Ignores other files.
  std::vector<CheckpointFile> checkpoints() const;
  /// Returns the names of weights files that open() accepts and that exist: kModel, kBest and the
  /// last checkpoint.
  std::vector<std::string> weights() const;
  /// Returns task and model, with weights from the file `weights` inside the directory. If
  /// `weights` is kState but the run has only weights, reads kModel instead. Throws IoError if the
  /// weights were trained with another recipe (recipe_text()). If `use` is Use::kSequences, also
  /// throws TextError if the text file is missing or has changed.
  LoadedRun open(const std::string& weights, Use use) const;

  /// Reads kState. If the text file was moved, `moved` must be its new path. If `warnings` is
  /// given, appends to it the sentences of snapshot_warnings(), and one if kConfig differs from
  /// kState. Throws ValueError if the run has no file that `moved` could replace.
  Snapshot load(const std::string& moved = "", std::vector<std::string>* warnings = nullptr) const;
  /// Returns Trainer::from(load()). Training continues with the same bits on the same binary and
  /// SIMD target. `own` is the task of a run that was trained on a user-defined task.
  Trainer resume(std::unique_ptr<Task> own = nullptr) const;

  /// Writes kState, then its copies kConfig, kMetrics, kBest and kModel. `notes` become comments in
  /// kConfig. Throws NumericError, without writing anything, unless all weights are finite.
  void save(const Snapshot& snapshot, const std::vector<std::string>& notes = {}) const;
  /// Writes the weights as the checkpoint of their step. The run's directory must exist.
  void save_checkpoint(const Snapshot& snapshot) const;
  /// Removes the files of an earlier run that save(snapshot) of a new run has not replaced, such as
  /// checkpoints and pictures. If kCheckpoints is a symbolic link, removes the link. Throws IoError
  /// if a file cannot be removed.
  void remove_earlier(const Snapshot& snapshot) const;
  /// Makes the directory a run of weights, without a step: writes kModel, whose metadata contain
  /// the configuration, and kConfig, and removes the files of an earlier run. At each moment, the
  /// directory has the earlier or the new run.
  void save_as_weights(const Snapshot& snapshot) const;

 private:
  using Metadata = std::map<std::string, std::string>;
  RunConfig config_in(const Metadata& metadata) const;
  std::vector<std::string> names() const;
  void remove_others(std::set<std::string> kept) const;
  void save_weights(const std::string& name, const Snapshot& snapshot, std::string_view part,
                    Index step) const;

  std::filesystem::path path_;
};

}  // namespace heed::lab
