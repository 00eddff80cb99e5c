#include "tools/heed/study/section.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/base/parallel.h"
#include "autograd/base/text.h"
#include "tools/plot/plot.h"

namespace heed {
namespace {

Value table_json(const Table& table) {
  Value columns = Value::array();
  for (const Column& c : table.columns)
    columns.push_back(Value::object({{"name", c.name}, {"unit", c.unit}}));
  return Value::object(
      {{"title", table.title}, {"what", table.note}, {"columns", columns}, {"rows", table.rows}});
}

Value section_json(const Section& s) {
  Value tables = Value::array();
  for (const Table& t : s.tables) tables.push_back(table_json(t));
  return Value::object(
      {{"key", s.key}, {"title", s.title}, {"sentences", s.sentences}, {"tables", tables}});
}

// Returns a text of at most `most` code points. An ellipsis replaces the rest.
std::string shortened(const std::string& text, std::size_t most) {
  std::size_t end = text.size();
  for (std::size_t i = 0, starts = 0; i < text.size(); ++i)
    if ((text[i] & 0xC0) != 0x80 && ++starts == most) end = i;
  return width_of(text) <= most ? text : text.substr(0, end) + "…";
}

}  // namespace

std::string cell_text(const Value& cell, const Column& column) {
  if (const auto* text = cell.as<std::string>()) return *text;
  if (const double* x = cell.as<double>())
    return number_text(column.format, column.format.ends_with("%") ? 100 * *x : *x);
  return cell == nullptr ? "-" : cell.dump();
}

Table evidence_table(std::string_view place, const std::vector<lab::Evidence>& rows,
                     const lab::Judgement& judgement) {
  constexpr const char* kSigned = "{:+.3g}";
  Table t{.columns = {{std::string(place)},
                      {"effect", "", kSigned},
                      {"error", "", "{:.2g}"},
                      {"donors", "", "{:.2g}", false},
                      {"accuracy", "", "{:.1f} %"},
                      {"path", "", "{:+.2g}"},
                      {"gradient", "", "{:+.2g}"},
                      {"note"}},
          .shown = 24};
  for (const std::size_t i : judgement.order) {
    const lab::Evidence& row = rows[i];
    t.rows.push_back({row.place, row.effect.mean, row.effect.standard_error,
                      row.effect.donor_deviation, row.effect.accuracy, row.path, row.gradient,
                      row.off_distribution ? "off-distribution" : ""});
  }
  return t;
}

std::string agreement_text(const lab::Judgement& j) {
  if (j.counted == 0 || std::isnan(j.path.factor)) return "";
  const auto line = [&](const char* name, const lab::Agreement& a) {
    return fmt::format("\n{}: {} of {} signs right, {} within a factor of 3 (median ratio {}).",
                       name, j.counted - a.wrong_sign, j.counted, a.close,
                       lab::factor_text(a.factor));
  };
  return fmt::format("{} of {} count: effects of at least {:.2g}{}.", j.counted, j.counts.size(),
                     std::max(j.smallest, 0.05 * j.largest),
                     j.smallest < 0.05 * j.largest ? ", 5 % of the largest" : "") +
         line("Path gradient", j.path) + line("Gradient", j.gradient);
}

std::string measured_text(std::size_t measured, std::size_t all) {
  if (measured == 0)
    return fmt::format("none of {} was measured, because each needs too much work", all);
  return fmt::format("{} of {} measured", measured, all);
}

// Adds the columns and rows of a table that text shows. The first column of texts has places, such
// as "L0 resid_pre at 17 (a/b)"; the others have tokens and marks.
void add_table(Out& out, const Table& table) {
  Cells headings;
  std::vector<Cells> rows(std::min(table.rows.size(), table.shown));
  std::size_t most = 26;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const Column& column = table.columns[c];
    if (!column.in_text) continue;
    headings.push_back(column.name + (column.unit.empty() ? "" : " (" + column.unit + ")"));
    for (std::size_t r = 0; r < rows.size(); ++r)
      rows[r].push_back(shortened(cell_text(table.rows[r][c], column), most));
    if (!rows.empty() && table.rows[0][c].as<std::string>()) most = 20;
  }
  if (!table.title.empty()) out.gap(), out.text("{}", table.title);
  if (rows.empty()) return;
  out.table(headings, rows);
  if (rows.size() < table.rows.size())
    out.text("... {} rows in all; --json prints all of them", table.rows.size());
  if (!table.note.empty()) out.text("{}", table.note);
}

Value sections_json(const std::vector<Section>& sections) {
  Value all = Value::array();
  for (const Section& s : sections) all.push_back(section_json(s));
  return all;
}

void add_section(Out& out, const Section& section) {
  out.gap();
  out.text("{}", section.title);
  for (const std::string& sentence : section.sentences) out.text("{}", sentence);
  for (const Table& table : section.tables) add_table(out, table);
  out.gap();
}

Files draw_pictures(ResultFolder& folder, const std::vector<Picture>& pictures,
                    const PictureSource& source) {
  std::vector<Files> written(pictures.size());
  autograd::parallel_for(std::ssize(pictures), 1, [&](Index i, Index) {
    const Picture& p = pictures[std::size_t(i)];
    std::filesystem::path file;
    for (const std::string& format : source.formats) file = folder.file(p.file + "." + format);
    written[std::size_t(i)] = write_picture(file, p, source);
  });
  Files files;
  for (const Files& some : written) append(files, some);
  return files;
}

}  // namespace heed
