// One command of the program: its name, settings and modes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nn/lab/settings/setting.h"
#include "tools/heed/report/out.h"

namespace heed {

/// Name of the help group with the keys of --json and the notes on values that only JSON contains.
inline constexpr const char* kJsonGroup = "JSON";

/// Returns the name of an argument in help and errors, such as "TASK" or "RUN...".
std::string argument_name(const lab::Setting& setting);

struct Command;
using Commands = std::vector<std::unique_ptr<Command>>;

/// One variant of a command: `heed study --over-time` is a mode of `heed study`. The first mode
/// whose option was given is chosen. A mode without a key is the default mode and must be the last.
struct Mode {
  /// Key of the option or argument that selects the mode. If it is a switch, the switch must be on.
  /// Any other option must be given and, unless `values` is empty, must have one of these values.
  std::string key = {};
  std::vector<std::string> values = {};           ///< accepted values of `key`; empty: all values
  std::function<bool(const Command&)> when = {};  ///< an additional condition, if set
  std::string label = {};                         ///< the result of name(), if not ""
  /// Keys of the settings that the mode uses, from Command::only() or Command::all_but(). If it is
  /// empty, the mode uses all settings. Command::mode() rejects all other settings.
  std::vector<std::string> accepts = {};
  /// Keys of the JSON object, for help: "run rows (name loss)". If it is empty, --json is rejected.
  std::string keys = {};
  std::function<Out(const Command&)> run = {};  ///< runs the mode
  bool several = false;                         ///< true: mpirun may start several processes of it

  /// Returns the name of the mode for help and errors: "--over-time", "text or lines". The name of
  /// the default mode is "".
  std::string name() const;
};

/// One command: its declaration, and the values that the user gave.
struct Command {
  std::string name;      ///< for example "train"
  std::string what;      ///< description in one line, for help
  std::string kind;      ///< heading in the list of commands
  std::string examples;  ///< lines for help that can be pasted and run, the most useful first
  /// Text for help. Successive lines form a paragraph, which is wrapped. Empty lines and lines that
  /// start with a blank are kept. A line "[GROUP]" starts the notes of a group of settings, of a
  /// group that has only notes, or of kJsonGroup. `heed COMMAND --help` prints only the notes above
  /// the first such line.
  std::string notes;

  std::vector<lab::Setting> settings;  ///< their variables must outlive the command
  std::size_t arguments = 0;           ///< number of leading settings that need no option name

  std::vector<Mode> modes;
  /// Sets variables whose defaults depend on the given options, for example on a preset. It runs
  /// once, after the mode is chosen and before the settings are assigned, so it must read the
  /// options from `values`.
  std::function<void(const Command&)> set_defaults = {};

  // Settings that several commands share.
  bool json = false;
  std::string config;
  Index threads = 0;
  enum Common { kJson = 1, kConfig = 2, kThreads = 4 };
  /// Adds common settings; `which` is a sum of Common values.
  void add_common(int which);
  /// Adds settings. Help lists them under the heading `group`, which is one word.
  void add(const std::string& group, std::vector<lab::Setting> more);
  /// Sets a flag of the settings with these keys: lab::Setting::common or lab::Setting::required.
  /// If no setting of a command is common, the first level of help shows all of them.
  void mark(bool lab::Setting::*flag, const std::vector<std::string>& keys);

  /// One value that the user gave.
  struct Value {
    std::string where;     ///< its origin, for errors: "--lr" or "my.toml:3: lr"
    std::string text;      ///< the value
    bool in_file = false;  ///< true: from the --config file
  };
  std::map<std::string, std::vector<Value>> values;  ///< all values of each key, in the order given
  bool is_program = false;  ///< true: the command is a program of its own, heed-NAME
  /// Returns the words that start the command: "heed train", "heed-bench".
  std::string typed() const { return (is_program ? "heed-" : "heed ") + name; }
  /// Returns true if the user gave a value for this key.
  bool given(const std::string& key) const { return values.contains(key); }
  /// Returns the last value that was given for this key, or "".
  std::string text(const std::string& key) const;

  /// Returns a list for Mode::accepts that contains `keys` and the common settings.
  std::vector<std::string> only(std::vector<std::string> keys) const;
  /// Returns a list for Mode::accepts that contains all settings except `keys`.
  std::vector<std::string> all_but(const std::vector<std::string>& keys) const;
  /// Returns the mode that the given options select. Throws UsageError if no mode is selected, if a
  /// required setting is not given, or if a given option has no effect in the mode.
  const Mode& mode() const;

  /// Adds the values of the --config file for this command. A value of the command line takes
  /// precedence over a value of the file. `all` is the list of commands. Throws IoError if the file
  /// cannot be read, and UsageError for an invalid value, an unknown key, or a section that is not
  /// named after a command with --config.
  void read_config_file(const Commands& all);
  /// Assigns the given values to the variables of the settings.
  void assign() const;
};

/// Creates all commands.
Commands all_commands();

}  // namespace heed
