// Settings: variables that a configuration file or a command line can set by name. Each setting has
// its name, unit, range, choices and help in one place. The parsers, the error texts, the
// configuration files and the help texts all use these.
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "autograd/base/text.h"
#include "nn/io/enum_names.h"
#include "nn/lab/names.h"

namespace heed::lab {

/// Range of numbers.
struct Range {
  double low = -HUGE_VAL;  ///< lower bound
  double high = HUGE_VAL;  ///< upper bound
  bool above = false;      ///< true: the range excludes `low`
  bool below = false;      ///< true: the range excludes `high`

  /// Returns true if the range contains x.
  bool holds(double x) const {
    return x >= low && x <= high && !(above && x == low) && !(below && x == high);
  }
  /// Returns the range as text, such as "1 to 256", "above 0 to 10", "0 to below 1" or "at least
  /// 0". Returns "" if the range has no bounds.
  std::string text() const;
};

/// Whole numbers from `first` to `last`, written as "first..last".
struct Span {
  Index first = 0;  ///< smallest number
  Index last = 0;   ///< largest number
  /// Returns true if both ends are equal.
  bool operator==(const Span&) const = default;
};

/// Variable that a configuration file or a command line can set.
struct Setting {
  /// Type of the value.
  enum class Kind {
    kSwitch,      ///< true or false
    kInteger,     ///< a whole number
    kReal,        ///< a number
    kSpan,        ///< two whole numbers, written as "first..last"
    kText,        ///< any text
    kChoice,      ///< one of several names
    kNameOrReal,  ///< one of several names, or a number
    kList         ///< several words
  };

  std::string key;                 ///< name, such as "d-model"
  Kind kind;                       ///< type of the value
  std::string help;                ///< meaning of the setting, for help texts
  std::string unit;                ///< placeholder for a value in help texts, such as N or FILE
  Range range;                     ///< accepted numbers
  std::vector<std::string> names;  ///< accepted names; if it is empty, a kList accepts any word
  /// Default in help texts. If a switch has one, the command line also accepts `--no-KEY`.
  std::string shown;
  std::string group;          ///< heading in help texts
  bool common = false;        ///< true: the first level of help shows the setting
  bool required = false;      ///< true: a value must be given
  bool may_be_empty = false;  ///< true: the setting accepts an empty text
  std::string remedy = {};    ///< end of the error text of an invalid number, such as "; use ..."

  /// Condition under which the setting has an effect.
  struct Need {
    std::string what;              ///< condition as text, such as "--optimizer sgd"
    std::function<bool()> is_met;  ///< returns true if the condition holds; empty: no condition
  } need = {};                     ///< condition under which the setting has an effect

  /// Returns the value as text, as in a file but without quotes.
  std::function<std::string()> get;
  /// Sets the variable to the value of a text that problem() accepts. If the variable is a list,
  /// appends the text as one more entry.
  std::function<void(const std::string&)> set_checked;

  ///@{
  /// Makes a setting for a variable, which must outlive the setting. The current value of the
  /// variable is the default. A number, or both ends of a Span, must be in `range`. `unit` is the
  /// placeholder of a text in help texts. `unset` stands for an empty optional. `names` are the
  /// accepted words. If `names` is empty, a list accepts any words.
  Setting(std::string key, bool& value, std::string help);
  Setting(std::string key, Index& value, Range range, std::string help);
  Setting(std::string key, double& value, Range range, std::string help);
  Setting(std::string key, Span& value, Range range, std::string help);
  Setting(std::string key, std::optional<bool>& value, const std::string& unset, std::string help);
  Setting(std::string key, std::string& value, std::string unit, std::string help);
  Setting(std::string key, std::string& value, std::vector<std::string> names, std::string help);
  Setting(std::string key, std::vector<std::string>& value, std::vector<std::string> names,
          std::string help);
  ///@}
  /// Makes a setting for an enum that has kEnumNames. Its value is one of the names.
  template <class E>
  requires std::is_enum_v<E> Setting(std::string key_, E& value, std::string help_)
      : Setting(std::move(key_), Kind::kChoice, std::move(help_)) {
    names = enum_names<E>();
    unit = "NAME";
    get = [&value] { return enum_name(value); };
    set_checked = [&value](const std::string& text) { value = enum_value<E>(text).value(); };
    shown = get();
  }

  /// Makes a setting whose value is one of the names of an enum, or a number in `range_`.
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

  /// Sets the text that help texts show as the default. Returns the setting.
  Setting shows(std::string text) && {
    shown = std::move(text);
    return std::move(*this);
  }

  /// Returns "" if `text` is a valid value. Otherwise returns an error text that begins with
  /// `where`, such as "--steps needs a whole number, 1 to 9, got '0'".
  std::string problem(const std::string& where, const std::string& text) const;
  /// Sets the variable to the value of `text`. If the variable is a list, appends the words between
  /// the commas. Throws ValueError with the text of problem() if `text` is not a valid value.
  void set(const std::string& where, const std::string& text) const;
  /// Returns "" if the condition `need` holds. Otherwise returns an error text that begins with
  /// `where`.
  std::string unmet_need(const std::string& where) const;
  /// Returns the help text, which has the meaning, the range or the names, and the default
  /// if there is one.
  std::string description() const;

 private:
  // Returns the shortest text that reads back to the same value.
  static std::string real_text(double value);
  Setting(std::string key_, Kind kind_, std::string help_)
      : key(std::move(key_)), kind(kind_), help(std::move(help_)) {}
};

/// Returns the setting with this key, or nullptr if there is none.
const Setting* find_setting(const std::vector<Setting>& settings, std::string_view key);
/// Returns the keys of all settings.
std::vector<std::string> keys(const std::vector<Setting>& settings);

}  // namespace heed::lab
