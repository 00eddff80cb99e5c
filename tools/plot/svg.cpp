#include "tools/plot/svg.h"

#include <fmt/format.h>

#include "tools/plot/text.h"

namespace heed::plot {
namespace {

std::string hex(Rgb c) { return fmt::format("#{:02x}{:02x}{:02x}", c.r, c.g, c.b); }

// Returns a coordinate, rounded to hundredths of a pixel.
std::string at(double v) { return fmt::format("{:.10g}", std::round(v * 100) / 100 + 0.0); }

}  // namespace

void SvgCanvas::begin(Element next) {
  before_ += last_.text();
  last_ = std::move(next);
}

void SvgCanvas::resize(int width, int height) {
  *this = SvgCanvas();
  width_ = width, height_ = height;
  rect(0, 0, width, height, kWhite);
}

void SvgCanvas::rect(int x, int y, int width, int height, Rgb color) {
  if (width <= 0 || height <= 0) return;
  std::string head = fmt::format(R"(<rect y="{}" height="{}" fill="{}" )", y, height, hex(color));
  if (last_.head != head || last_.x != x)
    begin({.head = std::move(head), .tail = "\"/>\n", .left = x});
  last_.x = x + width;
  last_.points = fmt::format(R"(x="{}" width="{})", last_.left, x + width - last_.left);
}

void SvgCanvas::line(double x0, double y0, double x1, double y1, Rgb color, double thickness) {
  if (!std::isfinite(x0 + y0 + x1 + y1)) return;
  Pen pen{color, 0, thickness};
  if (x0 != x1 || y0 != y1) return stroke(pen, {x0, y0}, {x1, y1});
  last_.tail += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{}\"/>\n", at(x0), at(y0),
                            at(thickness / 2), hex(color));
}

void SvgCanvas::stroke(Pen& pen, Spot a, Spot b) {
  if (!std::isfinite(a.x + a.y + b.x + b.y)) return;
  if (!pen.has_drawn || last_.pen != &pen) {
    std::string dashes;
    for (const double length : dash_lengths(pen.dash)) dashes += at(length) + " ";
    begin({.head = fmt::format("<path fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{} "
                               "stroke-linecap=\"round\" stroke-linejoin=\"round\" d=\"",
                               hex(pen.color), at(pen.thickness),
                               dashes.empty() ? "" : " stroke-dasharray=\"" + dashes + "\""),
           .tail = "\"/>\n",
           .pen = &pen});
  }
  pen.has_drawn = true;
  if (a.x != last_.x || a.y != last_.y) last_.points += "M" + at(a.x) + " " + at(a.y);
  last_.points += "L" + at(b.x) + " " + at(b.y);
  last_.x = b.x, last_.y = b.y;
}

void SvgCanvas::area(double x0, double low0, double high0, double x1, double low1, double high1,
                     Rgb color, double opacity) {
  if (!std::isfinite(x0 + low0 + high0 + x1 + low1 + high1) || !(x0 < x1)) return;
  std::string points;
  for (const Spot& p : {Spot{x0, low0}, Spot{x1, low1}, Spot{x1, high1}, Spot{x0, high0}})
    points += at(p.x) + "," + at(p.y) + " ";
  begin({.head = fmt::format("<polygon fill=\"{}\" fill-opacity=\"{}\" points=\"{}\"/>\n",
                             hex(color), at(opacity), points)});
}

void SvgCanvas::text(int x, int y, std::string_view text, const TextStyle& style) {
  if (text_width(text, style.size) == 0) return;
  const char* anchors[] = {"start", "middle", "end"};
  (style.upward ? x : y) += cap_height(style.size);
  begin({.head = fmt::format(
             R"(<text x="{0}" y="{1}" font-size="{2}" text-anchor="{3}" fill="{4}"{5}>{6}</text>)",
             x, y, at(em_size(style.size)), anchors[int(style.align)], hex(style.color),
             style.upward ? fmt::format(" transform=\"rotate(-90 {} {})\"", x, y) : "",
             xml_text(visible_text(text))),
         .tail = "\n"});
}

std::string SvgCanvas::encode(std::string_view title, std::string_view alt_text,
                              const std::vector<PngText>& metadata) const {
  std::string facts;
  for (const PngText& fact : metadata)
    facts += fmt::format("<text xmlns=\"urn:heed:metadata\" keyword=\"{}\">{}</text>\n",
                         xml_text(visible_text(fact.keyword)), xml_text(visible_text(fact.text)));
  return fmt::format(
      R"(<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" role="img"
  font-family="'DejaVu Sans', sans-serif" xml:space="preserve">
<title>{2}</title>
<desc>{3}</desc>
<metadata>
{4}</metadata>
<style>rect, polygon {{ shape-rendering: crispEdges }}</style>
{5}</svg>
)",
      width_, height_, xml_text(visible_text(title)), xml_text(visible_text(alt_text)), facts,
      before_ + last_.text());
}

}  // namespace heed::plot
