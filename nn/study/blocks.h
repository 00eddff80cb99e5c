// Maps and routes of a long sequence, reduced to blocks of tokens so that a page can show them.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/study/routes.h"

namespace heed::nn {

/// Returns the number of tokens in a block. A sequence of `length` tokens has at most 128 blocks.
std::int64_t block_length(std::int64_t length);

/// Rule that reduces the cells of a block to one value. Cells that the mask hides are left out.
enum class BlockRule {
  kLargest,  ///< the value of the largest magnitude
  kSum       ///< the sum of the values
};

/// A map over blocks of queries and blocks of keys, row-major.
struct BlockMap {
  std::int64_t size;                 ///< number of blocks on each side
  std::vector<double> values;        ///< [size, size], 0 where hidden
  std::vector<std::uint8_t> hidden;  ///< [size, size], 1 if the mask hides all cells of the block
};
/// Reduces the map of each head. maps and scores have the shape [1, H, T, T]; a score of -inf means
/// that the mask hides the cell.
std::vector<BlockMap> block_maps(const Tensor& maps, const Tensor& scores, BlockRule rule);

/// The routes of one sequence, reduced to blocks of its tokens.
struct BlockRoutes {
  std::vector<double> total;  ///< by block: sum of |Routes::total| over the tokens of the block
  /// By part, then block. The shares of a block sum to 1. They are 0 if its gradient is 0.
  std::vector<std::vector<double>> shares;
};
/// Reduces routes of one sequence, [1, T].
BlockRoutes block_routes(const Routes& routes);

}  // namespace heed::nn
