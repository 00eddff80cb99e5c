#include "tools/heed/plan/train_config.h"

#include <algorithm>

#include "autograd/base/text.h"
#include "nn/io/nearest.h"
#include "tools/heed/report/output.h"

namespace heed {

std::vector<nn::Setting> recipe_settings(nn::RunConfig& config, std::string& preset) {
  std::vector<nn::Setting> settings = config.settings();
  for (nn::Setting& s : settings) s.may_be_empty = false;  // so that --text "" is an error
  settings.emplace_back("preset", preset, nn::preset_names(), "recipe to start from");
  settings.back().group = "Recipe";
  return settings;
}

nn::RunConfig chosen_preset(const Command& c) {
  const std::string file = !c.text("lines").empty()  ? "lines"
                           : !c.text("text").empty() ? "text"
                                                     : "";
  const std::string task = c.given("task") ? c.text("task") : file;
  if (!task.empty() && task != "text" && task != "lines") {
    const std::vector<std::string> names = nn::task_names();
    if (std::find(names.begin(), names.end(), task) == names.end())
      usage_error("unknown task '{}'; did you mean '{}'? Tasks: {}; for a text file: --text FILE",
                  task, nn::nearest(task, names), heed::join(names));
  }
  if (!file.empty() && file != task)
    usage_error("--{0} is for the task {0}, not for '{1}'; omit one of the two", file, task);
  nn::RunConfig config = nn::preset(
      c.given("preset") ? c.text("preset") : nn::preset_of(task.empty() ? "induction" : task));
  if (!task.empty()) config.task = task;
  return config;
}

void check_config(const nn::RunConfig& config, const Command& c) {
  if (nn::learns_file(config) && c.text(config.task).empty())
    usage_error("{0} needs a file: add --{1} FILE, or {1} = \"FILE\" in a TOML file",
                c.given("preset") ? "the preset " + c.text("preset") : "the task " + config.task,
                config.task);
  nn::validate(config);
  // The files that heed writes contain every key. Therefore a value without effect is allowed in a
  // file if it equals the value of the preset or the default.
  nn::RunConfig preset = chosen_preset(c), none;
  const std::vector<nn::Setting> presets = preset.settings(), defaults = none.settings();
  for (const nn::Setting& s : c.settings) {
    if (!c.given(s.key)) continue;
    const Command::Value& value = c.values.at(s.key).back();
    const auto is_in = [&](const std::vector<nn::Setting>& list) {
      const nn::Setting* other = nn::find_setting(list, s.key);
      return other && other->get() == s.get();
    };
    if (value.in_file && (is_in(presets) || is_in(defaults))) continue;
    if (const std::string need = s.unmet_need(value.where); !need.empty()) throw UsageError(need);
  }
}

}  // namespace heed
