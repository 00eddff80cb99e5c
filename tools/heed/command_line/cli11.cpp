#include "tools/heed/command_line/cli11.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <optional>

#include "autograd/base/text.h"
#include "tools/heed/command_line/help.h"
#include "tools/heed/command_line/unknown_option.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

using Kind = lab::Setting::Kind;

CLI::Option* add_setting(CLI::App& app, const lab::Setting& setting, bool is_argument) {
  const std::string name = "--" + setting.key;
  CLI::Option* option = nullptr;
  if (setting.kind == Kind::kSwitch) {
    option = app.add_flag(setting.shown.empty() ? name : name + ",!--no-" + setting.key);
  } else {
    option = app.add_option(is_argument ? setting.key + "," + name : name,
                            [](const CLI::results_t&) { return true; });
    option->expected(is_argument && setting.kind == Kind::kList ? -1 : 1);
  }
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  const std::string where = is_argument ? setting.key : name;
  option->check(CLI::Validator(
      [&setting, name, where](std::string& text) -> std::string {
        if (text.empty() && !setting.may_be_empty) usage_error("{} needs a value", where);
        if (const std::string wrong = setting.problem(where, text); !wrong.empty())
          throw UsageError(wrong + (setting.kind == Kind::kSwitch && !setting.shown.empty()
                                        ? "; write " + name + " or --no-" + setting.key
                                        : ""));
        return "";
      },
      ""));
  return option;
}

std::string typed(const Command* command) { return command ? command->typed() : "heed"; }

std::string see_help(const Command* command) { return "see " + typed(command) + " --help"; }

// Throws UsageError for the first argument that CLI11 did not recognize, if there is one.
void report_unknown(const std::vector<std::string>& rest, const Command* command,
                    const Commands& commands) {
  for (const std::string& argument : rest) {
    if (!argument.starts_with('-') || argument.size() == 1 || argument == "--") continue;
    std::vector<std::string> known =
        command ? lab::keys(command->settings) : std::vector<std::string>{"version"};
    known.push_back("help");
    throw UsageError(unknown_option(argument, typed(command), known));
  }
  for (const std::string& argument : rest) {
    if (argument == "--") continue;
    if (command) usage_error("'{}' is one argument too many; {}", argument, see_help(command));
    std::vector<std::string> names;
    for (const auto& c : commands) names.push_back(c->name);
    throw UsageError(unknown_command(argument, names));
  }
}

// Returns the command that the command line names, or null if it names none.
// If the program has only one command, the command line does not name it.
Command* named_command(const Commands& commands, int argc, char** argv) {
  Command* command = commands[0]->is_program ? commands[0].get() : nullptr;
  if (!command && argc > 1 && std::string_view(argv[1]) == "bench")
    usage_error("heed bench is the program heed-bench; tools/build release heed-bench builds it");
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--") break;
    for (const auto& c : commands)
      if (!command && c->name == argument) command = c.get();
  }
  return command;
}

// Returns the arguments for CLI11, the last one first. CLI11 would use the next argument as the
// value after "--key=", which becomes "--key" and an empty argument. Throws UsageError for a
// missing value.
std::vector<std::string> arguments_for_cli11(const Command* command, int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const std::string word = words.emplace_back(argv[i]);
    if (word == "--") {
      words.insert(words.end(), argv + i + 1, argv + argc);
      break;
    }
    if (!command || !word.starts_with("--")) continue;
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string key = word.substr(2, equals - 2);
    const lab::Setting* setting = lab::find_setting(command->settings, key);
    if (!setting || (setting->kind == Kind::kSwitch && !word.ends_with('='))) continue;
    const bool is_empty = equals + 1 == word.size(), is_next = equals == word.size();
    if ((is_empty && !setting->may_be_empty) ||
        (is_next && (i + 1 == argc || std::string_view(argv[i + 1]).starts_with("--"))))
      usage_error("--{} needs a value; {}", key, see_help(command));
    if (is_empty) words.back().pop_back();
    if (is_empty || is_next) words.emplace_back(is_next ? argv[++i] : "");
  }
  std::ranges::reverse(words);
  return words;
}

// Stores the values that were given for the i-th setting.
void take_values(Command& command, std::size_t i, std::vector<std::string> values) {
  if (values.empty()) return;
  const lab::Setting& setting = command.settings[i];
  const bool is_argument = i < command.arguments, is_list = setting.kind == Kind::kList;
  const bool differ =
      std::adjacent_find(values.begin(), values.end(), std::not_equal_to()) != values.end();
  if (setting.kind == Kind::kSwitch && differ)
    usage_error("--{0} and --no-{0} contradict each other; leave out one", setting.key);
  if (is_argument && !is_list && values.size() > 1)
    usage_error("{} is given twice, as '{}' and '{}'; leave out one", setting.key, values[0],
                values[1]);
  if (!is_list) values = {values.back()};
  for (std::string& value : values)
    command.values[setting.key].push_back(
        {is_argument ? setting.key : "--" + setting.key, std::move(value)});
}

// Returns the word after --help, "" if there is none. Returns nullopt if the command line requests
// no help.
std::optional<std::string> help_word(const Command* command, int argc, char** argv) {
  std::vector<std::string> rest(argv + 1, argv + argc);
  rest.erase(std::find(rest.begin(), rest.end(), "--"), rest.end());
  const auto is_help = [](const std::string& a) {
    return a == "-h" || a == "--help" || a.starts_with("--help=");
  };
  const auto help = std::find_if(rest.begin(), rest.end(), is_help);
  if (help == rest.end()) return std::nullopt;
  if (const std::size_t at = help->find('='); at != std::string::npos) return help->substr(at + 1);
  auto next = std::next(help);
  if (command && next != rest.end() && *next == command->name) ++next;  // heed help train all
  return next == rest.end() || next->starts_with('-') ? "" : *next;
}

}  // namespace

CommandLine parse_command_line(const Commands& commands, int argc, char** argv) {
  CommandLine line;
  line.command = named_command(commands, argc, argv);
  if (const auto word = help_word(line.command, argc, argv)) {
    if (!line.command)
      for (const std::string& name : {std::string(argv[1]), *word})
        if (!name.empty() && name[0] != '-' && name != "all")
          report_unknown({name}, nullptr, commands);
    const bool all = *word == "all";
    if (!all && !word->empty())
      usage_error("{0} --help has no part '{1}'; {0} --help all prints everything",
                  typed(line.command), *word);
    line.help = line.command ? help_text(*line.command, all) : help_text(commands, all);
    return line;
  }
  CLI::App app("", "heed");
  app.set_help_flag();
  app.allow_extras();  // unknown options reach report_unknown()
  app.require_subcommand(0, 1);
  app.add_flag("--version", line.version);
  const CLI::App* parser = &app;      // parser of the named command
  std::vector<CLI::Option*> options;  // one per setting of that command
  for (const auto& c : commands) {
    CLI::App* sub = c->is_program ? &app : app.add_subcommand(c->name);
    if (c.get() != line.command) continue;
    parser = sub;
    for (std::size_t i = 0; i < c->settings.size(); ++i)
      options.push_back(add_setting(*sub, c->settings[i], i < c->arguments));
  }

  const auto check_rest = [&] {
    if (parser != &app) report_unknown(app.remaining(), nullptr, commands);
    report_unknown(parser->remaining(), line.command, commands);
  };
  try {
    app.parse(arguments_for_cli11(line.command, argc, argv));
  } catch (const UsageError&) {
    check_rest();  // if the bad argument is the value of an unknown option, report the option
    throw;
  } catch (const CLI::ParseError& e) {
    check_rest();
    usage_error("{}; {}", e.what(), see_help(line.command));
  }
  check_rest();
  for (std::size_t i = 0; i < options.size(); ++i)
    take_values(*line.command, i, options[i]->results());
  return line;
}

}  // namespace heed
