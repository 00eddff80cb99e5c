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

/// Whether the task of an opened run must make sequences. Prompts alone need no text file: its
/// vocabulary is in the metadata of the weights.
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
  /// Every file that training writes into the directory itself, kConfig first.
  static constexpr const char* kFiles[] = {kConfig,          kModel,       kBest,
                                           kState,           kMetrics,     kOldMetrics,
                                           kAudit,           kLossPicture, kAttentionPicture,
                                           kCausalityPicture};
  /// Whether a file inside kCheckpoints has the name of a checkpoint: "000200.safetensors".
  static bool is_checkpoint(std::string_view name);

  enum class State {
    kNew,       ///< not a run: there is no kConfig
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

  /// Whether it has a kConfig, as every run has from its start.
  bool is_run() const;
  /// Whether it has weights: the run came as far as its first save.
  bool has_saved() const;
  State state() const;
  /// When it was saved last; nothing if it never was.
  std::optional<std::filesystem::file_time_type> last_saved() const;
  /// The step of kState, which a resume continues from; nothing if there is no such file.
  std::optional<std::int64_t> saved_step() const;
  /// The step that the run was finished with; nothing if it is not finished.
  std::optional<std::int64_t> finished_step() const;

  /// Its configuration, as it was written.
  RunConfig config() const;
  /// The rows of kMetrics. A run that trains, or was killed, has more of them than it has saved.
  std::vector<MetricsRow> metrics() const;
  /// Its checkpoints by step; other files are ignored. IoError also for two files of one step.
  std::vector<CheckpointFile> checkpoints() const;
  /// kModel and its step; nothing if there is no such file or it does not say its step.
  std::optional<CheckpointFile> last_weights() const;
  /// Names of the weights that it has, for open(): kModel, kBest, the last checkpoint.
  std::vector<std::string> weights() const;
  /// Model and task, with the weights of a file inside. IoError also if the configuration is not
  /// that of the weights, and if the text that kSequences needs is gone or changed.
  LoadedRun open(const std::string& weights, Use use) const;

  /// Reads what save() wrote. `moved` is where a text or its lines are now, if not at the path in
  /// kConfig. `warnings`, if given, grows by what a user should know: that other bits follow, and
  /// why.
  Snapshot load(const std::string& moved = "", std::vector<std::string>* warnings = nullptr) const;
  /// Trainer::from(load()): continues bit for bit on the same binary and SIMD target. A run on a
  /// task of one's `own` needs it again.
  Trainer resume(std::unique_ptr<Task> own = nullptr) const;

  /// Writes kConfig and kState, which load() reads, then what others read: kMetrics, kBest and
  /// kModel. `notes` go into kConfig as comments. NumericError, and nothing is written, unless all
  /// weights are finite.
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
