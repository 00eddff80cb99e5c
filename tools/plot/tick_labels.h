// Labels along one axis of a heat map, chosen so that they do not overlap.
#pragma once

#include <string>
#include <vector>

#include "tools/plot/canvas.h"

namespace heed::plot {

/// Returns the smallest step of 1, 2, 5, 10, 20, 50, ... for which labels do not overlap if every
/// step-th position has one. `pitch` is the distance between neighboring positions, and `extent` is
/// the space that one label needs, both in pixels.
int label_step(double pitch, int extent);

/// Labels of every step-th position. A label is the token at its position. If `step` is above 1,
/// the number of the position is printed in gray beside the token. If there are no tokens, the
/// label is the number of the position.
struct TickLabels {
  int step = 1;                      ///< positions 0, step, 2 step, ... have a label
  double size = 0;                   ///< text size
  bool upward = false;               ///< true: the text runs from bottom to top
  std::vector<std::string> numbers;  ///< gray number beside each label, or ""
  std::vector<std::string> tokens;   ///< text of each label
  int number_width = 0;              ///< width of the widest number, in pixels
  int token_width = 0;               ///< width of the widest token, in pixels

  int gap() const { return number_width > 0 ? int(size / 3) : 0; }
  int width() const { return number_width + gap() + token_width; }
  /// Returns the height of labels below a horizontal axis, or the width of labels to the left of a
  /// vertical axis, in pixels.
  int depth(bool horizontal) const { return horizontal && !upward ? cap_height(size) : width(); }

  /// Draws label i. Along a vertical axis, the label ends at `x` and its middle is at `y`. Along a
  /// horizontal axis, its middle is at `x` and its top is at `y`.
  void draw(Canvas& canvas, int i, int x, int y, bool horizontal) const;
};

/// Returns the labels for `positions` positions that are `pitch` pixels apart. `tokens` is empty or
/// has one entry per position.
TickLabels tick_labels(const std::vector<std::string>& tokens, int positions, double pitch,
                       bool horizontal, double size);

}  // namespace heed::plot
