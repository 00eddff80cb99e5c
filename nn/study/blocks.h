// Maps of single heads for pictures. In a long sequence, maps are reduced to blocks of consecutive
// tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/tensor/tensor.h"

namespace heed::nn {

/// Returns the number of tokens in a block: 1 if `length` is at most 128, and otherwise the
/// smallest number with which a sequence of `length` tokens has at most 112 blocks.
std::int64_t block_length(std::int64_t length);

/// A matrix with one value for each block of queries and block of keys, row-major.
struct BlockMap {
  std::int64_t size;                 ///< number of blocks on each side
  std::vector<double> values;        ///< [size, size], 0 if `hidden` is 1
  std::vector<std::uint8_t> hidden;  ///< [size, size], 1 if the mask hides all cells of the block
};
/// Returns one BlockMap for each head, with blocks of `block` tokens: of the cells that the mask
/// does not hide, the value with the largest magnitude. `maps` and `scores` have the shape [1, H,
/// T, T]. A score of -inf means that the mask hides the cell.
std::vector<BlockMap> block_maps(const autograd::Tensor& maps, const autograd::Tensor& scores,
                                 std::int64_t block);

}  // namespace heed::nn
