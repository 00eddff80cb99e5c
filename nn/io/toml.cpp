// Reads TOML with toml++. No other file includes toml++.
#include "nn/io/toml.h"

#define TOML_EXCEPTIONS 1
#define TOML_ENABLE_FORMATTERS 0
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <span>

#include "autograd/base/error.h"
#include "autograd/base/files.h"
#include "nn/io/json.h"
#include "nn/io/nearest.h"

namespace heed::nn {

using autograd::ValueError;

namespace {

// Returns a number as the text of a setting. A whole floating-point number keeps its decimal point,
// so that it is not taken for an integer.
std::string number_text(const toml::node& node) {
  if (const auto* whole = node.as_integer()) return std::to_string(whole->get());
  const std::string text = fmt::format("{}", node.as_floating_point()->get());
  return text.find_first_of(".ein") == std::string::npos ? text + ".0" : text;
}

void add_value(TomlItem& item, const toml::node& node) {
  if (const auto* text = node.as_string()) {
    item.types.push_back(TomlItem::Type::kText);
    item.values.push_back(text->get());
  } else if (const auto* truth = node.as_boolean()) {
    item.types.push_back(TomlItem::Type::kBool);
    item.values.emplace_back(truth->get() ? "true" : "false");
  } else if (node.is_number()) {
    item.types.push_back(TomlItem::Type::kNumber);
    item.values.push_back(number_text(node));
  } else {
    fail<ValueError>(item.where, item.key, " needs true, false, a number or a text in quotes");
  }
}

// Key of a table and its value.
struct TomlEntry {
  std::string key;
  const toml::node* node;
};

// Returns the entries of a table in the order of the file. A toml::table is sorted by key.
std::vector<TomlEntry> toml_entries(const toml::table& table) {
  std::vector<TomlEntry> list;
  for (const auto& [key, node] : table) list.push_back({std::string(key.str()), &node});
  std::stable_sort(list.begin(), list.end(), [](const TomlEntry& a, const TomlEntry& b) {
    const auto x = a.node->source().begin, y = b.node->source().begin;
    return std::pair(x.line, x.column) < std::pair(y.line, y.column);
  });
  return list;
}

// Appends the items of a table and of the tables in it.
void add_items(std::vector<TomlItem>& items, const toml::table& table, const std::string& section,
               const std::string& file) {
  for (const auto& [key, entry] : toml_entries(table)) {
    const toml::node& node = *entry;
    TomlItem item;
    item.section = section, item.key = key;
    item.where = fmt::format("{}:{}", file, node.source().begin.line);
    if (const toml::table* inner = node.as_table()) {
      const std::string name = section.empty() ? item.key : section + "." + item.key;
      items.push_back({name, "", item.where, {}, {}});
      add_items(items, *inner, name, file);
      continue;
    }
    if (const toml::array* list = node.as_array()) {
      for (const toml::node& element : *list) add_value(item, element);
    } else {
      add_value(item, node);
    }
    items.push_back(std::move(item));
  }
}

// Returns nullptr if the setting accepts values of this type, and otherwise the rest of an error
// text that begins with the key.
const char* type_problem(const Setting& setting, TomlItem::Type type) {
  using Kind = Setting::Kind;
  const bool number = setting.kind == Kind::kInteger || setting.kind == Kind::kReal;
  if (setting.kind == Kind::kNameOrReal)
    return type == TomlItem::Type::kBool ? " needs a number, or a name in quotes" : nullptr;
  if (number && type != TomlItem::Type::kNumber) return " needs a number, without quotes";
  if (setting.kind == Kind::kSwitch && type != TomlItem::Type::kBool)
    return " needs true or false, without quotes";
  if (!number && setting.kind != Kind::kSwitch && type != TomlItem::Type::kText)
    return " needs a text in quotes";
  return nullptr;
}

}  // namespace

std::vector<TomlItem> read_toml(const std::string& text, const std::string& file) {
  std::vector<TomlItem> items;
  try {
    add_items(items, toml::parse(text), "", file);
  } catch (const toml::parse_error& e) {
    fail<ValueError>(fmt::format("{}:{}", file, e.source().begin.line),
                     "not TOML: ", e.description());
  }
  return items;
}

std::string read_toml_text(const std::string& file) {
  constexpr std::uint64_t kMost = 1'000'000;
  const autograd::InputFile input(file);
  check<autograd::IoError>(input.size() <= kMost, file, "has ", input.size(),
                           " bytes; a configuration file has at most ", kMost);
  std::string text(std::size_t(input.size()), '\0');
  input.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

const Setting& setting_named(const TomlItem& item, const std::vector<Setting>& settings) {
  const Setting* setting = find_setting(settings, item.key);
  if (!setting)
    fail<ValueError>(item.where, "[", item.section, "] has no key '", item.key,
                     "'; the nearest is '", nearest(item.key, keys(settings)), "'");
  check<ValueError>(setting->kind == Setting::Kind::kList || item.values.size() == 1, item.where,
                    item.key, " takes one value, got ", item.values.size());
  for (std::size_t i = 0; i < item.values.size(); ++i)
    if (const char* problem = type_problem(*setting, item.types[i])) {
      const bool quoted = item.types[i] == TomlItem::Type::kText;
      fail<ValueError>(item.where, item.key, problem, ", got ",
                       quoted ? '"' + item.values[i] + '"' : item.values[i]);
    }
  return *setting;
}

std::string toml_line(const Setting& setting) {
  using Kind = Setting::Kind;
  const std::string value = setting.get();
  const bool number = setting.kind == Kind::kNameOrReal && heed::parse_number<double>(value);
  const bool text = setting.kind == Kind::kText || setting.kind == Kind::kChoice ||
                    setting.kind == Kind::kSpan || setting.kind == Kind::kNameOrReal;
  if (!text || number) return setting.key + " = " + value + "\n";
  std::string quoted = Json(value).dump();  // a JSON string is valid in TOML, except for U+007F
  for (std::size_t at; (at = quoted.find('\x7f')) != quoted.npos;) quoted.replace(at, 1, "\\u007F");
  return setting.key + " = " + quoted + "\n";
}

}  // namespace heed::nn
