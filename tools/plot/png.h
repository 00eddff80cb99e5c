// PNG files: writes pictures together with a description and metadata, and reads the texts of any
// PNG file.
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

/// Size and texts of a PNG file.
struct PngInfo {
  ///@{
  /// Size in pixels.
  std::uint32_t width = 0, height = 0;
  ///@}
  std::vector<PngText> texts;  ///< contents of the iTXt and tEXt chunks, in file order
};

/// Returns true if the file begins with the PNG signature. Throws IoError if it cannot be read.
bool is_png(const std::string& path);

/// Reads size and texts of a PNG file, which any program may have written. Checks the checksum of
/// every chunk but does not decode the pixels. The text of a compressed chunk is "(compressed)".
/// Throws IoError, which names path and reason, if the file cannot be read, is not a PNG file, is
/// cut off or damaged, or has more than 1,000,000 bytes of text. The file is read in pieces, so
/// that wrong lengths in it cannot cause large allocations.
PngInfo read_png_info(const std::string& path);

}  // namespace heed::plot
