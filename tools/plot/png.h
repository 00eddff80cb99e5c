// PNG files: writes pictures together with a description and metadata.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/plot/image.h"

namespace heed::plot {

/// A text stored in a PNG file.
struct PngText {
  std::string keyword;  ///< 1 to 79 bytes; section 11.3.4.2 of PNG lists standard keywords
  std::string text;     ///< UTF-8
  /// Compares keyword and text.
  bool operator==(const PngText&) const = default;
};

/// Returns `image` as the bytes of a PNG file. An iTXt chunk with the keyword "Description"
/// contains `alt_text`, for readers who cannot see the picture. Each entry of `metadata` becomes
/// another iTXt chunk. Texts are converted by visible_text(). Throws ValueError unless each keyword
/// has 1 to 79 bytes.
std::string encode_png(const Image& image, std::string_view alt_text,
                       const std::vector<PngText>& metadata = {});

/// Writes the bytes of encode_png to `path`, atomically: an existing file is either replaced or
/// unchanged. Throws IoError, which names path and cause, and the errors of encode_png.
void write_png(const std::string& path, const Image& image, std::string_view alt_text,
               const std::vector<PngText>& metadata = {});

}  // namespace heed::plot
