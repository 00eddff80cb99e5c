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

/// Returns a string from a file in quotes, escaped and cut to 80 characters, for an error text.
std::string quoted(const std::string& text);
/// Returns the JSON text of a value from a file, cut to 80 characters, for an error text.
std::string shown(const Json& value);

/// Returns the shape in a header. Throws JsonError for an invalid shape, with a text to be put
/// after the name of the tensor: "has shape [-1]; heed needs integer sizes >= 0".
autograd::Shape shape_of(const Json& sizes);

/// Metadata key of the checksum.
inline constexpr const char* kChecksumKey = "heed_checksum";
///@{
/// Prefix of the checksum in the metadata, and the digits that replace it while it is computed.
inline constexpr std::string_view kChecksumPrefix = "crc32c:", kNoChecksum = "00000000";
///@}

/// Returns the index of the eight digits of the checksum in a header, or npos if there is none.
std::size_t find_checksum(const std::string& header);
/// Returns the checksum of the length and the header, where the digits of the checksum are replaced
/// by zeros. The caller adds the data.
Crc32c checksum_of_header(std::string header);
/// Returns the checksum as eight hexadecimal digits.
std::string checksum_text(const Crc32c& sum);

}  // namespace heed::nn::safetensors
