// The safetensors format and the checksum of heed, for the reader and the writer of files.
//
// A file has 8 bytes with the number N (little endian), N bytes of JSON (the header), and the data.
// The header maps each tensor name to {"dtype", "shape", "data_offsets": [begin, end]}. The offsets
// count from the start of the data, and the data has no holes. The header also maps "__metadata__"
// to an object of strings.
//
// Files written by heed have the metadata "heed_checksum": "crc32c:HHHHHHHH". The eight digits are
// the checksum of all bytes of the file, where the digits themselves are replaced by 00000000.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "autograd/base/dtype.h"
#include "autograd/base/shape.h"
#include "nn/io/crc32c.h"
#include "nn/io/json.h"

namespace heed::nn::safetensors {

static_assert(std::endian::native == std::endian::little, "safetensors files are little endian");

/// Element type of a tensor in a file.
struct Format {
  std::string_view name;  ///< name in the header, such as "F32"
  std::uint64_t bytes;    ///< bytes per element in the file
  autograd::DType dtype;  ///< dtype of the tensor in memory
};
/// All element types that heed reads.
inline constexpr Format kFormats[] = {{"F64", 8, autograd::float64},  {"I64", 8, autograd::int64},
                                      {"F32", 4, autograd::float32},  {"F16", 2, autograd::float32},
                                      {"BF16", 2, autograd::float32}, {"BOOL", 1, autograd::bool8}};

/// Formats a string, which was read from a file, for an error text: cut after 80 bytes, escaped,
/// and in quotes.
std::string quoted(const std::string& text);
/// Formats a JSON value, which was read from a file, for an error text: as JSON, cut after 80
/// characters.
std::string shown(const Json& value);

/// Returns the shape that a header contains as `sizes`. Throws JsonError if the shape is invalid.
/// The caller puts the name of the tensor before the error text, such as "has shape [-1]; heed
/// needs integer sizes >= 0".
autograd::Shape shape_of(const Json& sizes);

/// Metadata key of the checksum.
inline constexpr const char* kChecksumKey = "heed_checksum";
///@{
/// In the metadata, kChecksumPrefix precedes the digits of the checksum. kNoChecksum replaces the
/// digits while the checksum is computed.
inline constexpr std::string_view kChecksumPrefix = "crc32c:", kNoChecksum = "00000000";
///@}

/// Returns the index of the first of the eight checksum digits in a header, or npos if the header
/// has no checksum.
std::size_t find_checksum(const std::string& header);
/// Returns the checksum of the header and of its length, where the digits of the checksum are
/// replaced by zeros. The caller adds the data.
Crc32c checksum_of_header(std::string header);
/// Returns the checksum as eight hexadecimal digits.
std::string checksum_text(const Crc32c& sum);

}  // namespace heed::nn::safetensors
