#include "tools/heed/command_line/command.h"

#include <algorithm>

#include "nn/io/nearest.h"
#include "nn/io/toml.h"
#include "tools/heed/commands.h"
#include "tools/heed/report/output.h"

namespace heed {

void Command::add(const std::string& group, std::vector<nn::Setting> more) {
  for (nn::Setting& s : more) {
    s.group = group;
    settings.push_back(std::move(s));
  }
}

void Command::add_common(int which) {
  if (which & kConfig)
    add("Common", {{"config", config, "FILE",
                    "TOML file with a section [" + name + "]; options override it"}});
  if (which & kThreads)
    add("Common", {nn::Setting("threads", threads, {1, 256}, "results do not depend on them")
                       .shows("the cores"),
                   nn::Setting("simd", simd, "TARGET",
                               "instructions that kernels run on, or scalar: their references")
                       .shows("HEED_SIMD, or the best")});
  if (which & kJson) add("Common", {{"json", json, "print one JSON object on one line to stdout"}});
}

void Command::read_config_file(const Commands& all) {
  const std::string file = values["config"].back().text;
  std::vector<std::string> sections;
  for (const auto& c : all) sections.push_back(c->name);
  std::vector<nn::TomlItem> items = nn::read_toml(nn::read_toml_text(file), file);
  std::erase_if(items, [&](const nn::TomlItem& item) {
    if (item.section.empty())
      usage_error("{}: '{}' stands outside a section; put it under [{}]", item.where, item.key,
                  name);
    const auto owner = std::find(sections.begin(), sections.end(), item.section);
    if (owner == sections.end())
      usage_error("{}: there is no section [{}]; the nearest is [{}]", item.where, item.section,
                  nn::nearest(item.section, sections));
    if (item.key.empty()) return true;
    const nn::Setting& setting =
        nn::setting_named(item, all[std::size_t(owner - sections.begin())]->settings);
    const std::string where = item.where + ": " + item.key;
    // config.toml has an empty text where there is none.
    if (item.values == std::vector<std::string>{""} && !setting.may_be_empty) return true;
    for (const std::string& value : item.values)
      if (const std::string wrong = setting.problem(where, value); !wrong.empty())
        throw UsageError(wrong);
    return item.section != name || given(item.key);
  });
  for (const nn::TomlItem& item : items)
    for (const std::string& value : item.values)
      values[item.key].push_back({item.where + ": " + item.key, value, true});
}

void Command::assign() const {
  for (const nn::Setting& s : settings)
    if (const auto found = values.find(s.key); found != values.end())
      for (const Value& value : found->second) s.set(value.where, value.text);
}

Commands all_commands() {
  Commands commands;
  for (const auto declare :
       {train_command, sweep_command, compare_command, eval_command, generate_command,
        study_command, plot_command, gradcheck_command, verify_command, bench_command, info_command,
        runs_command, tasks_command, completions_command})
    declare(*commands.emplace_back(std::make_unique<Command>()));
  return commands;
}

}  // namespace heed
