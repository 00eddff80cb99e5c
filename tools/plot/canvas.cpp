#include "tools/plot/canvas.h"

#include <array>
#include <cmath>

namespace heed::plot {

Rgb mix(Rgb a, Rgb b, double share) {
  const auto channel = [share](std::uint8_t from, std::uint8_t to) {
    return std::uint8_t(std::lround(from + share * (to - from)));
  };
  return {channel(a.r, b.r), channel(a.g, b.g), channel(a.b, b.b)};
}

const std::vector<double>& dash_lengths(int dash) {
  // For lines that are about 2 pixels thick.
  static const std::array<std::vector<double>, kDashPatterns> patterns = {
      {{}, {14, 8}, {1.5, 5}, {12, 5, 1.5, 5}}};
  return patterns[std::size_t(dash)];
}

void Canvas::frame(int x, int y, int width, int height, Rgb color) {
  rect(x, y, width, 1, color);
  rect(x, y + height - 1, width, 1, color);
  rect(x, y, 1, height, color);
  rect(x + width - 1, y, 1, height, color);
}

int Canvas::text_lines(int x, int y, const std::vector<std::string>& lines, int width,
                       const TextStyle& style) {
  for (const std::string& line : lines) {
    text(x, y, shorten_text(line, width, style.size), style);
    (style.upward ? x : y) += line_height(style.size);
  }
  return y;
}

}  // namespace heed::plot
