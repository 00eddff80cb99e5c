// The TOML that heed reads: sections of `key = value`, as config.toml and --config files have them.
#pragma once

#include <string>
#include <vector>

namespace heed::nn {

struct TomlItem {
  std::string section;              ///< "train"; "" above the first section
  std::string key;                  ///< "" for the mark that a section begins
  std::vector<std::string> values;  ///< as written, without quotes; several if listed
};

/// ValueError, naming `where` (the file), for what is not TOML, and for a value with unmatched
/// quotes: the reader (CLI11) ends a value at #, also within quotes.
std::vector<TomlItem> read_toml(const std::string& text, const std::string& where);

/// "" if read_toml reads `value` back as it is, else what in it prevents that: "a #".
std::string toml_obstacle(const std::string& value);

}  // namespace heed::nn
