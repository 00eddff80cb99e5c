// Functions for tests of pictures. They examine the pixels and the texts of an Image.
#pragma once

#include "tests/support/catch.h"
#include "tools/plot/plot.h"

namespace heed::plot {

/// Returns the number of pixels with this color.
inline int count(const Image& image, Rgb color) {
  int n = 0;
  for (int y = 0; y < image.height(); ++y) {
    for (int x = 0; x < image.width(); ++x) n += image.at(x, y) == color;
  }
  return n;
}

/// Returns true if the pictures have the same size and pixels.
inline bool same(const Image& a, const Image& b) {
  return a.width() == b.width() && a.height() == b.height() &&
         std::equal(a.data(), a.data() + 3 * a.width() * a.height(), b.data());
}

/// Returns a description of all faults of the texts in a picture, or "" if there are none. Faults
/// are a line of text closer than 4 pixels to the edge, a line that overlaps another line, and text
/// smaller than kSmallestText.
inline std::string text_faults(const Image& image) {
  std::ostringstream faults;
  const std::vector<TextBox>& boxes = image.text_boxes();
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const TextBox& a = boxes[i];
    if (a.x < 4 || a.y < 4 || a.x + a.width > image.width() - 4 ||
        a.y + a.height > image.height() - 4)
      faults << "'" << a.text << "' leaves the picture. ";
    if (a.size < kSmallestText) faults << "'" << a.text << "' is small: " << a.size << ". ";
    for (std::size_t j = 0; j < i; ++j) {
      const TextBox& b = boxes[j];
      if (a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height &&
          b.y < a.y + a.height)
        faults << "'" << a.text << "' overlaps '" << b.text << "'. ";
    }
  }
  return faults.str();
}

/// Returns true if the picture contains a line of text that is exactly `text`.
inline bool has_text(const Image& image, const std::string& text) {
  return std::any_of(image.text_boxes().begin(), image.text_boxes().end(),
                     [&](const TextBox& box) { return box.text == text; });
}

}  // namespace heed::plot
