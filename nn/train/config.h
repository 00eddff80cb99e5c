// Everything that defines a training run, each value named once: settings() serves the command
// line, config.toml, presets and help.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "nn/io/setting.h"
#include "nn/layers/transformer.h"
#include "nn/optim/schedule.h"
#include "nn/tasks/tasks.h"

namespace heed::nn {

/// How weights are drawn (nn/train/make_model.cpp). Of matrices [out, in]:
enum class Init {
  kFanIn,       ///< U(+-1/sqrt(in))
  kTorch,       ///< as PyTorch's layers
  kGPT2,        ///< N(0, 0.02), less for what writes into the stream: init::gpt2
  kOnes,        ///< 1
  kNormal,      ///< N(0, 0.02)
  kXavier,      ///< init::xavier_uniform
  kKaiming,     ///< init::kaiming_uniform, a = 0
  kOrthogonal,  ///< init::orthogonal
  kMuP,         ///< N(0, 1/sqrt(in)), the output layer N(0, 1/in): Yang et al. 2022
};

template <>
struct EnumNames<Init> {
  static constexpr std::pair<Init, const char*> kTable[] = {
      {Init::kFanIn, "fan-in"},    {Init::kTorch, "torch"},           {Init::kGPT2, "gpt2"},
      {Init::kOnes, "ones"},       {Init::kNormal, "normal"},         {Init::kXavier, "xavier"},
      {Init::kKaiming, "kaiming"}, {Init::kOrthogonal, "orthogonal"}, {Init::kMuP, "mup"}};
};
template <>
struct EnumNames<bool> {
  static constexpr std::pair<bool, const char*> kTable[] = {{true, "yes"}, {false, "no"}};
};
enum class OptimizerKind { kAdamW, kSGD };
template <>
struct EnumNames<OptimizerKind> {
  static constexpr std::pair<OptimizerKind, const char*> kTable[] = {
      {OptimizerKind::kAdamW, "adamw"}, {OptimizerKind::kSGD, "sgd"}};
};

/// All values of a run. settings(), in config.cpp, has the meaning, unit and range of each.
struct RunConfig {
  // what is learned
  std::string task = "induction";  ///< "text", "lines": the file of that name below
  std::string text;                ///< path of the file for the task "text"
  std::string lines;               ///< the same for the task "lines"
  Unit unit = Unit::kChar;         ///< of both
  std::int64_t max_words = 8192;
  std::string answer_after;
  TaskParameters task_parameters;  ///< by KEY of task-KEY; others have the task's defaults
  /// The model; the task decides vocab and classes.
  Transformer::Options model = {.layers = 2,
                                .context = 48,
                                .attention = {.d_model = 64, .heads = 2, .bias = false},
                                .mlp = false,
                                .positions = Positions::kRope};
  Init init = Init::kFanIn;
  std::optional<Init> q_init, k_init, v_init, o_init;  ///< unset: as `init`
  // the optimizer
  std::int64_t batch = 32, accumulate = 1, steps = 400, warmup = 20;
  std::int64_t schedule_steps = 0;  ///< where the schedule ends, if not with the run
  std::int64_t decay_steps = 0;     ///< of wsd; 0: a tenth
  Decay schedule = Decay::kConstant;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  double lr = 3e-3, min_lr = 0, beta1 = 0.9, beta2 = 0.98, eps = 1e-8, momentum = 0,
         weight_decay = 0, clip = 1, clip_value = 0;
  // the run
  std::int64_t seed = 1, eval_every = 50, eval_batch = 256, save_every = 0;
  // where it ends early; 0: nowhere
  std::int64_t patience = 0;
  double target_loss = 0, target_accuracy = 0;
  std::int64_t check_invariants = 0;  ///< nn/train/checks/invariants.h; 0: never

  /// Returns every value, in config.toml's order. They refer to this RunConfig, which must outlive
  /// them.
  std::vector<Setting> settings();
};

/// Names that preset() takes: the tasks' own recipes, "shakespeare-cpu", "names", and the speed
/// presets micro, toy, chargpt, small (nn/train/README.md).
std::vector<std::string> preset_names();
/// Returns the name of the preset that a task starts from: its own, or one for files.
std::string preset_of(const std::string& task);
/// The recipe of a task or preset. ValueError with the nearest name.
RunConfig preset(std::string_view name);
/// Returns about how many seconds heed train takes with it on 2 otherwise idle cores; 0: not known.
int preset_seconds(std::string_view name);

/// Throws ValueError naming key, value and range for anything out of range or contradictory, and
/// for a path that is not UTF-8. Text, vocabulary and memory are checked when task and model are
/// made.
void validate(const RunConfig& config);

/// config.toml: a [train] section; a double is the shortest text that reads back to the same value.
/// The same text gives the same run bit for bit. `matmul` and `check-invariants` are there if they
/// are not float32 and 0: runs from before they existed keep their text. `extra` goes above as
/// comments (compiler, SIMD target).
std::string to_toml(const RunConfig& config, const std::vector<std::string>& extra = {});
/// Reads what to_toml wrote, every key of it. ValueError naming `file`, line and key otherwise.
RunConfig from_toml(const std::string& text, const std::string& file = "config");

/// Returns whether the task learns a file, text or lines.
bool learns_file(const RunConfig& config);
TextOptions text_options(const RunConfig& config);

/// Returns the learning rate of every step.
Schedule schedule(const RunConfig& config);

/// The model of a run on a task with these vocabulary sizes, drawn from `g` as config.init says.
/// ValueError if the machine's memory does not hold it.
Transformer make_model(const RunConfig& config, std::int64_t vocab, std::int64_t classes,
                       Generator& g);

}  // namespace heed::nn
