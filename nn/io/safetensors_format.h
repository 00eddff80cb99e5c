// What reading and writing of safetensors files share: the format, and heed's checksum in it.
//
// The format: 8 bytes N (little endian), N bytes of JSON, the data. The JSON maps each name to
// {"dtype", "shape", "data_offsets": [begin, end]} counted from the data's start, and
// "__metadata__" to text pairs. The data have no holes.
// Ours have the metadata "heed_checksum": "crc32c:HHHHHHHH", the checksum of all bytes of the file
// with 00000000 in that place.
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

/// A type of elements.
struct Format {
  std::string_view name;
  std::uint64_t bytes;    ///< per element, in the file
  autograd::DType dtype;  ///< in memory
};
inline constexpr Format kFormats[] = {{"F64", 8, autograd::float64},  {"I64", 8, autograd::int64},
                                      {"F32", 4, autograd::float32},  {"F16", 2, autograd::float32},
                                      {"BF16", 2, autograd::float32}, {"BOOL", 1, autograd::bool8}};

/// Text or a value from a file, fit for one line of a message.
std::string quoted(const std::string& text);
std::string shown(const Json& value);

/// The shape that a file states. JsonError to follow a tensor's name: "has shape [-1]; heed needs
/// integer sizes >= 0".
autograd::Shape shape_of(const Json& sizes);

inline constexpr const char* kChecksumKey = "heed_checksum";
inline constexpr std::string_view kChecksumPrefix = "crc32c:", kNoChecksum = "00000000";

/// Where a header has the eight digits of its checksum, or npos.
std::size_t find_checksum(const std::string& header);
/// Of the length and the header, the checksum's own digits as zeros; the data are to be added.
Crc32c checksum_of_header(std::string header);
/// The eight digits.
std::string checksum_text(const Crc32c& sum);

}  // namespace heed::nn::safetensors
