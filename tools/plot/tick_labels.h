// The labels along one axis of a heat map: chosen so that they do not overlap.
#pragma once

#include <string>
#include <vector>

#include "tools/plot/image.h"

namespace heed::plot {

/// Of n labels that need `extent` pixels each, `pitch` pixels apart, every how many-th fits:
/// 1, 2, 5, 10, 20, 50, ...
int label_step(double pitch, int extent);

/// Every step-th position: its token; beside it, in gray, its number once some are left out. The
/// number alone where there are no tokens.
struct TickLabels {
  int step = 1;
  double size = 0;                           // of the text
  bool upward = false;                       // read from bottom to top
  std::vector<std::string> numbers, tokens;  // of positions 0, step, 2 step, ...; numbers or empty
  int number_width = 0, token_width = 0;     // pixels: the widest

  int gap() const { return number_width > 0 ? int(size / 3) : 0; }
  int width() const { return number_width + gap() + token_width; }
  /// Pixels from the axis to the labels' far end.
  int depth(bool horizontal) const { return horizontal && !upward ? cap_height(size) : width(); }

  /// Draws label i: along a vertical axis its end at x, its middle at y; along a horizontal one its
  /// middle at x, its top at y.
  void draw(Image& image, int i, int x, int y, bool horizontal) const;
};

/// For `size` positions that stand `pitch` pixels apart. `tokens` is empty or has that many.
TickLabels tick_labels(const std::vector<std::string>& tokens, int positions, double pitch,
                       bool horizontal, double size);

}  // namespace heed::plot
