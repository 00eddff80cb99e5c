#include "tools/heed/command_line/help.h"

#include <algorithm>
#include <climits>
#include <map>

#include "autograd/base/text.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

constexpr const char* kExitCodes = R"(Results go to stdout, progress to stderr. Exit codes:
  0  success
  1  a check failed: a wrong gradient or a leak
  2  usage error: invalid or contradictory options
  3  numeric error: NaN, or with --strict a parameter without gradient
  4  a file cannot be read or written
  70 a bug in heed
  130 interrupted

heed COMMAND --help describes a command, with examples and the usual options.
heed --help all describes all commands with all options.
)";

constexpr std::size_t kDescriptions = 30;  // column at which descriptions begin
constexpr int kFirstExamples = 4;          // number of examples at the first level

std::string two_columns(const std::string& name, const std::string& description) {
  std::string text = "  " + name;
  if (text.size() >= kDescriptions) text += "\n";
  const std::size_t used = text.ends_with('\n') ? 0 : text.size();
  return wrapped(text + std::string(kDescriptions - used, ' ') + description, kDescriptions) + "\n";
}

// Formats a heading and the settings that satisfy a condition. An argument is listed once, with its
// option.
template <class F>
std::string settings_text(const Command& command, const std::string& heading, F is_shown) {
  std::string text = heading + ":\n";
  for (std::size_t i = 0; i < command.settings.size(); ++i) {
    const lab::Setting& s = command.settings[i];
    if (!is_shown(s)) continue;
    std::string name = (i < command.arguments ? argument_name(s) + ", --" : "--") + s.key;
    if (s.kind != lab::Setting::Kind::kSwitch)
      name += " " + s.unit;
    else if (!s.shown.empty())
      name += ", --no-" + s.key;
    text += two_columns(name, s.description());
  }
  return text;
}

std::string usage_text(const Command& command) {
  std::string text = "Usage: " + command.typed() + " [OPTIONS]";
  for (std::size_t i = 0; i < command.arguments; ++i) {
    const lab::Setting& s = command.settings[i];
    text += " " + (s.required ? argument_name(s) : "[" + argument_name(s) + "]");
  }
  return text;
}

// Returns the first examples. A line that ends in a backslash continues in the next line.
std::string examples_text(const Command& command, int count) {
  std::string text = "Examples:\n";
  for (const std::string& line : split(command.examples, '\n')) {
    if (count <= 0) break;
    text += line + "\n";
    if (!line.ends_with('\\')) --count;
  }
  return text;
}

// Returns the notes of each group. The key "" has those above the first line "[GROUP]". Successive
// lines become one line, except those that start with a blank.
std::map<std::string, std::string> notes_by_group(const Command& command) {
  std::map<std::string, std::string> notes;
  std::string* text = &notes[""];
  bool joins = false;
  for (const std::string& line : split(command.notes, '\n')) {
    if (line.starts_with('[') && line.ends_with(']')) {
      text = &notes[line.substr(1, line.size() - 2)];
      continue;
    }
    const bool wraps = !line.empty() && line[0] != ' ';
    *text += (text->empty() ? "" : joins && wraps ? " " : "\n") + line;
    joins = wraps;
  }
  return notes;
}

// Returns the list of keys that --json prints.
std::string json_text(const Command& command) {
  std::map<std::string, std::string> keys;
  const Mode& last = command.modes.back();
  for (const Mode& mode : command.modes) {
    // Keys that are also those of the default mode are listed only once.
    const bool is_listed = &mode != &last && last.key.empty() && mode.keys == last.keys;
    if (!mode.keys.empty() && !is_listed) keys[mode.name()] = mode.keys;
  }
  std::string text;
  for (const auto& [with, names] : keys)
    text += fmt::format("Keys of --json{}{}:\n{}\n\n", with.empty() ? "" : ", ", with,
                        wrapped("  " + names, 2));
  return text;
}

}  // namespace

std::string help_text(const Command& command, bool all) {
  std::map<std::string, std::string> notes = notes_by_group(command);
  std::vector<std::string> blocks = {
      wrapped(command.typed() + ": " + command.what) + "\n" + usage_text(command),
      examples_text(command, all ? INT_MAX : kFirstExamples), wrapped(notes[""])};
  const auto is_common = [](const lab::Setting& s) { return s.common; };
  const bool has_few = std::ranges::none_of(command.settings, is_common);
  if (all) {
    std::vector<std::string> groups;
    const auto add_group = [&](const std::string& group) {
      if (!group.empty() && std::ranges::count(groups, group) == 0) groups.push_back(group);
    };
    for (const lab::Setting& s : command.settings) add_group(s.group);
    for (const auto& [group, text] : notes)
      if (group != kJsonGroup) add_group(group);
    for (const std::string& group : groups) {
      blocks.push_back(
          settings_text(command, group, [&](const lab::Setting& s) { return s.group == group; }));
      blocks.push_back(wrapped(notes[group]));
    }
    blocks.push_back(json_text(command));
    blocks.push_back(wrapped(notes[kJsonGroup]));
  } else {
    blocks.push_back(settings_text(command, has_few ? "Options" : "Usual options",
                                   [&](const lab::Setting& s) { return has_few || s.common; }));
    blocks.push_back("More: " + command.typed() + " --help all");
  }
  std::string text;
  for (std::string& block : blocks) {
    block.erase(block.find_last_not_of('\n') + 1);
    if (!block.empty()) text += (text.empty() ? "" : "\n") + block + "\n";
  }
  return text;
}

std::string help_text(const Commands& commands, bool all) {
  std::string text =
      "heed trains toy causal models and checks their gradients.\n"
      "Usage: heed [OPTIONS] [COMMAND]\n";
  std::string kind;
  for (const auto& c : commands) {
    if (c->kind != kind) text += "\n" + c->kind + ":\n";
    kind = c->kind;
    text += two_columns(c->name, c->what);
  }
  text += "\nOptions:\n" + two_columns("-h, --help", "print this help") +
          two_columns("--version", "print version, compiler and threads") + "\n" + kExitCodes;
  if (all)
    for (const auto& c : commands) text += "\n" + help_text(*c, all);
  return text;
}

}  // namespace heed
