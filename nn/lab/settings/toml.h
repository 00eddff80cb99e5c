// Reads and writes TOML configuration files such as config.toml: sections with lines `key = value`.
#pragma once

#include <string>
#include <vector>

#include "nn/lab/settings/setting.h"

namespace heed::lab {

/// Line of a TOML file: a key with its values, or the start of a section.
struct TomlItem {
  /// Type of a value.
  enum class Type {
    kBool,    ///< true or false
    kNumber,  ///< an integer or a real number
    kText     ///< a string in quotes
  };

  std::string section;              ///< such as "train"; "" before the first section
  std::string key;                  ///< "" if the item is the start of a section
  std::string where;                ///< file and line, such as "runs/markov-1/config.toml:3"
  std::vector<Type> types;          ///< type of each value
  std::vector<std::string> values;  ///< one value, or all values of a list
};

/// Parses the contents `text` of a file and returns its items in the order of the file. `file`, the
/// path, is only used in error texts. Throws ValueError with file and line if the text is not TOML
/// or exceeds a limit (nn/io/limits.h), and for values other than true, false, numbers, strings and
/// lists of these.
std::vector<TomlItem> read_toml(const std::string& text, const std::string& file);

/// Returns the contents of a configuration file. Throws IoError unless it is a readable regular
/// file of at most kMaxTomlBytes.
std::string read_toml_text(const std::string& file);

/// Returns the setting for an item. Throws ValueError with file, line and key in three cases: if no
/// setting has this key (the text names the nearest key), if a value has the wrong type, and if the
/// setting is not a list but the item does not have exactly one value.
const Setting& setting_named(const TomlItem& item, const std::vector<Setting>& settings);

/// Returns the line `key = value` for a setting, in TOML.
std::string toml_line(const Setting& setting);

}  // namespace heed::lab
