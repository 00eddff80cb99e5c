// A training run on disk. The only code that spells the names of a run's files.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/io/safetensors.h"
#include "nn/run/staged_folder.h"
#include "nn/train/trainer.h"

namespace heed::nn {

/// The weights of one step: checkpoints/000200.safetensors.
struct CheckpointFile {
  std::int64_t step;
  std::filesystem::path file;
};

/// Use of an opened run's task. Prompts alone need no text file: its vocabulary is in the metadata
/// of the weights.
enum class Use { kPrompts, kSequences };

/// A run that was opened to be evaluated, continued with prompts or studied.
struct LoadedRun {
  RunConfig config;
  std::unique_ptr<Task> task;
  Transformer model;
  std::optional<std::int64_t> step;  ///< of these weights, if the file has it
  std::string note;                  ///< what a user should know of the file, or ""
};

/// The directory of a run. It holds a path only: each function reads the disk anew. Every file is
/// written atomically (write_file). Functions throw IoError that names the file and the reason.
class RunFolder {
 public:
  // Names inside the directory.
  static constexpr const char *kConfig = "config.toml", *kModel = "model.safetensors",
                              *kBest = "best.safetensors", *kState = "state.safetensors",
                              *kMetrics = "metrics.csv", *kAudit = "audit.txt",
                              *kLossPicture = "loss.png", *kAttentionPicture = "attention.png",
                              *kCausalityPicture = "causality.png",
                              *kOldMetrics =
                                  "metrics.jsonl",  ///< of heed 0.1: the same as kMetrics
                                  *kCheckpoints = "checkpoints",  ///< a directory
                                      *kResult = "result.json";   ///< written by heed sweep alone
  /// Every file of a run in the directory itself, kConfig first.
  static constexpr const char* kFiles[] = {kConfig,
                                           kModel,
                                           kBest,
                                           kState,
                                           kMetrics,
                                           kOldMetrics,
                                           kAudit,
                                           kLossPicture,
                                           kAttentionPicture,
                                           kCausalityPicture,
                                           kResult};
  /// Returns whether a name inside kCheckpoints is that of a checkpoint: "000200.safetensors".
  static bool is_checkpoint(std::string_view name);

  enum class State {
    kNew,       ///< not a run: it has no kConfig
    kUnsaved,   ///< begun, and killed before its first save
    kSaved,     ///< a resume continues it
    kFinished,  ///< trained to its end: a resume has nothing to do, unless it is made longer
  };

  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  /// The runs in a directory of runs, by name. Directories that cannot be read are among them. What
  /// a kill left of a new run is put in order first.
  static std::vector<RunFolder> list(const std::filesystem::path& runs);
  /// The run that was saved last; nothing if no run in `runs` was saved.
  static std::optional<RunFolder> newest(const std::filesystem::path& runs = "runs");
  /// Opens the first directory runs/TASK-N, N = 1, 2, ..., that does not exist, for a new run.
  static std::unique_ptr<StagedFolder> make_next(const std::string& task,
                                                 const std::filesystem::path& runs = "runs");
  /// The files that a new run replaces.
  static ResultFiles result_files();

  const std::filesystem::path& path() const { return path_; }
  std::string text() const { return path_.string(); }
  std::filesystem::path file(std::string_view name) const { return path_ / name; }

  /// Returns whether there is a kConfig, as in every run from its start.
  bool is_run() const;
  /// Returns whether there are weights: the run came as far as its first save.
  bool has_saved() const;
  State state() const;
  /// Time of the last save; nothing if there was none.
  std::optional<std::filesystem::file_time_type> last_saved() const;
  /// Step of kState, from which a resume continues; nothing without that file.
  std::optional<std::int64_t> saved_step() const;
  /// Last step of a finished run; nothing if it is not finished.
  std::optional<std::int64_t> finished_step() const;

  /// Reads and validates kConfig.
  RunConfig config() const;
  /// Reads kMetrics. A run that trains, or was killed, has more rows than its last save.
  std::vector<MetricsRow> metrics() const;
  /// Returns the checkpoints by step and ignores other files. IoError also for two files of one
  /// step.
  std::vector<CheckpointFile> checkpoints() const;
  /// Returns kModel and its step; nothing without that file or if its metadata have no step.
  std::optional<CheckpointFile> last_weights() const;
  /// Returns the names of its weights, for open(): kModel, kBest, the last checkpoint.
  std::vector<std::string> weights() const;
  /// Returns model and task, with the weights of a file inside. IoError also if the weights were
  /// trained with another configuration, and if the text that kSequences needs is gone or changed.
  LoadedRun open(const std::string& weights, Use use) const;

  /// Reads what save() wrote. `moved` is where a text or its lines are now, if not at the path in
  /// kConfig. Appends to `warnings`, if given, each reason why the run will continue with other
  /// bits.
  Snapshot load(const std::string& moved = "", std::vector<std::string>* warnings = nullptr) const;
  /// Returns Trainer::from(load()): continues bit for bit on the same binary and SIMD target. `own`
  /// is the task of a run that was made with a user's own one.
  Trainer resume(std::unique_ptr<Task> own = nullptr) const;

  /// Writes kConfig and kState, which load() reads, then kMetrics, kBest and kModel. `notes` go
  /// into kConfig as comments. NumericError, and nothing is written, unless all weights are finite.
  void save(const Snapshot& snapshot, const std::vector<std::string>& notes = {}) const;
  void save_config(const RunConfig& config, const std::vector<std::string>& notes) const;
  /// Writes kMetrics and kBest only: for an evaluation that a longer run would not have, and that
  /// kState must not contain.
  void save_results(const Snapshot& snapshot) const;
  /// Writes the weights as a checkpoint of their step. The run's directory must exist.
  void save_checkpoint(const Snapshot& snapshot) const;
  /// Writes the weights as kModel and marks the run as finished.
  void finish(const Snapshot& snapshot) const;

 private:
  void save_weights(const std::string& name, const Snapshot& snapshot, bool finished) const;

  std::filesystem::path path_;
};

}  // namespace heed::nn
