// Settings: variables that a configuration file or a command line sets by name. Each says once what
// its name, unit, range, choices and help are; reading, errors, files and help come from that.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "autograd/base/text.h"
#include "nn/io/enum_names.h"

namespace heed::nn {

/// The numbers from low to high; without low itself where `above`, without high where `below`.
struct Range {
  double low = -HUGE_VAL, high = HUGE_VAL;
  bool above = false, below = false;

  bool holds(double x) const {
    return x >= low && x <= high && !(above && x == low) && !(below && x == high);
  }
  /// "1 to 256", "above 0 to 10", "0 to below 1", "at least 0"; "" if every number is in it.
  std::string text() const;
};

/// The whole numbers first to last, both included; written first..last.
struct Span {
  std::int64_t first = 0, last = 0;
  bool operator==(const Span&) const = default;
};

struct Setting {
  enum class Kind { kSwitch, kInteger, kReal, kSpan, kText, kChoice, kNameOrReal, kList };

  std::string key;  ///< "d-model"
  Kind kind;
  std::string help;
  std::string unit;                ///< what a value is called in help: N, FILE
  Range range;                     ///< of a number
  std::vector<std::string> names;  ///< that it takes, or entries of a list (empty: any)
  std::string shown;               ///< the default in help; a switch that has one can be negated
  std::string group;               ///< heading in help
  bool may_be_empty = false;       ///< of a text

  /// What a value needs beside it to have an effect: "--optimizer sgd". No function: nothing.
  struct Need {
    std::string what;
    std::function<bool()> is_met;
  } need = {};

  std::function<std::string()> get;                     ///< as a file has it, without quotes
  std::function<void(const std::string&)> set_checked;  ///< a list grows by one

  // A variable that outlives the setting; the value it has now is the default.
  Setting(std::string key, bool& value, std::string help);
  Setting(std::string key, std::int64_t& value, Range range, std::string help);
  Setting(std::string key, double& value, Range range, std::string help);
  /// `range` is of both ends.
  Setting(std::string key, Span& value, Range range, std::string help);
  Setting(std::string key, std::string& value, std::string unit, std::string help);
  /// One of these names.
  Setting(std::string key, std::string& value, std::vector<std::string> names, std::string help);
  /// Any number of words: of these names if there are any.
  Setting(std::string key, std::vector<std::string>& value, std::vector<std::string> names,
          std::string help);
  /// An enum with EnumNames.
  template <class E>
  requires std::is_enum_v<E> Setting(std::string key_, E& value, std::string help_)
      : Setting(std::move(key_), Kind::kChoice, std::move(help_)) {
    names = enum_names<E>();
    unit = "NAME";
    get = [&value] { return enum_name(value); };
    set_checked = [&value](const std::string& text) { value = enum_value<E>(text).value(); };
    shown = get();
  }

  /// One of an enum's names, or a number.
  template <class E>
  Setting(std::string key_, std::variant<E, double>& value, Range range_, std::string help_)
      : Setting(std::move(key_), Kind::kNameOrReal, std::move(help_)) {
    names = enum_names<E>();
    unit = "X|NAME", range = range_;
    get = [&value] {
      const E* named = std::get_if<E>(&value);
      return named ? enum_name(*named) : real_text(std::get<double>(value));
    };
    set_checked = [&value](const std::string& text) {
      const auto number = heed::parse_number<double>(text);
      if (number)
        value = *number;
      else
        value = enum_value<E>(text).value();
    };
    shown = get();
  }
  /// A value with EnumNames, or `unset`: the name of having none.
  template <class E>
  Setting(std::string key_, std::optional<E>& value, const std::string& unset, std::string help_)
      : Setting(std::move(key_), Kind::kChoice, std::move(help_)) {
    names = enum_names<E>();
    names.insert(names.begin(), unset);
    unit = "NAME";
    get = [&value, unset] { return value ? enum_name(*value) : unset; };
    set_checked = [&value](const std::string& text) { value = enum_value<E>(text); };
    shown = get();
  }

  /// Help shows this default: what leaving it out means.
  Setting shows(std::string text) && {
    shown = std::move(text);
    return std::move(*this);
  }

  /// "" if `text` can be the value, else a sentence about `where`: "--steps needs a whole number, 1
  /// to 9, got '0'".
  std::string problem(const std::string& where, const std::string& text) const;
  /// Sets the variable; a list takes the words between commas. ValueError with the problem.
  void set(const std::string& where, const std::string& text) const;
  /// "" if what it needs is there, else the sentence for a user who gave it at `where`.
  std::string unmet_need(const std::string& where) const;
  /// For help: what it is, its range or names, its default.
  std::string description() const;

 private:
  static std::string real_text(double value);  ///< the shortest that reads back to it
  Setting(std::string key_, Kind kind_, std::string help_)
      : key(std::move(key_)), kind(kind_), help(std::move(help_)) {}
};

/// The setting of this key, or null.
const Setting* find_setting(const std::vector<Setting>& settings, std::string_view key);
std::vector<std::string> keys(const std::vector<Setting>& settings);

}  // namespace heed::nn
