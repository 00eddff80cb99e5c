#include "tools/heed/train/start_config.h"

#include <algorithm>

#include "autograd/base/text.h"
#include "nn/io/nearest.h"
#include "nn/lab/run/run_folder.h"
#include "nn/lab/train/source.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

// Copies the model of the source to `config` and, if both have the same task and learn a file, the
// paths of the file.
void start_from(const lab::Source& source, lab::RunConfig& config) {
  lab::use_model_of(source, config);
  const std::filesystem::path folder = std::filesystem::path(source.weights.path).parent_path();
  const bool is_checkpoint = folder.filename() == lab::RunFolder::kCheckpoints;
  const lab::RunFolder run(is_checkpoint ? folder.parent_path() : folder);
  if (config.task != source.config.task || !lab::learns_file(config) || !run.is_run()) return;
  const lab::RunConfig saved = run.config();
  config.text = saved.text, config.lines = saved.lines;
}

// Changes values of the preset that contradict values that were given.
void yield_to_given(lab::RunConfig& config, const Command& c) {
  const lab::RunConfig none;
  if (!config.model.mlp && !c.given("mlp-act")) config.model.activation = none.model.activation;
  if (!config.model.mlp && !c.given("mlp-ratio")) config.model.mlp_ratio = none.model.mlp_ratio;
  if (!c.given("min-lr")) config.min_lr = std::min(config.min_lr, config.lr);
}

}  // namespace

std::vector<lab::Setting> recipe_settings(lab::RunConfig& config, std::string& preset) {
  std::vector<lab::Setting> settings = config.settings();
  std::erase_if(settings, [](const lab::Setting& s) { return s.key == "from-weights"; });
  // Help lists the groups in the order of their first settings.
  std::stable_partition(settings.begin(), settings.end(),
                        [](const lab::Setting& s) { return s.group != "Task"; });
  settings.emplace_back("preset", preset, lab::preset_names(), "preset to start from");
  settings.back().group = "Start";
  return settings;
}

lab::RunConfig chosen_preset(const Command& c) {
  const std::string file = !c.text("lines").empty()  ? "lines"
                           : !c.text("text").empty() ? "text"
                                                     : "";
  std::string task = c.given("task") ? c.text("task") : file;
  std::optional<lab::Source> source;
  if (!c.text("from").empty()) source = lab::read_source_metadata(find_weights(c.text("from")));
  if (source && task.empty() && !c.given("preset")) task = source->config.task;
  if (!task.empty() && task != "text" && task != "lines") {
    const std::vector<std::string> names = lab::task_names();
    if (std::find(names.begin(), names.end(), task) == names.end())
      usage_error("unknown task '{}'; did you mean '{}'? Tasks: {}; for a text file: --text FILE",
                  task, nn::nearest(task, names), heed::join(names));
  }
  if (!file.empty() && file != task)
    usage_error("--{0} is for the task {0}, not for '{1}'; omit one of the two", file, task);
  lab::RunConfig config = lab::preset(
      c.given("preset") ? c.text("preset") : lab::preset_of(task.empty() ? "induction" : task));
  if (!task.empty()) config.task = task;
  if (source) start_from(*source, config);
  return config;
}

void check_config(lab::RunConfig& config, const Command& c) {
  if (!config.from.empty()) config.from = find_weights(config.from);
  if (lab::learns_file(config) && config.text.empty() && config.lines.empty())
    usage_error("{0} needs a file: add --{1} FILE, or {1} = \"FILE\" in a TOML file",
                c.given("preset") ? "the preset " + c.text("preset") : "the task " + config.task,
                config.task);
  yield_to_given(config, c);
  // With about 20 checkpoints, heed study --over-time has a history.
  constexpr Index kCheckpoints = 20;
  if (!c.given("save-every") && !lab::learns_file(config) && config.steps >= kCheckpoints)
    config.save_every = (config.steps + kCheckpoints - 1) / kCheckpoints;
  lab::validate(config);
  // The files that heed writes also contain keys that have no effect, such as `momentum` for AdamW.
  // Therefore such a key is allowed in a file if its value is that of the preset or the default.
  lab::RunConfig preset = chosen_preset(c), none;
  const std::vector<lab::Setting> presets = preset.settings(), defaults = none.settings();
  for (const lab::Setting& s : c.settings) {
    if (!c.given(s.key)) continue;
    const Command::Value& value = c.values.at(s.key).back();
    const auto is_in = [&](const std::vector<lab::Setting>& list) {
      const lab::Setting* other = lab::find_setting(list, s.key);
      return other && other->get() == s.get();
    };
    if (value.in_file && (is_in(presets) || is_in(defaults))) continue;
    if (const std::string need = s.unmet_need(value.where); !need.empty()) throw UsageError(need);
  }
}

}  // namespace heed
