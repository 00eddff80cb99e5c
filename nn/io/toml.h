// TOML as config.toml and other configuration files have it: sections of `key = value`.
#pragma once

#include <string>
#include <vector>

#include "nn/io/setting.h"

namespace heed::nn {

struct TomlItem {
  enum class Type { kBool, kNumber, kText };

  std::string section;              ///< "train"; "" above the first section
  std::string key;                  ///< "" for the mark that a section begins
  std::string where;                ///< "runs/urn-1/config.toml:3"
  std::vector<Type> types;          ///< of each value
  std::vector<std::string> values;  ///< several if listed
};

/// What `text`, the contents of `file`, says, in its order. ValueError with file and line for what
/// is not TOML, and for values other than true, false, numbers, texts and lists of them.
std::vector<TomlItem> read_toml(const std::string& text, const std::string& file);

/// The text of a file of settings. IoError unless it is a regular file of at most 1 MB, which can
/// be read.
std::string read_toml_text(const std::string& file);

/// The setting that `item` names. ValueError with file, line, key and the nearest key if there is
/// none, or one of its values is of a type that the setting does not take, or there are too many.
const Setting& setting_named(const TomlItem& item, const std::vector<Setting>& settings);

/// `key = value` in TOML.
std::string toml_line(const Setting& setting);

}  // namespace heed::nn
