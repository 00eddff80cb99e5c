#include "tools/heed/report/out.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "autograd/base/text.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

// Returns true if a cell is aligned right: its first word is a number ("1.5", "3.4 %", "12 / 20"),
// or it is the place of a missing number.
bool is_number(const std::string& cell) {
  const std::string word = cell.substr(0, cell.find(' '));
  if (word.empty() || word == "-" || word == "nan" || word.ends_with("inf")) return true;
  return word.find_first_of("0123456789") < 2 &&
         word.find_first_not_of("0123456789.,+-e") == std::string::npos;
}

}  // namespace

std::size_t width_of(std::string_view text) {
  return std::size_t(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string wrapped(std::string_view text, std::size_t hang) {
  constexpr std::size_t kWidth = 80;
  std::string lines;
  std::size_t used = 0, at = 0;  // columns used in this line; byte in `text`
  const std::string indent = "\n" + std::string(hang, ' ');
  while (at < text.size()) {
    const std::size_t word = std::min(text.find_first_not_of(' ', at), text.size()),
                      end = std::min(text.find_first_of(" \n", word), text.size());
    const std::size_t width = width_of(text.substr(at, end - at));
    if (used > hang && used + width > kWidth) {
      lines += indent;
      used = hang;
      at = word;
      continue;
    }
    lines += text.substr(at, end - at);
    used += width;
    at = end;
    if (at < text.size() && text[at] == '\n') lines += text[at++], used = 0;
  }
  return lines;
}

std::string number_text(std::string_view format, std::optional<double> x) {
  return x && !std::isnan(*x) ? fmt::vformat(format, fmt::make_format_args(*x)) : "-";
}

void Out::add_paragraph(const std::string& text) {
  for (const std::string& line : split(text, '\n')) {
    const std::size_t blanks = line.find_first_not_of(' ');
    text_ += wrapped(line, blanks == std::string::npos ? 0 : blanks) + "\n";
  }
}

void Out::gap() {
  if (!text_.empty() && !text_.ends_with("\n\n")) text_ += "\n";
}

void Out::table(const Cells& headings, const std::vector<Cells>& rows) {
  std::vector<std::string> lines(rows.size() + 1);
  std::size_t start = 0, width = 0;  // of the last column so far
  bool is_right = false;             // it is aligned right
  for (std::size_t c = 0; c < headings.size(); ++c) {
    Cells cells{headings[c]};
    for (const Cells& row : rows) cells.push_back(plot::visible_text(row.at(c)));
    const auto body = std::span(cells).subspan(1);
    if (std::ranges::all_of(body, [](const auto& cell) { return cell.empty() || cell == "-"; }))
      continue;
    is_right = std::ranges::all_of(body, is_number);
    if (width > 0) start += width + 2;
    width = 0;
    for (const std::string& cell : cells) width = std::max(width, width_of(cell));
    for (std::size_t r = 0; r < cells.size(); ++r) {
      const std::size_t at = start + (is_right ? width - width_of(cells[r]) : 0);
      if (!cells[r].empty()) lines[r] += std::string(at - width_of(lines[r]), ' ') + cells[r];
    }
  }
  if (lines[0].empty()) lines.erase(lines.begin());
  for (const std::string& line : lines) text_ += (is_right ? line : wrapped(line, start)) + "\n";
}

void Out::files(const std::vector<std::filesystem::path>& files) {
  Value list = Value::array();
  std::vector<std::string> names;
  for (const auto& file : files) {
    list.push_back(file.string());
    names.push_back(file.filename().string());
  }
  set("files", list);
  if (files.size() == 1)
    block(files[0].string() + "\n");
  else if (!files.empty())
    text("{}: {}", files[0].parent_path().string(), heed::join(names, ", "));
}

}  // namespace heed
