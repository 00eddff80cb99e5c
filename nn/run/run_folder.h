// The directory of a training run. RunFolder is the only code that contains the names of the files
// of a run.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/io/safetensors.h"
#include "nn/run/run_result.h"
#include "nn/run/staged_folder.h"
#include "nn/train/trainer.h"

namespace heed::nn {

using autograd::Directory;
using autograd::PathAt;

/// A file with the weights of one step: checkpoints/000200.safetensors, or RunFolder::kModel.
struct CheckpointFile {
  std::int64_t step;           ///< step of the weights
  std::filesystem::path file;  ///< path, including the run's directory
};

/// The intended use of the task of an opened run.
enum class Use {
  /// Only prompts are needed. A text file need not exist, because its vocabulary is in the metadata
  /// of the weights.
  kPrompts,
  /// Training or evaluation sequences are needed.
  kSequences
};

/// A run that was opened to evaluate it, to generate from it or to study it.
struct LoadedRun {
  RunConfig config;                  ///< the run's configuration
  std::unique_ptr<Task> task;        ///< task of the run; Use::kPrompts: only for prompts
  Transformer model;                 ///< model of the run, with the weights of the file
  std::optional<std::int64_t> step;  ///< step of the weights, if the file contains it
  std::string note;                  ///< note about the file for the user; "" if none
};

/// The directory of a run. The object stores only the path, and every function reads the disk
/// again. If it was constructed from an open directory, all files are written into this directory,
/// even if it is moved. Every file is written atomically (write_file). All functions throw IoError
/// that states the file and the reason if a file cannot be read, written or understood.
class RunFolder {
 public:
  static constexpr const char* kConfig = "config.toml";       ///< the configuration
  static constexpr const char* kModel = "model.safetensors";  ///< weights of the last save
  static constexpr const char* kBest = "best.safetensors";    ///< weights with the lowest eval_loss
  static constexpr const char* kState = "state.safetensors";  ///< snapshot for a resume
  static constexpr const char* kMetrics = "metrics.csv";      ///< the history
  static constexpr const char* kHeads = "heads.csv";          ///< numbers of each head (HeadAlarms)
  static constexpr const char* kSamples = "samples.txt";      ///< continuations while training
  static constexpr const char* kAudit = "audit.txt";          ///< StepAudit of the first step
  static constexpr const char* kLossPicture = "loss.png";     ///< loss curves
  static constexpr const char* kAttentionPicture = "attention.png";  ///< attention patterns
  static constexpr const char* kCausalityPicture = "causality.png";  ///< by `heed verify causality`
  static constexpr const char* kLengthsPicture = "lengths.png";      ///< by `heed eval --context`
  static constexpr const char* kCheckpoints = "checkpoints";         ///< directory of checkpoints
  static constexpr const char* kResult = "result.json";  ///< RunResult of a finished run
  /// Names of all files directly inside the directory; kConfig is the first.
  static constexpr const char* kFiles[] = {kConfig,
                                           kModel,
                                           kBest,
                                           kState,
                                           kMetrics,
                                           kHeads,
                                           kSamples,
                                           kAudit,
                                           kLossPicture,
                                           kAttentionPicture,
                                           kCausalityPicture,
                                           kLengthsPicture,
                                           kResult};
  /// Returns whether `name` is a file name of a checkpoint inside kCheckpoints, such as
  /// "000200.safetensors".
  static bool is_checkpoint(std::string_view name);

  /// State of a run on disk.
  enum class State {
    kNew,       ///< not a run: kConfig is missing
    kUnsaved,   ///< started, but stopped before the first save
    kSaved,     ///< not finished, or kModel is damaged; a resume continues from kState
    kFinished,  ///< finished; a resume has an effect only with more steps
  };

  /// Stores the path. The directory need not exist.
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  /// Stores an open directory, such as StagedFolder::directory().
  explicit RunFolder(std::shared_ptr<const Directory> directory)
      : directory_(std::move(directory)) {}
  /// Returns the runs in the directory `runs`, ordered by path. Directories that cannot be read,
  /// and links whose target cannot be determined, are included. Finishes interrupted publications
  /// first (finish_publication).
  static std::vector<RunFolder> list(const std::filesystem::path& runs);
  /// Returns the run that was saved last; nothing if no run in `runs` was saved.
  static std::optional<RunFolder> newest(const std::filesystem::path& runs = "runs");
  /// Creates and locks a directory for a new run: the first of runs/TASK-1, runs/TASK-2, ... that
  /// does not exist.
  static std::unique_ptr<StagedFolder> make_next(const std::string& task,
                                                 const std::filesystem::path& runs = "runs");
  /// Returns a description of the files of a run, which a new run replaces.
  static ResultFiles result_files();

  /// Returns the path that was passed to the constructor, or the current path of the open directory
  /// (Directory::path).
  std::filesystem::path path() const {
    return directory_ ? std::filesystem::path(directory_->path()) : path_;
  }
  /// Returns the path as text, for messages.
  std::string text() const { return path().string(); }
  /// Returns the path of a file inside the directory, to read it.
  std::filesystem::path file(std::string_view name) const { return path() / name; }
  /// Returns the path of a file inside the directory, to write it.
  PathAt target(std::string_view name) const;
  /// Returns the same run with its directory open. Throws IoError if it cannot be opened.
  RunFolder opened() const;
  /// Returns whether the open directory was removed; false if the object stores only a path.
  bool is_removed() const { return directory_ && directory_->is_removed(); }

  /// Returns whether kConfig exists. Every run has this file from its start.
  bool is_run() const;
  /// Returns whether kModel or kState exists, that is, whether the run has been saved at least
  /// once.
  bool has_saved() const;
  /// Returns whether all files exist that a run has from its first save on.
  bool is_complete() const;
  /// Returns the state of the run. Reads all of kModel if it is marked as finished.
  State state() const;
  /// Returns the time of the last save; nothing if there was none.
  std::optional<std::filesystem::file_time_type> last_saved() const;
  /// Returns the step of kState, from which a resume continues; nothing if the file is missing.
  std::optional<std::int64_t> saved_step() const;
  /// Returns the last step of a run that is marked as finished, otherwise nothing. Reads only the
  /// metadata of kModel; state() also verifies the weights.
  std::optional<std::int64_t> finished_step() const;
  /// How verify() found that a file is whole.
  enum class Proof {
    kNone,      ///< nothing proves it: the file has no checksum and was only read
    kFormat,    ///< the format is valid, but kState, which proves more, is missing or damaged
    kState,     ///< kState has the same recipe (kConfig) or the same numbers (kMetrics)
    kChecksum,  ///< the checksum in the file
  };
  /// Reads all of a file: one of kFiles or a checkpoint, such as "checkpoints/000200.safetensors".
  /// Throws an Error with the reason if the file is missing or damaged.
  Proof verify(const std::string& name) const;

  /// Reads and validates kConfig.
  RunConfig config() const;
  /// Reads kMetrics. If the run is not marked as finished, the file may contain rows after the last
  /// save, and an incomplete last line, which is ignored. Throws IoError ("damaged, line N: ...")
  /// if the file is invalid, or if the history of a finished run is incomplete.
  std::vector<MetricsRow> metrics() const;
  /// Returns the result of a finished run. Returns nothing if the run is not finished, or if
  /// kResult is missing or damaged or is not the result of these weights. Runs of earlier versions
  /// have no result.
  std::optional<RunResult> result() const;
  /// Returns RunResult::seconds of a finished run, also from a file that `heed sweep` of an earlier
  /// version wrote. Returns nothing if this is unknown.
  std::optional<double> seconds() const;
  /// Returns the checkpoints ordered by step. Ignores other files. Throws IoError if two files have
  /// the same step.
  std::vector<CheckpointFile> checkpoints() const;
  /// Returns kModel and its step; nothing if the file or the step in its metadata is missing.
  std::optional<CheckpointFile> last_weights() const;
  /// Returns the names of weights files that open() accepts and that exist: kModel, kBest and the
  /// last checkpoint.
  std::vector<std::string> weights() const;
  /// Returns task and model, with weights from the file `weights` inside the directory. Throws
  /// IoError if the weights were trained with another configuration. If `use` is Use::kSequences,
  /// also throws TextError if the text file is missing or has changed.
  LoadedRun open(const std::string& weights, Use use) const;

  /// Reads the files that save() wrote. If the run's text file was moved after kConfig was written,
  /// `moved` must be its new path, and `moved_val` that of its held-out file. If `warnings` is
  /// given, appends the sentences of snapshot_warnings() to it: reasons why the run may not
  /// continue with the same bits.
  Snapshot load(const std::string& moved = "", std::vector<std::string>* warnings = nullptr,
                const std::string& moved_val = "") const;
  /// Returns Trainer::from(load()). Training continues with the same bits on the same binary and
  /// SIMD target. `own` is the task of a run that was trained on a user-defined task.
  Trainer resume(std::unique_ptr<Task> own = nullptr) const;

  /// Writes kConfig and kState, which load() reads, then kMetrics, kBest and kModel. `notes` become
  /// comments in kConfig. Throws NumericError, without writing anything, unless all weights are
  /// finite.
  void save(const Snapshot& snapshot, const std::vector<std::string>& notes = {}) const;
  /// Writes kConfig with `notes` as comments.
  void save_config(const RunConfig& config, const std::vector<std::string>& notes) const;
  /// Writes only kMetrics and kBest. This function is called after the evaluation at the end of a
  /// run. A longer run would not perform this evaluation, so kState must not contain it.
  void save_results(const Snapshot& snapshot) const;
  /// Writes the weights as the checkpoint of their step. The run's directory must exist.
  void save_checkpoint(const Snapshot& snapshot) const;
  /// Writes `result` as kResult, with step and checksum of the weights. Then writes the weights as
  /// kModel and marks the run as finished. The mark is the checksum of the weights.
  void finish(const Snapshot& snapshot, RunResult result) const;
  /// Writes only kResult. The members `steps` and `weights_checksum` must be set.
  void save_result(const RunResult& result) const;

 private:
  std::vector<MetricsRow> read_metrics(std::optional<std::int64_t> finished_step) const;
  // `mark` is the checksum of the weights if the run is finished, otherwise "".
  void save_weights(const std::string& name, const Snapshot& snapshot,
                    const std::string& mark = "") const;

  std::filesystem::path path_;                  // not used if `directory_` is not null
  std::shared_ptr<const Directory> directory_;  // null: the object stores only the path
};

}  // namespace heed::nn
