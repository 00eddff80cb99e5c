#include "tools/heed/plan/train_config.h"

#include <algorithm>

#include "autograd/base/text.h"
#include "nn/io/nearest.h"
#include "tools/heed/report/output.h"

namespace heed {

std::vector<nn::Setting> recipe_settings(nn::RunConfig& config, std::string& preset) {
  std::vector<nn::Setting> settings = config.settings();
  for (nn::Setting& s : settings) s.may_be_empty = false;  // --text ""
  settings.emplace_back("preset", preset, nn::preset_names(), "recipe to start from");
  settings.back().group = "Recipe";
  return settings;
}

namespace {

// Refuses what was asked for and has no effect. Nobody asked for a file's value that is the
// preset's or the default: heed writes all of them.
void check_needs(nn::RunConfig preset, const Command& c) {
  nn::RunConfig none;
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

}  // namespace

void make_config(nn::RunConfig& config, const std::string& preset_name, const Command& c) {
  std::string task = c.given("task") ? config.task : "";
  const std::string file = !config.lines.empty() ? "lines" : !config.text.empty() ? "text" : "";
  if (task.empty()) task = file;
  if (!task.empty() && task != "text" && task != "lines") {
    const std::vector<std::string> names = nn::task_names();
    if (std::find(names.begin(), names.end(), task) == names.end())
      usage_error("there is no task '{}'; did you mean '{}'? Tasks: {}; your own text: --text FILE",
                  task, nn::nearest(task, names), heed::join(names));
  }
  if (!file.empty() && file != task)
    usage_error("--{0} is for the task {0}; leave out '{1}' or --{0}", file, task);
  config = nn::preset(!preset_name.empty() ? preset_name
                                           : nn::preset_of(task.empty() ? "induction" : task));
  const nn::RunConfig preset = config;
  c.assign();
  if (!task.empty()) config.task = task;
  if (nn::learns_file(config) && file != config.task)
    usage_error("{0} learns a file: add --{1} FILE, in a TOML file {1} = \"FILE\"",
                preset_name.empty() ? "the task " + task : "the preset " + preset_name,
                config.task);
  nn::validate(config);
  check_needs(preset, c);
}

}  // namespace heed
