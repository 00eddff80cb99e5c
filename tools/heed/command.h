// One command of the program: its options, each named once for the command line, the config file
// and --help. CLI11 finds and prints options; values are read here, strictly, so that every error
// says which option, what was given and what it needs.
#pragma once

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace heed {

/// A whole decimal number in [low, high]; UsageError beginning with `where` otherwise ("--steps").
std::int64_t parse_integer(const std::string& where, const std::string& raw,
                           std::int64_t low = INT64_MIN, std::int64_t high = INT64_MAX);
/// A finite decimal number in [low, high].
double parse_real(const std::string& where, const std::string& raw, double low = -HUGE_VAL,
                  double high = HUGE_VAL);
/// true or false.
bool parse_bool(const std::string& where, const std::string& raw);

class Command {
 public:
  /// `examples`: lines that can be pasted and run; `notes` stand above them in --help.
  Command(CLI::App& app, const std::string& name, const std::string& what,
          const std::string& examples, const std::string& notes = {});
  Command(const Command&) = delete;

  /// Options added from here on stand under this heading in --help.
  void group(const std::string& heading) { group_ = heading; }
  // The value a reference has now is the default that --help shows. References outlive the command.
  void integer(const std::string& key, std::int64_t& value, std::int64_t low, std::int64_t high,
               const std::string& help);
  void real(const std::string& key, double& value, double low, double high,
            const std::string& help);
  void text(const std::string& key, std::string& value, const std::string& type,
            const std::string& help);
  /// --key, and where `negatable` --no-key.
  void flag(const std::string& key, bool& value, const std::string& help, bool negatable = false);
  /// set(where, raw) gets the value, whatever it means.
  using Set = std::function<void(const std::string& where, const std::string& raw)>;
  /// An argument without a name; in a config file it has one, `key`. `many`: set is called for
  /// each.
  void positional(const std::string& key, const std::string& help, Set set, bool many = false);
  void positional(const std::string& key, std::string& value, const std::string& help);
  void option(const std::string& key, const std::string& type, const std::string& shown_default,
              const std::string& help, Set set);
  void switch_option(const std::string& key, const std::string& help, bool negatable, Set set);
  // Options that several commands have.
  void config_option();
  void threads_option();
  void json_option();

  /// What the command does; returns the exit code.
  std::function<int()> run;

  CLI::App& app() { return *app_; }
  const std::string& name() const { return name_; }
  /// Whether the command line or the config file set this key.
  bool given(const std::string& key) const { return given_.count(key) > 0; }
  std::vector<std::string> keys() const;
  bool json = false;

  /// UsageError if an option lacks its value or a value is empty; only a prompt may be. CLI11 would
  /// take the next argument instead. `arguments`: what follows the command's name.
  void check_values(const std::vector<std::string>& arguments) const;

  /// After CLI11's parse: values of the --config file, then of the command line, go where they
  /// belong. `all` the commands tell a section of another command from a misspelled one.
  void apply(const std::vector<std::unique_ptr<Command>>& all);

 private:
  struct Entry {
    std::string key;
    CLI::Option* option;
    CLI::Option* negation;  // --no-key, or null
    Set set;
    bool many;  // takes any number of values
  };
  void add(const std::string& key, CLI::Option* option, CLI::Option* negation, Set set);
  void read_config_file(const std::vector<std::unique_ptr<Command>>& all);
  const Entry* find(const std::string& key) const;

  CLI::App* app_;
  std::string name_, group_ = "Options", config_;
  std::int64_t threads_ = 0;
  std::vector<Entry> entries_;
  std::set<std::string> given_;
};

/// The error for an option that `command` does not have: our name for nanoGPT's and PyTorch's
/// ("--n_layer"), else the nearest.
std::string unknown_option(const std::string& argument, const std::string& command,
                           const std::vector<std::string>& keys);

}  // namespace heed
