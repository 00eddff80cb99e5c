#include "tools/heed/command_line/command.h"

#include <algorithm>

#include "autograd/base/text.h"
#include "nn/io/nearest.h"
#include "nn/lab/settings/toml.h"
#include "nn/lab/train/config.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

constexpr const char* kCommon[] = {"config", "json", "threads"};

bool takes(const Mode& mode, const std::string& key) {
  if (key == "json") return !mode.keys.empty();
  return mode.accepts.empty() || key == mode.key || std::ranges::count(mode.accepts, key) > 0;
}

// Throws UsageError for an option that has no effect in the mode.
[[noreturn]] void refuse(const Command& command, const Mode& mode, const std::string& key,
                         const Command::Value& value) {
  const std::string& where = value.where;
  const bool is_argument =
      mode.name() == "--" + mode.key && command.values.at(mode.key).back().where == mode.key;
  const std::string with =
      is_argument ? fmt::format("the argument '{}'", command.text(mode.key)) : mode.name();
  if (value.in_file && !mode.key.empty())
    usage_error(
        "--config {} sets options that have no effect with {}, such as {}; leave out --config",
        command.text("config"), with, key);
  if (!mode.key.empty())
    usage_error("{0} has no effect with {1}; leave out {2}{0}", where, with,
                is_argument ? "the argument or " : "");
  for (const Mode& other : command.modes)
    if (!other.key.empty() && !other.accepts.empty() && takes(other, key))
      usage_error("{0} has no effect without {1}; add {1} or leave out {0}", where, other.name());
  usage_error("{0} has no effect with {1}; leave out {0}", where, command.typed());
}

}  // namespace

std::string argument_name(const lab::Setting& setting) {
  std::string name = setting.key;
  for (char& c : name) c = char(std::toupper(static_cast<unsigned char>(c)));
  return name + (setting.kind == lab::Setting::Kind::kList ? "..." : "");
}

void Command::add(const std::string& group, std::vector<lab::Setting> more) {
  for (lab::Setting& s : more) {
    s.group = group;
    settings.push_back(std::move(s));
  }
}

void Command::mark(bool lab::Setting::*flag, const std::vector<std::string>& keys) {
  for (lab::Setting& s : settings)
    if (std::ranges::count(keys, s.key) > 0) s.*flag = true;
}

void Command::add_common(int which) {
  if (which & kConfig)
    add("Common", {{"config", config, "FILE",
                    "TOML file with a section [" + name + "]; options override it"}});
  if (which & kThreads)
    add("Common",
        {lab::Setting("threads", threads, {1, 256}, "threads; results do not depend on it")
             .shows("number of cores")});
  if (which & kJson) add("Common", {{"json", json, "print one JSON object on one line to stdout"}});
}

std::string Mode::name() const {
  return !label.empty()    ? label
         : !values.empty() ? heed::join(values, " or ")
         : key.empty()     ? ""
                           : "--" + key;
}

std::string Command::text(const std::string& key) const {
  const auto found = values.find(key);
  return found == values.end() ? "" : found->second.back().text;
}

std::vector<std::string> Command::only(std::vector<std::string> keys) const {
  keys.insert(keys.end(), std::begin(kCommon), std::end(kCommon));
  return keys;
}

std::vector<std::string> Command::all_but(const std::vector<std::string>& excluded) const {
  std::vector<std::string> keys;
  for (const lab::Setting& s : settings)
    if (std::ranges::count(excluded, s.key) == 0) keys.push_back(s.key);
  return keys;
}

const Mode& Command::mode() const {
  const auto is_chosen = [this](const Mode& m) {
    if (m.when && !m.when(*this)) return false;
    if (m.key.empty()) return true;
    if (!given(m.key)) return false;
    if (!m.values.empty()) return std::ranges::count(m.values, text(m.key)) > 0;
    return lab::find_setting(settings, m.key)->kind != lab::Setting::Kind::kSwitch ||
           text(m.key) == "true";
  };
  const auto chosen = std::find_if(modes.begin(), modes.end(), is_chosen);
  if (chosen == modes.end()) {
    std::vector<std::string> names;
    for (const Mode& m : modes) names.push_back(m.name());
    usage_error("{0} needs {1}; try {0} {2}", typed(), heed::join(names, " or "), names[0]);
  }
  for (const lab::Setting& s : settings)
    if (s.required && !given(s.key))
      usage_error(
          "{0} needs {1}; see {0} --help", typed(),
          &s < &settings[arguments] ? argument_name(s) : fmt::format("--{} {}", s.key, s.unit));
  for (const bool in_file : {false, true})  // options of the command line are reported first
    for (const auto& [key, given_values] : values)
      if (const Value& value = given_values.back();
          value.in_file == in_file && !takes(*chosen, key))
        refuse(*this, *chosen, key, value);
  return *chosen;
}

void Command::read_config_file(const Commands& all) {
  const std::string file = values["config"].back().text;
  std::vector<std::string> sections;
  std::vector<const Command*> commands;
  for (const auto& c : all)
    if (lab::find_setting(c->settings, "config"))
      sections.push_back(c->name), commands.push_back(c.get());
  std::vector<lab::TomlItem> items = lab::read_toml(lab::read_toml_text(file), file);
  std::erase_if(items, [&](const lab::TomlItem& item) {
    if (item.section.empty())
      usage_error("{}: '{}' is outside of a section; put it under [{}]", item.where, item.key,
                  name);
    const auto owner = std::find(sections.begin(), sections.end(), item.section);
    if (owner == sections.end())
      usage_error("{}: unknown section [{}]; the nearest is [{}]", item.where, item.section,
                  nn::nearest(item.section, sections));
    if (item.key.empty()) return true;
    if (lab::is_removed(item)) return true;
    const lab::Setting& setting =
        lab::setting_named(item, commands[std::size_t(owner - sections.begin())]->settings);
    if (item.key == "config")
      usage_error("{}: a configuration file cannot contain config; remove the line", item.where);
    const std::string where = item.where + ": " + item.key;
    // An empty text means that the setting has no value. Old config.toml files contain such texts.
    if (item.values == std::vector<std::string>{""} && !setting.may_be_empty) return true;
    for (const std::string& value : item.values)
      if (const std::string wrong = setting.problem(where, value); !wrong.empty())
        throw UsageError(wrong);
    return item.section != name || given(item.key);
  });
  for (const lab::TomlItem& item : items)
    for (const std::string& value : item.values)
      values[item.key].push_back({item.where + ": " + item.key, value, true});
}

void Command::assign() const {
  for (const lab::Setting& s : settings)
    if (const auto found = values.find(s.key); found != values.end())
      for (const Value& value : found->second) s.set(value.where, value.text);
}

}  // namespace heed
