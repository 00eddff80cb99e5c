// Reads the pixels of a PNG file with stb_image. Only one test file of a folder may include this
// header, because a unity build compiles all files of a folder as one.
#pragma once

#include "tests/support/catch.h"
#include "tools/plot/plot.h"

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
#include <stb/stb_image.h>

namespace heed::plot {

/// Returns true if the size and the pixels of the PNG file `png` equal those of the image.
inline bool same_pixels(const std::string& png, const Image& image) {
  int width = 0, height = 0, channels = 0;
  stbi_uc* pixels = stbi_load(png.c_str(), &width, &height, &channels, 3);
  REQUIRE(pixels != nullptr);
  const bool same = width == image.width() && height == image.height() &&
                    std::equal(pixels, pixels + 3 * width * height, image.data());
  stbi_image_free(pixels);
  return same;
}

}  // namespace heed::plot
