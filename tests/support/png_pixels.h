// Reads the pixels of a PNG file with stb_image, and its texts. Only one test file of a folder may
// include this header, because a unity build compiles all files of a folder as one.
#pragma once

#include "autograd/base/files.h"
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

/// Returns the texts of a PNG file that write_png() has written. An iTXt chunk consists of its
/// length, "iTXt", the keyword, five zeros and the text, and a checksum of four bytes.
inline std::vector<PngText> png_texts(const std::string& png) {
  const std::string bytes = autograd::read_file(png);
  std::vector<PngText> texts;
  for (std::size_t at = bytes.find("iTXt"); at != bytes.npos; at = bytes.find("iTXt", at + 1)) {
    std::uint32_t length = 0;
    for (std::size_t i = at - 4; i < at; ++i) length = length << 8 | std::uint8_t(bytes[i]);
    const std::string body = bytes.substr(at + 4, length), keyword = body.c_str();
    texts.push_back({keyword, body.substr(keyword.size() + 5)});
  }
  return texts;
}

}  // namespace heed::plot
