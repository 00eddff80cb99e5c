// What the tests of pictures ask of them.
#pragma once

#include <algorithm>
#include <exception>
#include <string>

#include "tools/plot/image.h"

namespace heed::plot {

inline int count(const Image& image, Rgb color) {
  int n = 0;
  for (int y = 0; y < image.height(); ++y) {
    for (int x = 0; x < image.width(); ++x) n += image.at(x, y) == color;
  }
  return n;
}

inline bool same(const Image& a, const Image& b) {
  return a.width() == b.width() && a.height() == b.height() &&
         std::equal(a.data(), a.data() + 3 * a.width() * a.height(), b.data());
}

// What `f` throws says; empty if it does not throw. (Catch2 v2 and v3 spell their matchers apart.)
template <class F>
std::string error_text(F f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

}  // namespace heed::plot
