// `heed completions`: prints shell completions, generated from the declarations of the commands.
#include <fmt/format.h>

#include "nn/tasks/task.h"
#include "tools/heed/commands.h"

namespace heed {
namespace {

enum class Shell { kBash, kZsh, kFish };

// Returns the text without characters that would end a quoted or bracketed text in a shell.
std::string plain(std::string text) {
  std::erase(text, '\'');
  for (char& c : text)
    if (c == ':' || c == '[' || c == ']') c = ' ';
  return text;
}

// The texts of one option that a completion script contains.
struct Offer {
  std::string key, help;
  std::string unit;   // name of the value, such as "FILE"; "" for a switch
  std::string words;  // possible values separated by blanks; "" if they are not known
};

std::vector<Offer> offers(const Command& c) {
  std::vector<Offer> list;
  for (const nn::Setting& s : c.settings) {
    const std::string help = plain(s.help);
    const auto words = s.key == "task" ? nn::task_names() : s.names;
    list.push_back({s.key, help, s.unit, fmt::format("{}", fmt::join(words, " "))});
    if (s.unit.empty() && !s.shown.empty()) list.push_back({"no-" + s.key, "not " + help, "", ""});
  }
  return list;
}

// Returns the possible values of a command's first argument; "" if the argument is a path, or if
// the command has no argument.
std::string argument_words(const Command& c, const std::vector<Offer>& list) {
  return c.arguments > 0 ? list[0].words : "";
}

std::string bash_text(const Commands& commands) {
  std::string cases, names;
  for (const auto& c : commands) {
    const std::vector<Offer> list = offers(*c);
    std::string words = argument_words(*c, list) + " --help";
    for (const Offer& o : list) {
      words += " --" + o.key;
      if (!o.words.empty() || o.unit == "FILE" || o.unit == "DIR")  // "": bash offers files
        cases += fmt::format("    {}:--{}) words='{}' ;;\n", c->name, o.key, o.words);
    }
    const bool path = c->arguments > 0 && argument_words(*c, list).empty();  // bash offers files
    cases += fmt::format("    {}:*) {}words='{}' ;;\n", c->name,
                         path ? "[[ $current != -* ]] || " : "", words);
    names += c->name + " ";
  }
  return fmt::format(
      R"(# bash completion for heed: source it, or put it into bash-completion's directory
_heed() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} words=
  case ${{COMP_WORDS[1]}}:$previous in
{0}    *) words='{1}--help --version' ;;
  esac
  [[ $COMP_CWORD == 1 ]] && words='{1}--help --version'
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _heed heed
)",
      cases, names);
}

std::string zsh_text(const Commands& commands) {
  std::string names, cases;
  for (const auto& c : commands) {
    const std::vector<Offer> list = offers(*c);
    const std::string words = argument_words(*c, list);
    names += fmt::format("  '{}:{}'\n", c->name, plain(c->what));
    cases += fmt::format("  {}) _arguments '*:{}'", c->name,
                         words.empty() ? "file:_files" : list[0].key + ":(" + words + ")");
    for (const Offer& o : list) {
      const std::string values = o.words.empty() ? "_files" : "(" + o.words + ")";
      cases += fmt::format(" \\\n    '--{}[{}]{}'", o.key, o.help,
                           o.unit.empty() ? "" : ":" + o.unit + ":" + values);
    }
    cases += " ;;\n";
  }
  return fmt::format(R"(#compdef heed
local -a commands
commands=(
{})
if (( CURRENT == 2 )); then _describe command commands; return; fi
case $words[2] in
{}esac
)",
                     names, cases);
}

std::string fish_text(const Commands& commands) {
  std::string text;
  for (const auto& c : commands) {
    const std::vector<Offer> list = offers(*c);
    text += fmt::format("complete -c heed -n __fish_use_subcommand -a {} -d '{}'\n", c->name,
                        plain(c->what));
    const std::string when =
        fmt::format("complete -c heed -n '__fish_seen_subcommand_from {}'", c->name);
    if (const std::string words = argument_words(*c, list); !words.empty())
      text += fmt::format("{} -a '{}'\n", when, words);
    for (const Offer& o : list)
      text += fmt::format("{} -l {} -d '{}'{}\n", when, o.key, o.help,
                          o.unit.empty()    ? ""
                          : o.words.empty() ? " -r"
                                            : " -x -a '" + o.words + "'");
  }
  return text;
}

}  // namespace

template <>
inline constexpr auto nn::kEnumNames<Shell> = std::to_array({"bash", "zsh", "fish"});

void completions_command(Command& c) {
  c.name = "completions", c.what = "print a completion script for bash, zsh or fish";
  c.examples = "  heed completions bash > ~/.local/share/bash-completion/completions/heed";
  auto shell = std::make_shared<Shell>(Shell::kBash);
  c.arguments = 1;
  c.add("Options", {{"shell", *shell, "the shell"}});
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
