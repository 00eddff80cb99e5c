// The configuration of a training run. RunConfig::settings() lists each value once, with its name,
// range and help text. The command line, config.toml, presets and help all use this list.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "autograd/base/error.h"
#include "nn/lab/settings/setting.h"
#include "nn/lab/settings/toml.h"
#include "nn/lab/tasks/tasks.h"
#include "nn/layers/transformer.h"
#include "nn/optim/schedule.h"

namespace heed::lab {

/// Distribution of the initial weights, which nn/lab/train/make_model.cpp draws. Matrices have
/// shape [out, in].
enum class Init {
  kFanIn,  ///< uniform between -1/sqrt(in) and 1/sqrt(in)
  kTorch,  ///< PyTorch's default initialization of each layer
  kGPT2,   ///< normal with standard deviation 0.02, which is smaller for matrices that write into
           ///< the residual stream; see init::gpt2
  kOnes,   ///< every element is 1
};

/// Optimizer of a run.
enum class OptimizerKind {
  kAdamW,  ///< nn::AdamW
  kSGD     ///< nn::SGD with momentum
};

/// All values that define a run. settings() in config.cpp states the range and the help text of
/// each value.
struct RunConfig {
  // task and data
  std::string task = "induction";  ///< name of the task; "text" and "lines" learn a file
  std::string text;                ///< path of the file that the task "text" learns
  std::string lines;               ///< path of the file that the task "lines" learns
  Unit unit = Unit::kChar;         ///< unit of text of one token, for "text" and "lines"
  /// For the task "lines": targets up to the first occurrence of this character in a line are
  /// ignored. If it is empty, no target is ignored (TextOptions::answer_after).
  std::string answer_after;
  /// Values of the settings `task-KEY`, by KEY. A missing parameter has its default value.
  TaskParameters task_parameters;
  /// Options of the model. The task sets `vocab` and `classes`.
  Transformer::Options model = {.layers = 2,
                                .context = 48,
                                .attention = {.d_model = 64, .heads = 2, .bias = false},
                                .mlp = false,
                                .positions = Positions::kRope};
  Init init = Init::kFanIn;  ///< initial weights of matrices; embeddings: see make_model.cpp
  // start of training
  /// Weights file of an earlier run, from which this run starts (nn/lab/train/source.h). If it is
  /// empty, the initial weights are drawn. A resumed run does not read the file.
  std::string from;
  /// Step and checksum of the weights in `from` (Source::text()), which the constructor of Trainer
  /// sets. It is a record: configurations of new runs cannot set it.
  std::string from_weights;
  // optimizer
  Index batch = 32;  ///< sequences per step
  /// Parts of the batch whose gradients are summed (nn/lab/train/shards.h): a power of two that
  /// divides `batch`. resolve_shards() replaces 0 by a default.
  Index shards = 0;
  /// Must be a power of two. A process computes at most shards / accumulate shards at a time. This
  /// changes no bit of the results. In a new run, a value above `shards` raises `shards`.
  Index accumulate = 1;
  Index steps = 400;         ///< optimizer steps of the whole run; 0: only an evaluation
  Index warmup = 20;         ///< steps of linear warm-up
  Index schedule_steps = 0;  ///< step at which the schedule ends; 0: the last step
  Index decay_steps = 0;     ///< steps of the decay of the schedule `wsd`; 0: a tenth of all
  Decay schedule = Decay::kConstant;                ///< shape of the schedule after the warm-up
  OptimizerKind optimizer = OptimizerKind::kAdamW;  ///< update rule
  double lr = 3e-3;                                 ///< peak learning rate
  double min_lr = 0;                                ///< learning rate at the end of the schedule
  double beta1 = 0.9;                               ///< AdamW: decay rate of the mean of gradients
  double beta2 = 0.98;  ///< AdamW: decay rate of the mean of squared gradients
  double eps = 1e-8;    ///< AdamW: added to the square root in the denominator of an update
  double momentum = 0;  ///< SGD: factor of the previous update in the next update
  double weight_decay =
      0;  ///< applied to matrices only; decoupled for AdamW, added to the gradient for SGD
  double clip = 1;  ///< largest allowed global norm of the gradient; 0: no clipping
  // run
  std::int64_t seed = 1;   ///< seed of initialization, data and dropout
  Index eval_every = 50;   ///< steps between evaluations; 0: only at the end
  Index eval_batch = 256;  ///< sequences in each evaluation during the run
  /// Training sequences in each evaluation, if Task::holds_out(); 0: none.
  Index eval_train = 512;
  Index save_every = 0;    ///< steps between checkpoints of the weights; 0: no checkpoints
  Index sample_every = 0;  ///< steps between continuations that are printed; 0: none
  // conditions that end the run before its last step
  /// The run ends after this number of evaluations in a row without a lower loss; 0: never.
  Index patience = 0;
  double target_loss = 0;  ///< the run ends at an eval_loss of at most this, nats; 0: never
  /// Not a setting: if an earlier version trained the run with an option that heed no longer has,
  /// the error of Trainer's constructor. If it is empty, there is none.
  std::string removed = {};

  /// Returns one Setting per value, in the order of config.toml. The settings refer to this
  /// RunConfig, which must outlive them.
  std::vector<Setting> settings();
};

/// Returns the names that preset() accepts. These are the built-in tasks, the variant
/// "modadd-paper", the preset "shakespeare-cpu" for files, and the presets for measuring speed:
/// micro, toy, chargpt and small (nn/lab/train/README.md).
std::vector<std::string> preset_names();
/// Returns the name of the preset that a task starts from: "shakespeare-cpu" for "text" and
/// "lines", and the task's own name for all other tasks.
std::string preset_of(const std::string& task);
/// Returns the configuration of the preset `name`. Throws ValueError that names the nearest preset
/// if `name` is unknown.
RunConfig preset(std::string_view name);
/// Returns the approximate seconds that `heed train` takes with this preset on 2 otherwise idle
/// cores, or 0 if the time was not measured.
int preset_seconds(std::string_view name);

/// Throws ValueError if a value is out of range or contradicts another value, or if a path is not
/// UTF-8. The error names the setting and what it accepts. The text, the vocabulary and the memory
/// are checked later, when the task and the model are created.
void validate(const RunConfig& config);

/// Returns the contents of config.toml: a [train] section. Each double is the shortest text that
/// reads back to the same value. A second run from this text, on the same binary and SIMD target,
/// has the same bits. Empty texts and settings that only other tasks use are left out. The lines of
/// `extra`, such as the compiler and the SIMD target, are written above the section as comments.
std::string to_toml(const RunConfig& config, const std::vector<std::string>& extra = {});
/// Thrown if a configuration states something that an earlier version of heed had.
struct RemovedError : autograd::ValueError {
  using ValueError::ValueError;
};
/// Returns whether an item is a setting of an earlier version that heed no longer has. Throws
/// RemovedError if its value changed the model or its data, and for a value that a remaining
/// setting no longer has, such as a task. If the value changed only the training, the error is
/// thrown if `error` is null; otherwise its text is written there.
bool is_removed(const TomlItem& item, std::string* error = nullptr);

/// Sets the values of the items, which read_toml() returned. Throws the errors of from_toml().
void apply_toml(const std::vector<TomlItem>& items, RunConfig& config);
/// Reads the text that to_toml() wrote. A missing key means the default. Throws ValueError that
/// names `file` and the key if a key is unknown or out of range, and the errors of is_removed().
RunConfig from_toml(const std::string& text, const std::string& file = "config");

/// Returns whether the task reads a file, that is, whether it is "text" or "lines".
bool learns_file(const RunConfig& config);
/// Returns what may prevent a loss that is not finite, such as "lower `lr` (now 1) or set `clip`".
std::string divergence_advice(const RunConfig& config);
/// Returns the options of make_text() for a task that reads a file.
TextOptions text_options(const RunConfig& config);

/// Returns the learning-rate schedule of the run.
Schedule schedule(const RunConfig& config);

/// Returns the model of a run for a task with `vocab` input tokens and `classes` output tokens. Its
/// initial weights are drawn from `g` as config.init states.
/// Throws ValueError if the weights need more memory than is available.
Transformer make_model(const RunConfig& config, Index vocab, Index classes, Generator& g);

}  // namespace heed::lab

template <>
inline constexpr auto heed::nn::kEnumNames<heed::lab::Init> = std::to_array({"fan-in", "torch",
                                                                             "gpt2", "ones"});
template <>
inline constexpr auto heed::nn::kEnumNames<heed::lab::OptimizerKind> = std::to_array({"adamw",
                                                                                      "sgd"});
