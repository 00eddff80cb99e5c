#include "tools/heed/command_line/cli11.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <sstream>

#include "autograd/base/text.h"
#include "nn/io/nearest.h"
#include "tools/heed/command_line/unknown_option.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

using Kind = nn::Setting::Kind;

constexpr const char* kExitCodes = R"(Results go to stdout, progress to stderr. Exit codes:
  0  success
  1  a check failed: a wrong gradient, a leak, a batch that was not learned
  2  usage error: invalid or contradictory options
  3  numeric error: NaN, or with --strict a parameter without gradient
  4  a file cannot be read or written
  70 a bug in heed
  130 interrupted

heed COMMAND --help describes a command and all of its options, with examples.)";

std::string upper(std::string text) {
  for (char& c : text) c = char(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

constexpr std::size_t kDescriptions = 30;  // column at which descriptions of options begin

std::string two_columns(const std::string& name, const std::string& description) {
  std::string text = "  " + name;
  if (text.size() >= kDescriptions) text += "\n";
  const std::size_t used = text.ends_with('\n') ? 0 : text.size();
  return wrapped(text + std::string(kDescriptions - used, ' ') + description, kDescriptions) + "\n";
}

// Formats help texts with at most 80 columns. The format does not depend on the version of CLI11.
class Help : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string text = "Usage: " + name + " [OPTIONS]";
    for (const CLI::Option* o : app->get_options())
      if (o->get_positional())
        text += " [" + upper(o->get_name(true, false)) + (o->get_allow_extra_args() ? "...]" : "]");
    return text + (app->get_parent() ? "\n" : " [COMMAND]\n");
  }
  std::string make_option_name(const CLI::Option* o, bool is_positional) const override {
    if (is_positional) return upper(o->get_name(true, false));
    std::string name;
    for (const std::string& n : o->get_snames()) name += "-" + n + ", ";
    for (const std::string& n : o->get_lnames())
      name += (n == o->get_lnames().front() ? "--" : ", --") + n;
    return o->get_type_size() == 0 ? name : name + " " + o->get_type_name();
  }
  std::string make_option(const CLI::Option* o, bool is_positional) const override {
    return two_columns(make_option_name(o, is_positional), o->get_description());
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return two_columns(command->get_name(), command->get_description());
  }
  std::string make_description(const CLI::App* app) const override {
    return wrapped(app->get_description()) + "\n";
  }
};

CLI::Option* add_setting(CLI::App& app, const nn::Setting& setting, bool is_argument) {
  const std::string name = "--" + setting.key, help = setting.description();
  CLI::Option* option = nullptr;
  if (setting.kind == Kind::kSwitch)
    option = app.add_flag(setting.shown.empty() ? name : name + ",!--no-" + setting.key, help);
  else
    option = app.add_option(
        is_argument ? setting.key + "," + name : name, [](const CLI::results_t&) { return true; },
        help);
  if (setting.kind != Kind::kSwitch) {
    const bool many = is_argument && setting.kind == Kind::kList;
    option->type_name(setting.unit)->expected(many ? -1 : 1);
  }
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->group(setting.group);
  const std::string where = is_argument ? setting.key : name;
  option->check(CLI::Validator(
      [&setting, where](std::string& text) -> std::string {
        // This check is needed because CLI11 accepts another option, or an empty text, as the
        // value.
        if (text.starts_with("--") || (text.empty() && !setting.may_be_empty))
          usage_error("{} needs a value", where);
        if (const std::string wrong = setting.problem(where, text); !wrong.empty())
          throw UsageError(wrong);
        return "";
      },
      ""));
  return option;
}

// Formats the notes of a command for help. Successive lines become one paragraph, which is wrapped.
// Lines that start with a blank are kept.
std::string notes_text(const std::string& notes) {
  std::string text;
  bool joins = false;
  for (const std::string& line : split(notes, '\n')) {
    const bool wraps = !line.empty() && line[0] != ' ';
    text += (text.empty() ? "" : joins && wraps ? " " : "\n") + line;
    joins = wraps;
  }
  return wrapped(text) + (text.empty() ? "" : "\n\n");
}

// Returns the list of keys that --json prints, for help.
std::string json_help(const Command& command) {
  std::map<std::string, std::string> keys;
  for (const Mode& mode : command.modes) {
    const Mode& last = command.modes.back();
    // True if this mode has the same keys as the default mode. These keys are listed only once.
    const bool is_listed =
        &mode != &last && last.key.empty() && mode.result.begin() == last.result.begin();
    if (mode.result.size() > 0 && !is_listed) keys[mode.name()] = keys_text(mode.result);
  }
  std::string text;
  for (const auto& [with, names] : keys)
    text += fmt::format("Keys of --json{}{}:\n{}\n\n", with.empty() ? "" : ", ", with,
                        wrapped("  " + names, 2));
  return text;
}

std::string see_help(const Command* command) {
  return "see heed " + (command ? command->name + " " : "") + "--help";
}

// Throws UsageError for the first argument that CLI11 did not recognize, if there is one.
void report_unknown(const std::vector<std::string>& rest, const Command* command,
                    const Commands& commands) {
  for (const std::string& argument : rest) {
    if (!argument.starts_with('-') || argument.size() == 1 || argument == "--") continue;
    std::vector<std::string> known =
        command ? nn::keys(command->settings) : std::vector<std::string>{"version"};
    known.push_back("help");
    throw UsageError(unknown_option(argument, command ? command->name : "", known));
  }
  for (const std::string& argument : rest) {
    if (argument == "--") continue;
    if (command) usage_error("'{}' is one argument too many; {}", argument, see_help(command));
    std::vector<std::string> names;
    for (const auto& c : commands) names.push_back(c->name);
    usage_error("unknown command '{}'; did you mean heed {}? Commands: {}", argument,
                nn::nearest(argument, names), heed::join(names));
  }
}

// Returns the command that the command line names, or null if it names none.
Command* named_command(const Commands& commands, int argc, char** argv) {
  Command* command = nullptr;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--") break;
    for (const auto& c : commands)
      if (!command && c->name == argument) command = c.get();
    // After "--key=" CLI11 would use the next argument as the value.
    if (command && argument.starts_with("--") && argument.ends_with('='))
      if (const std::string key = argument.substr(2, argument.size() - 3);
          nn::find_setting(command->settings, key))
        usage_error("--{} needs a value; {}", key, see_help(command));
  }
  return command;
}

// Stores the values that were given for the i-th setting.
void take_values(Command& command, std::size_t i, std::vector<std::string> values) {
  if (values.empty()) return;
  const nn::Setting& setting = command.settings[i];
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

std::string help_text(const CLI::App& app) {
  std::string help = app.help(app.get_parent() ? "heed" : "");
  for (std::size_t at; (at = help.find("\n\n\n")) != std::string::npos;) help.erase(at, 1);
  return help;
}

}  // namespace

CommandLine parse_command_line(const Commands& commands, int argc, char** argv) {
  CLI::App app("heed trains toy causal models and checks their gradients.", "heed");
  const auto formatter = std::make_shared<Help>();
  formatter->label("Positionals", "Arguments");
  app.formatter(formatter);
  app.allow_extras();  // unknown options reach report_unknown()
  app.require_subcommand(0, 1);
  app.footer(kExitCodes);
  CommandLine line;
  app.add_flag("--version", line.version, "print version, compiler and threads");
  line.command = named_command(commands, argc, argv);
  const CLI::App* parser = &app;      // parser of the named command
  std::vector<CLI::Option*> options;  // one per setting of that command
  for (const auto& c : commands) {
    CLI::App* sub = app.add_subcommand(c->name, c->what)->group("Commands");
    if (c.get() != line.command) continue;
    parser = sub;
    sub->footer(notes_text(c->notes) + json_help(*c) + "Examples:\n" + c->examples);
    for (std::size_t i = 0; i < c->settings.size(); ++i)
      options.push_back(add_setting(*sub, c->settings[i], i < c->arguments));
  }

  const auto check_rest = [&] {
    report_unknown(app.remaining(), nullptr, commands);
    report_unknown(parser->remaining(), line.command, commands);
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    line.help = help_text(*parser);
    return line;
  } catch (const UsageError&) {
    check_rest();  // if the bad argument is the value of an unknown option, report the option
    throw;
  } catch (const CLI::ParseError& e) {
    check_rest();
    const std::string text = e.what();  // "--lr: 1 required X missing"
    const bool no_value = dynamic_cast<const CLI::ArgumentMismatch*>(&e) != nullptr;
    usage_error("{}; {}", no_value ? text.substr(0, text.find(':')) + " needs a value" : text,
                see_help(line.command));
  }
  check_rest();
  for (std::size_t i = 0; i < options.size(); ++i)
    take_values(*line.command, i, options[i]->results());
  return line;
}

}  // namespace heed
