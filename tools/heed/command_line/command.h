// One command of the program: what it is called, which settings it has, what it does. It knows no
// parser: cli11.h makes command lines of it, completions and the man page come from it, too.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nn/io/setting.h"

namespace heed {

struct Command;
using Commands = std::vector<std::unique_ptr<Command>>;

struct Command {
  std::string name, what;
  std::string examples;  ///< lines that can be pasted and run
  std::string notes;     ///< stand above the examples in help
  /// Of --json, in help: "task heads (layer head)", the keys of an object's or list's entries in
  /// parentheses. Names that are data (of references, metadata) are not listed.
  /// By what else is given: "", "resume", "--dry-run".
  std::map<std::string, std::string> json_keys = {};

  std::vector<nn::Setting> settings;  ///< of variables that outlive the command
  std::size_t arguments = 0;          ///< the first so many settings can be given without names

  /// Whether a launcher (mpirun) may start it as several processes.
  bool several = false;

  /// What the command does; returns the exit code.
  std::function<int(const Command&)> run;

  // Settings that several commands have.
  bool json = false;
  std::string config;
  std::int64_t threads = 0;
  std::string simd;
  enum Common { kJson = 1, kConfig = 2, kThreads = 4, kAll = 7 };
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

  /// Adds what the --config file has for this command and the command line has not. `all` tell a
  /// section of another command from a misspelled one.
  void read_config_file(const Commands& all);
  /// Sets every setting that was given.
  void assign() const;
};

/// Every command, made anew.
Commands all_commands();

}  // namespace heed
