// One command of the program: its name, settings and modes. This header is independent of the
// parser: cli11.h reads command lines, and `heed completions` lists the options.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nn/io/setting.h"
#include "tools/heed/report/report.h"

namespace heed {

struct Command;
using Commands = std::vector<std::unique_ptr<Command>>;

/// One of the things that a command does. The first mode whose option was given is chosen; one
/// without a key, the last, is the default.
struct Mode {
  /// The option or argument that selects the mode: a switch that is on, an option that was given,
  /// or one with one of these values.
  std::string key = {};
  std::vector<std::string> values = {};
  std::function<bool(const Command&)> when = {};  ///< must hold, too
  std::string label = {};  ///< its name, if that is not the key or the values
  /// The keys of the settings it uses (Command::only, Command::all_but); empty: all. The parser
  /// rejects the others.
  std::vector<std::string> accepts = {};
  /// What to do with the options it rejects, as the start of a command line: "a new run like it:
  /// heed train --config DIR/config.toml". Errors append the option.
  std::function<std::string(const Command&)> instead = {};
  Columns result =
      {};  ///< keys of --json; none: --json is rejected. With a table --csv is accepted
  std::function<Report(const Command&)> run = {};
  bool several = false;  ///< a launcher (mpirun) may start it as several processes

  /// For help and errors: "--over-time", "text or lines"; "" for the default.
  std::string name() const;
  bool has_table() const;
};

struct Command {
  std::string name, what;
  std::string examples;  ///< lines that can be pasted and run
  /// Stand above the examples in help. Lines that follow each other are a paragraph, which wraps;
  /// empty lines and those that start with a blank stay.
  std::string notes;

  std::vector<nn::Setting> settings;  ///< of variables that outlive the command
  std::size_t arguments = 0;          ///< the first so many settings can be given without names

  std::vector<Mode> modes;
  /// Sets the variables to what the given options change, such as a preset. It runs once, after the
  /// mode is known and before the settings are assigned. Values are in `values` only.
  std::function<void(const Command&)> set_defaults = {};

  // Settings that several commands have.
  bool json = false, csv = false;
  std::string config;
  std::int64_t threads = 0;
  std::string simd;
  enum Common { kJson = 1, kConfig = 2, kThreads = 4, kAll = 7, kCsv = 8 };
  void add_common(int which);
  /// Adds settings, under this heading in help.
  void add(const std::string& group, std::vector<nn::Setting> more);

  /// Values in the order given, and by what: "--lr", "my.toml:3: lr".
  struct Value {
    std::string where, text;
    bool in_file = false;
  };
  std::map<std::string, std::vector<Value>> values;  ///< by key
  bool given(const std::string& key) const { return values.contains(key); }
  /// The last value given for this key, or "".
  std::string text(const std::string& key) const;

  /// Keys for Mode::accepts: these and the common ones, or all but these.
  std::vector<std::string> only(std::vector<std::string> keys) const;
  std::vector<std::string> all_but(const std::vector<std::string>& keys) const;
  /// The mode that the given options choose. UsageError if there is none, or if an option was given
  /// that has no effect in it.
  const Mode& mode() const;

  /// Adds what the --config file has for this command and the command line has not. `all` tell a
  /// section of another command from a misspelled one.
  void read_config_file(const Commands& all);
  /// Sets every setting that was given.
  void assign() const;
};

/// Every command, made anew.
Commands all_commands();

}  // namespace heed
