#include "nn/io/toml.h"

#include <CLI/CLI.hpp>
#include <sstream>

#include "autograd/base/error.h"

namespace heed::nn {

using namespace autograd;

std::vector<TomlItem> read_toml(const std::string& text, const std::string& where) {
  std::istringstream in(text);
  std::vector<CLI::ConfigItem> parsed;
  try {
    parsed = CLI::ConfigTOML().from_config(in);
  } catch (const CLI::Error& e) {
    fail<ValueError>(where, "not a TOML file: ", e.what());
  }
  std::vector<TomlItem> items;
  for (const CLI::ConfigItem& item : parsed) {
    if (item.name == "--") continue;  // CLI11's mark of a section's end
    std::string section;
    for (const std::string& parent : item.parents) section += (section.empty() ? "" : ".") + parent;
    const bool begins = item.name == "++";
    if (begins && section.empty()) continue;
    for (const std::string& value : item.inputs)
      check<ValueError>(!value.starts_with('"') && !value.starts_with('\''), where,
                        "the quotes of ", value, " (", item.name,
                        ") do not match (a # may not stand in a value)");
    items.push_back({section, begins ? "" : item.name, item.inputs});
  }
  return items;
}

std::string toml_obstacle(const std::string& value) {
  for (const char c : value) {
    if (c == '#' || c == '"' || c == '\\') return std::string("a ") + c;
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return "a control character";
  }
  return "";
}

}  // namespace heed::nn
