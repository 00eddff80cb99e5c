// Limits of the readers of files.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heed::nn {

///@{
/// Largest size of a file in bytes. A larger file is rejected before it is read.
inline constexpr std::uint64_t kMaxTomlBytes = 1'000'000;
inline constexpr std::uint64_t kMaxLabelBytes = 1'000'000;
inline constexpr std::uint64_t kMaxPairsBytes = 32'000'000;
inline constexpr std::uint64_t kMaxTextBytes = 1 << 30;
///@}
/// Largest size of the header of a safetensors file in bytes, as in the reference implementation.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;
/// Largest number of elements of one array. A size of 0 counts as 1.
inline constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 40;
/// Largest number of parts of a TOML key or table name: a.b.c has three.
inline constexpr std::size_t kMaxTomlKeyParts = 16;
/// Largest number of nested TOML arrays and inline tables, a value inside of them included.
inline constexpr std::size_t kMaxTomlNesting = 16;
/// Largest size of a TOML table name in bytes, without quotes. Each key of the table stores a copy
/// of the name.
inline constexpr std::size_t kMaxTomlTableName = 256;
/// Largest number of nested JSON arrays and objects. The header of a safetensors file has 3.
inline constexpr int kMaxJsonDepth = 64;
/// Largest number of tokens in the vocabulary of a text.
inline constexpr std::size_t kMaxSymbols = 65'536;

}  // namespace heed::nn
