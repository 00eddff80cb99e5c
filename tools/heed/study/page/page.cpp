#include "tools/heed/study/page/page.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>
#include <string_view>

#include "autograd/base/files.h"
#include "tools/heed/report/output.h"
#include "tools/plot/heatmap_layout.h"

// Defines report.html as a string. The assembler copies the file into the program.
asm(".pushsection .rodata\n"
    ".globl heed_page; .hidden heed_page; .type heed_page, %object\n"
    "heed_page:\n.incbin \"" HEED_PAGE_FOLDER
    "/report.html\"\n.byte 0\n"
    ".size heed_page, . - heed_page\n.popsection\n");
extern "C" __attribute__((visibility("hidden"))) const char heed_page[];

namespace heed {
namespace {

std::string base64_of(std::string_view bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8 | (k < left ? std::uint8_t(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      text += k <= left ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

// Returns a text as HTML that shows it.
std::string escaped(std::string_view text) {
  std::string html;
  for (const char c : text)
    if (c == '<')
      html += "&lt;";
    else if (c == '&')
      html += "&amp;";
    else if (c == '"')
      html += "&quot;";
    else
      html += c;
  return html;
}

std::string element(const char* tag, std::string_view text) {
  return text.empty() ? "" : fmt::format("<{0}>{1}</{0}>\n", tag, escaped(text));
}

std::string table_html(const Table& table) {
  std::string html =
      element("h3", table.title) + "<div class=\"scroll\" tabindex=\"0\"><table><tr>";
  for (const Column& c : table.columns)
    html += fmt::format("<th>{}{}</th>", escaped(c.name),
                        c.unit.empty() ? "" : " (" + escaped(c.unit) + ")");
  html += "</tr>\n";
  for (const std::vector<Value>& row : table.rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      html += fmt::format("<{0}>{1}</{0}>", i == 0 ? "th" : "td",
                          escaped(cell_text(row[i], table.columns[i])));
    html += "</tr>\n";
  }
  return html + "</table></div>\n" + element("p", table.note);
}

std::string picture_html(const Picture& picture, const std::filesystem::path& file) {
  const bool is_svg = file.extension() == ".svg";
  const auto* grid = std::get_if<plot::HeatmapGrid>(&picture.drawing);
  std::string html =
      fmt::format("<figure{}>\n<img alt=\"{}\" src=\"data:image/{};base64,{}\">\n",
                  grid ? " class=\"map\"" : "", escaped(description_of(picture)),
                  is_svg ? "svg+xml" : "png", base64_of(autograd::read_file(file.string())));
  if (grid) {
    // In JSON, '<' occurs only inside strings. No escaped string can end the element.
    std::string json;
    for (const char c : map_json(*grid).dump()) json += c == '<' ? "\\u003c" : std::string(1, c);
    html += "<output></output>\n<script type=\"application/json\">" + json + "</script>\n";
  }
  return html + "</figure>\n";
}

// Replaces `mark` in the page by `text`. Throws std::logic_error if the page does not have it.
void fill_in(std::string& page, std::string_view mark, std::string_view text) {
  const std::size_t at = page.find(mark);
  if (at == std::string::npos)
    throw std::logic_error("report.html does not contain " + std::string(mark));
  page.replace(at, mark.size(), text);
}

}  // namespace

nn::Json map_json(const plot::HeatmapGrid& grid) {
  constexpr int kLargestCode = 32767, kHiddenCode = -32768;
  const plot::HeatmapLayout at = plot::lay_out(grid);
  const auto is_shown = [](const plot::Panel& p, std::size_t i) {
    return std::isfinite(p.values[i]) && (p.masked.empty() || p.masked[i] == 0);
  };
  double scale = 0;
  for (const plot::Panel& p : grid.panels)
    for (std::size_t i = 0; i < p.values.size(); ++i)
      if (is_shown(p, i)) scale = std::max(scale, std::abs(double(p.values[i])));
  std::string bytes;
  nn::Json panels = nn::Json::array();
  for (std::size_t n = 0; n < grid.panels.size(); ++n) {
    const plot::Panel& p = grid.panels[n];
    panels.push_back(nn::Json::object(
        {{"title", p.title}, {"left", at.panel_x(int(n))}, {"top", at.panel_y(int(n))}}));
    for (std::size_t i = 0; i < p.values.size(); ++i) {
      int code = kHiddenCode;
      if (is_shown(p, i))
        code = scale > 0 ? int(std::lround(double(p.values[i]) / scale * kLargestCode)) : 0;
      bytes += {char(code & 0xFF), char(code >> 8 & 0xFF)};
    }
  }
  // Returns a label for each row or column: "5", or "5 (c)" if it has a label of its own.
  const auto labels = [](int count, const std::vector<std::string>& own) {
    std::vector<std::string> all;
    for (int i = 0; i < count; ++i) {
      all.push_back(std::to_string(i));
      if (!own.empty() && own[std::size_t(i)] != all.back())
        all.back() += " (" + plot::token_text(own[std::size_t(i)]) + ")";
    }
    return all;
  };
  return nn::Json::object({{"width", at.width},
                           {"pitch", at.pitch()},
                           {"panels", panels},
                           {"row_axis", grid.row_axis},
                           {"column_axis", grid.col_axis},
                           {"rows", labels(grid.panels[0].rows, grid.row_labels)},
                           {"columns", labels(grid.panels[0].cols, grid.col_labels)},
                           {"scale", scale},
                           {"codes", base64_of(bytes)}});
}

std::string html_of(const Page& page, const std::filesystem::path& folder,
                    const std::string& format) {
  std::string body = element("h1", page.title);
  body += fmt::format("<p class=\"muted\">heed {}: <code>{}</code></p>\n", version_text(),
                      escaped(typed_command()));
  for (const std::string& line : page.summary)
    body += fmt::format("<p class=\"lines\">{}</p>\n", escaped(line));
  for (const Section& s : page.sections) {
    body += fmt::format("<section id=\"{}\">\n", escaped(s.key)) + element("h2", s.title);
    for (const std::string& sentence : s.sentences) body += element("p", sentence);
    for (const Picture& p : s.pictures) body += picture_html(p, folder / (p.file + "." + format));
    for (const Table& table : s.tables) body += table_html(table);
    body += "</section>\n";
  }
  std::string html = heed_page;
  fill_in(html, "/* the title */", escaped(page.title));
  fill_in(html, "/* the body */", body);
  return html;
}

Files write_page(ResultFolder& folder, const PictureSource& source, const Page& page) {
  std::vector<Picture> pictures;
  for (const Section& s : page.sections)
    pictures.insert(pictures.end(), s.pictures.begin(), s.pictures.end());
  Files files = draw_pictures(folder, pictures, source);
  files.push_back(folder.file("report.html"));
  const std::string html = html_of(page, files.back().parent_path(), source.formats[0]);
  autograd::write_file(files.back().string(), html);
  return files;
}

}  // namespace heed
