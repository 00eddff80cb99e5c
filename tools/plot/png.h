// PNG files: pictures written with what they show in words, and what such a file says of itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/plot/image.h"

namespace heed::plot {

/// A fact kept in a PNG file: its keyword (1 to 79 letters, "Software" and the like are those of
/// the PNG specification, section 11.3.4.2) and what it says, UTF-8.
struct PngText {
  std::string keyword, text;
  bool operator==(const PngText&) const = default;
};

/// `image` as the bytes of a PNG file with an iTXt chunk "Description", `alt_text`, for readers who
/// do not see the picture, and one for each of `metadata`. Of all texts what does not print is
/// spelled out (visible_text). ValueError for a keyword of another length.
std::string encode_png(const Image& image, std::string_view alt_text,
                       const std::vector<PngText>& metadata = {});

/// Replaces the file at `path` with that PNG, whole or not at all. IoError names path and cause.
void write_png(const std::string& path, const Image& image, std::string_view alt_text,
               const std::vector<PngText>& metadata = {});

/// What a PNG file says of itself.
struct PngInfo {
  std::uint32_t width = 0, height = 0;
  std::vector<PngText> texts;  ///< of its iTXt and tEXt chunks, in their order
};

/// Whether the file begins as a PNG does. IoError if it cannot be read.
bool is_png(const std::string& path);

/// Reads it from any program's file, and every chunk's checksum; the pixels are not decoded.
/// Compressed texts read "(compressed)". IoError with path and reason for a file that is no PNG, is
/// cut off, or is damaged; texts of more than a megabyte in all, and files of more than 2 GB, are
/// refused. Takes memory for the file's bytes, whatever it says of its sizes.
PngInfo read_png_info(const std::string& path);

}  // namespace heed::plot
