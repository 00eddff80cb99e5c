// Reads TOML with toml++. No other file includes toml++.
#include "nn/io/toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "autograd/base/error.h"
#include "autograd/base/files.h"
#include "nn/io/json.h"
#include "nn/io/limits.h"
#include "nn/io/nearest.h"

// Invalid files violate assertions of toml++, such as "[=". With NDEBUG, Clang assumes that they
// hold, which is undefined behavior. Without NDEBUG and without assertions, toml++ reports these
// files as errors.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(condition) static_assert(true)
#define TOML_EXCEPTIONS 1
#define TOML_ENABLE_FORMATTERS 0
#define TOML_MAX_NESTED_VALUES ::heed::nn::kMaxTomlNesting
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

namespace heed::nn {

using autograd::ValueError;

namespace {

// Returns the index after the end of the string that starts at text[at], which is a quote.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const bool is_long = text.substr(at).starts_with(std::string(3, quote));  // may have lines
  const std::string end(is_long ? 3 : 1, quote);
  for (at += end.size(); at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (text.substr(at).starts_with(end)) {
      // Up to two quotes may stand before the three quotes at the end of a long string.
      const std::string_view last = text.substr(at, is_long ? 5 : 1);
      return at + std::min(last.find_first_not_of(quote), last.size());
    } else if (!is_long && text[at] == '\n') {
      return at;  // not TOML
    }
  }
  return text.size();
}

// Throws ValueError for texts that toml++ cannot read safely. It makes a table for each part of a
// key, and destroys them by recursion, so many parts would overflow the stack. Outside of strings
// and comments, TOML allows only ASCII, and the result of toml++ for U+035E is undefined.
void check_before_parsing(std::string_view text, const std::string& file) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark
  std::size_t line = 1, dots = 0;
  for (std::size_t at = 0, next; at < text.size(); at = next) {
    const char c = text[at];
    next = c == '"' || c == '\'' ? end_of_string(text, at)
           : c == '#'            ? std::min(text.find('\n', at), text.size())
                                 : at + 1;
    line += std::size_t(std::ranges::count(text.substr(at, next - at), '\n'));
    check<ValueError>((c & 0x80) == 0, fmt::format("{}:{}", file, line),
                      "a character outside of strings and comments is not ASCII; texts and "
                      "paths need quotes");
    // No other character ends a key. So an unknown character cannot hide a part.
    if (std::string_view("\n=,[]{}").find(c) != std::string_view::npos) dots = 0;
    dots += c == '.';
    if (dots >= kMaxTomlKeyParts)
      fail<ValueError>(fmt::format("{}:{}", file, line), "a key or section has more than ",
                       kMaxTomlKeyParts,
                       " parts with dots between them; heed's own have one part, such as lr");
  }
}

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
      check<ValueError>(name.size() <= kMaxTomlTableName, item.where, "the name of a section has ",
                        name.size(), " bytes; the limit is ", kMaxTomlTableName);
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
  check_before_parsing(text, file);
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
  const autograd::InputFile input(file);
  check<autograd::IoError>(input.size() <= kMaxTomlBytes, file, "has ", input.size(),
                           " bytes; a configuration file has at most ", kMaxTomlBytes);
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
