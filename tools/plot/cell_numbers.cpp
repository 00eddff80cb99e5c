#include "tools/plot/cell_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace heed::plot {

std::string CellNumbers::text(double value) const {
  if (!std::isfinite(value)) return "";
  if (value == 0) return "0";
  const std::string plain = fmt::format("{:.{}f}", value / std::pow(10.0, exponent), decimals);
  const bool zero = plain.find_first_of("123456789") == std::string::npos;
  return zero && plain.front() == '-' ? plain.substr(1) : typeset_number(plain);
}

int CellNumbers::width(const HeatmapGrid& grid, double size) const {
  int widest = 0;
  for (const Panel& panel : grid.panels)
    for (const float v : panel.values) widest = std::max(widest, text_width(text(double(v)), size));
  return widest;
}

CellNumbers cell_numbers(double largest) {
  if (!(largest > 0) || !std::isfinite(largest)) return {};
  const int digits = int(std::floor(std::log10(largest)));  // power of ten of the first digit
  const bool plain = digits >= -1 && digits <= 2;
  return plain ? CellNumbers{0, 2 - std::max(digits, 0)} : CellNumbers{digits, 2};
}

}  // namespace heed::plot
