#include "nn/lab/settings/setting.h"

#include <fmt/format.h>

#include "autograd/base/error.h"
#include "nn/io/nearest.h"

namespace heed::lab {

namespace {

// Returns "" if `text` is a number in `range`, and an error text otherwise. If `whole` is true, the
// number must be whole.
std::string number_problem(const std::string& where, const std::string& text, const Range& range,
                           bool whole) {
  const auto integer = parse_number<std::int64_t>(text);
  const auto real = parse_number<double>(text);
  if ((!whole || integer) && real && std::isfinite(*real) && range.holds(*real)) return "";
  const std::string allowed = range.text();
  std::string problem = where +
                        (whole                       ? " needs a whole number"
                         : real && std::isinf(*real) ? " needs a finite number"
                                                     : " needs a number") +
                        (allowed.empty() ? "" : ", " + allowed) + ", got '" + text + "'";
  if (whole && !integer && real && std::abs(*real) < 1e15 && *real == std::floor(*real))
    problem += fmt::format("; write {:.0f}", *real);
  return problem;
}

// Parses a span such as "3..24". Returns nullopt for any other text, and if the first number is
// above the last.
std::optional<Span> parse_span(const std::string& text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) return std::nullopt;
  const auto first = parse_number<std::int64_t>(text.substr(0, dots));
  const auto last = parse_number<std::int64_t>(text.substr(dots + 2));
  if (!first || !last || *first > *last) return std::nullopt;
  return Span{*first, *last};
}

// Returns "" if `text` is a span with both ends in `range`, and an error text otherwise.
std::string span_problem(const std::string& where, const std::string& text, const Range& range) {
  const auto span = parse_span(text);
  if (span && range.holds(double(span->first)) && range.holds(double(span->last))) return "";
  const std::string allowed = range.text();
  return where + " needs two whole numbers" + (allowed.empty() ? "" : ", " + allowed) +
         ", the smaller first, such as 3..24, got '" + text + "'";
}

// Splits the text of a list at its commas. For any other kind, returns the whole text as one word.
std::vector<std::string> words(const std::string& text, Setting::Kind kind) {
  return kind == Setting::Kind::kList ? split(text, ',') : std::vector{text};
}

}  // namespace

std::string Range::text() const {
  const std::string from = (above ? "above " : "") + fmt::format("{}", low);
  const std::string to = (below ? "below " : "") + fmt::format("{}", high);
  if (std::isfinite(low) && std::isfinite(high)) return from + " to " + to;
  if (std::isfinite(low)) return above ? from : "at least " + from;
  return std::isfinite(high) ? (below ? to : "at most " + to) : "";
}

Setting::Setting(std::string key_, bool& value, std::string help_)
    : Setting(std::move(key_), Kind::kSwitch, std::move(help_)) {
  get = [&value] { return value ? "true" : "false"; };
  set_checked = [&value](const std::string& text) { value = text == "true"; };
}

Setting::Setting(std::string key_, Index& value, Range range_, std::string help_)
    : Setting(std::move(key_), Kind::kInteger, std::move(help_)) {
  unit = "N", range = range_, shown = std::to_string(value);
  get = [&value] { return std::to_string(value); };
  set_checked = [&value](const std::string& text) { value = *parse_number<std::int64_t>(text); };
}

std::string Setting::real_text(double value) { return fmt::format("{}", value); }

Setting::Setting(std::string key_, double& value, Range range_, std::string help_)
    : Setting(std::move(key_), Kind::kReal, std::move(help_)) {
  unit = "X", range = range_, shown = real_text(value);
  get = [&value] { return real_text(value); };
  set_checked = [&value](const std::string& text) { value = *parse_number<double>(text); };
}

Setting::Setting(std::string key_, Span& value, Range range_, std::string help_)
    : Setting(std::move(key_), Kind::kSpan, std::move(help_)) {
  unit = "A..B", range = range_;
  get = [&value] { return fmt::format("{}..{}", value.first, value.last); };
  set_checked = [&value](const std::string& text) { value = *parse_span(text); };
  shown = get();
}

Setting::Setting(std::string key_, std::optional<bool>& value, const std::string& unset,
                 std::string help_)
    : Setting(std::move(key_), Kind::kChoice, std::move(help_)) {
  unit = "NAME", names = {unset, "yes", "no"}, shown = unset;
  get = [&value, unset] { return !value ? unset : *value ? "yes" : "no"; };
  set_checked = [&value, unset](const std::string& text) {
    value = text == unset ? std::nullopt : std::optional(text == "yes");
  };
}

Setting::Setting(std::string key_, std::string& value, std::string unit_, std::string help_)
    : Setting(std::move(key_), Kind::kText, std::move(help_)) {
  unit = std::move(unit_), shown = value;
  get = [&value] { return value; };
  set_checked = [&value](const std::string& text) { value = text; };
}

Setting::Setting(std::string key_, std::string& value, std::vector<std::string> names_,
                 std::string help_)
    : Setting(std::move(key_), value, "NAME", std::move(help_)) {
  kind = Kind::kChoice, names = std::move(names_);
}

Setting::Setting(std::string key_, std::vector<std::string>& value, std::vector<std::string> names_,
                 std::string help_)
    : Setting(std::move(key_), Kind::kList, std::move(help_)) {
  unit = "NAME", names = std::move(names_);
  get = [&value] { return heed::join(value, ", "); };
  set_checked = [&value](const std::string& text) { value.push_back(text); };
}

std::string Setting::problem(const std::string& where, const std::string& text) const {
  switch (kind) {
    case Kind::kSwitch:
      return text == "true" || text == "false" ? ""
                                               : where + " needs true or false, got '" + text + "'";
    case Kind::kInteger:
    case Kind::kReal:
      if (const std::string wrong = number_problem(where, text, range, kind == Kind::kInteger);
          !wrong.empty())
        return wrong + remedy;
      return "";
    case Kind::kSpan:
      return span_problem(where, text, range);
    default:
      break;
  }
  if (text.empty()) return may_be_empty ? "" : where + " needs a value, got ''";
  if (names.empty()) return "";
  if (kind == Kind::kNameOrReal) {
    if (parse_number<double>(text)) return number_problem(where, text, range, false);
    const std::string wrong = name_problem(text, names);
    return wrong.empty() ? "" : where + " needs a number or a name: " + wrong;
  }
  for (const std::string& word : words(text, kind))
    if (const std::string wrong = name_problem(word, names); !wrong.empty())
      return where + ": " + wrong;
  return "";
}

void Setting::set(const std::string& where, const std::string& text) const {
  const std::string wrong = problem(where, text);
  if (!wrong.empty()) throw autograd::ValueError(wrong);
  for (const std::string& word : words(text, kind)) set_checked(word);
}

std::string Setting::unmet_need(const std::string& where) const {
  if (!need.is_met || need.is_met()) return "";
  return where + " needs " + need.what + ", and has no effect without it; add it, or leave out `" +
         key + "`";
}

std::string Setting::description() const {
  std::string text = help;
  if (const std::string allowed = range.text(); !allowed.empty()) text += "; " + allowed;
  if (kind == Kind::kNameOrReal)
    text += ", or " + heed::join(names, " or ");
  else if (!names.empty())
    text += ": " + heed::join(names, kind == Kind::kList ? ", " : " or ");
  if (required) return text + " (required)";
  return shown.empty() ? text : text + " (default: " + shown + ")";
}

const Setting* find_setting(const std::vector<Setting>& settings, std::string_view key) {
  for (const Setting& s : settings)
    if (s.key == key) return &s;
  return nullptr;
}

std::vector<std::string> keys(const std::vector<Setting>& settings) {
  std::vector<std::string> list;
  list.reserve(settings.size());
  for (const Setting& s : settings) list.push_back(s.key);
  return list;
}

}  // namespace heed::lab
