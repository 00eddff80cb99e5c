// A picture as SVG, with text as text, for papers and for programs that edit vector graphics.
#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "tools/plot/canvas.h"
#include "tools/plot/png.h"

namespace heed::plot {

/// A picture as elements of SVG: `text` elements in DejaVu Sans, a `rect` for each horizontal run
/// of rectangles of one color, and a `path` for each curve. Other elements are circles (dots) and
/// polygons (areas). All elements have the positions and colors of the same picture in an Image.
class SvgCanvas final : public Canvas {
 public:
  void resize(int width, int height) override;
  void text(int x, int y, std::string_view text, const TextStyle& style = {}) override;
  void area(double x0, double low0, double high0, double x1, double low1, double high1, Rgb color,
            double opacity) override;
  void rect(int x, int y, int width, int height, Rgb color) override;
  void stroke(Pen& pen, Spot a, Spot b) override;
  void line(double x0, double y0, double x1, double y1, Rgb color, double thickness = 1.0) override;

  /// Returns the picture as an SVG file. The element `title` contains `title`, and `desc` contains
  /// `alt_text`, for readers who cannot see the picture. `metadata` contains a `text` element with
  /// the attribute `keyword` for each entry. Texts are converted by visible_text(), so that the
  /// file is valid XML for all texts.
  std::string encode(std::string_view title, std::string_view alt_text,
                     const std::vector<PngText>& metadata = {}) const;

 private:
  // The last element, which the next call may extend. `points` is between `head` and `tail`, and
  // dots are appended to `tail`.
  struct Element {
    std::string head = {}, points = {}, tail = {};
    const Pen* pen = nullptr;  // pen of a curve
    double x = NAN, y = NAN;   // right edge of a rectangle, or end of a curve
    int left = 0;              // left edge of a rectangle
    std::string text() const { return head + points + tail; }
  };
  void begin(Element next);  // ends the last element

  int width_ = 1, height_ = 1;
  std::string before_;  // all elements before the last
  Element last_;
};

}  // namespace heed::plot
