#include "tools/plot/pen.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace heed::plot {
namespace {

// Lengths of dashes and gaps in pixels, alternating, for lines that are about 2 pixels thick.
const std::array<std::vector<double>, kDashPatterns> kPatterns = {
    {{}, {14, 8}, {1.5, 5}, {12, 5, 1.5, 5}}};

}  // namespace

Pen::Pen(Image& image, Rgb color, int dash, double thickness)
    : image_(image), color_(color), thickness_(thickness), pattern_(kPatterns[std::size_t(dash)]) {}

void Pen::line(Spot a, Spot b) {
  if (pattern_.empty()) return image_.line(a.x, a.y, b.x, b.y, color_, thickness_);
  const double length = std::hypot(b.x - a.x, b.y - a.y);
  double done = 0;
  while (done < length) {
    const double next = std::min(length, done + pattern_[part_] - in_part_);
    const auto at = [&](double d) {
      return Spot{a.x + d / length * (b.x - a.x), a.y + d / length * (b.y - a.y)};
    };
    const Spot from = at(done), to = at(next);
    if (part_ % 2 == 0) image_.line(from.x, from.y, to.x, to.y, color_, thickness_);
    in_part_ += next - done;
    done = next;
    if (in_part_ < pattern_[part_] - 1e-9) continue;
    in_part_ = 0;
    part_ = (part_ + 1) % pattern_.size();
  }
}

}  // namespace heed::plot
