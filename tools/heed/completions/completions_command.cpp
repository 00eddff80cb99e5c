// heed completions: what the shell offers after Tab, from the commands' own tables.
#include "autograd/base/text.h"
#include "nn/tasks/task.h"
#include "tools/heed/commands.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

using Kind = nn::Setting::Kind;
enum class Shell { kBash, kZsh, kFish };

std::string spaced(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// In single quotes, for any of the three shells.
std::string shell_quoted(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\'') continue;  // fish and the others escape it differently
    safe += c == ':' || c == '[' || c == ']' ? ' ' : c;
  }
  return "'" + safe + "'";
}

std::vector<std::string> options(const Command& c) {
  std::vector<std::string> names = {"--help"};
  for (const nn::Setting& s : c.settings) {
    names.push_back("--" + s.key);
    if (s.kind == Kind::kSwitch && !s.shown.empty()) names.push_back("--no-" + s.key);
  }
  return names;
}

// Names that a value can be, if they are few.
std::vector<std::string> choices(const nn::Setting& s) {
  return s.key == "task" ? nn::task_names() : s.names;
}

// Of the command's first argument: none of one that is a path.
std::vector<std::string> argument_choices(const Command& c) {
  return c.arguments > 0 ? choices(c.settings[0]) : std::vector<std::string>();
}

template <class... Args>
void append_text(std::string& text, fmt::format_string<Args...> format, Args&&... args) {
  text += fmt::format(format, std::forward<Args>(args)...);
}

std::string bash_text(const Commands& commands) {
  std::string text;
  append_text(
      text,
      "# bash completion of heed: source it, or put it into bash-completion's folder\n"
      "_heed() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} words=\n"
      "  case ${{COMP_WORDS[1]}}:$previous in\n");
  std::vector<std::string> names;
  for (const auto& c : commands) {
    names.push_back(c->name);
    for (const nn::Setting& s : c->settings)  // without words the shell offers files
      if (!choices(s).empty() || s.unit == "FILE" || s.unit == "DIR")
        append_text(text, "    {}:--{}) words='{}' ;;\n", c->name, s.key, spaced(choices(s)));
    std::vector<std::string> words = argument_choices(*c);
    for (const std::string& option : options(*c)) words.push_back(option);
    append_text(text, "    {}:*) words='{}' ;;\n", c->name, spaced(words));
  }
  append_text(text,
              "    *) words='{} --help --version' ;;\n"
              "  esac\n"
              "  [[ $COMP_CWORD == 1 ]] && words='{} --help --version'\n"
              "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
              "}}\n"
              "complete -o default -F _heed heed\n",
              spaced(names), spaced(names));
  return text;
}

std::string zsh_text(const Commands& commands) {
  std::string text;
  append_text(text, "#compdef heed\nlocal -a commands\ncommands=(\n");
  for (const auto& c : commands)
    append_text(text, "  {}\n", "'" + c->name + ":" + shell_quoted(c->what).substr(1));
  append_text(
      text,
      ")\nif (( CURRENT == 2 )); then _describe command commands; return; fi\ncase $words[2] in\n");
  for (const auto& c : commands) {
    const std::vector<std::string> words = argument_choices(*c);
    append_text(text, "  {}) _arguments '*:{}'", c->name,
                words.empty() ? "file:_files" : c->settings[0].key + ":(" + spaced(words) + ")");
    for (const nn::Setting& s : c->settings) {
      const std::string quoted = shell_quoted(s.help), help = quoted.substr(1, quoted.size() - 2);
      const std::string value = s.kind == Kind::kSwitch ? ""
                                : choices(s).empty()
                                    ? ":" + s.unit + ":_files"
                                    : ":" + s.unit + ":(" + spaced(choices(s)) + ")";
      append_text(text, " \\\n    '--{}[{}]{}'", s.key, help, value);
      if (s.kind == Kind::kSwitch && !s.shown.empty())
        append_text(text, " '--no-{}[not {}]'", s.key, help);
    }
    append_text(text, " ;;\n");
  }
  append_text(text, "esac\n");
  return text;
}

std::string fish_text(const Commands& commands) {
  std::string text;
  for (const auto& c : commands) {
    append_text(text, "complete -c heed -n __fish_use_subcommand -a {} -d {}\n", c->name,
                shell_quoted(c->what));
    const std::string when =
        fmt::format("complete -c heed -n '__fish_seen_subcommand_from {}'", c->name);
    const std::vector<std::string> words = argument_choices(*c);
    if (!words.empty()) append_text(text, "{} -a '{}'\n", when, spaced(words));
    for (const nn::Setting& s : c->settings) {
      append_text(text, "{} -l {} -d {}{}\n", when, s.key, shell_quoted(s.help),
                  s.kind == Kind::kSwitch ? ""
                  : choices(s).empty()    ? " -r"
                                          : " -x -a '" + spaced(choices(s)) + "'");
      if (s.kind == Kind::kSwitch && !s.shown.empty())
        append_text(text, "{} -l no-{} -d {}\n", when, s.key, shell_quoted("not " + s.help));
    }
  }
  return text;
}

}  // namespace

template <>
struct nn::EnumNames<Shell> {
  static constexpr std::pair<Shell, const char*> kTable[] = {
      {Shell::kBash, "bash"}, {Shell::kZsh, "zsh"}, {Shell::kFish, "fish"}};
};

void completions_command(Command& c) {
  c.name = "completions", c.what = "print what the shell needs to complete heed's options";
  c.examples = "  heed completions bash > ~/.local/share/bash-completion/completions/heed";
  auto shell = std::make_shared<Shell>(Shell::kBash);
  c.arguments = 1;
  c.add("Options", {{"shell", *shell, "of this shell"}});
  c.modes = {{.run = [shell](const Command&) {
    const auto text_for = *shell == Shell::kBash  ? bash_text
                          : *shell == Shell::kZsh ? zsh_text
                                                  : fish_text;
    Report report;
    report.block(text_for(all_commands()));
    return report;
  }}};
}

}  // namespace heed
