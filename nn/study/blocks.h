// Maps and numbers of a long sequence, reduced to blocks of tokens: what a page can show.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/study/routes.h"

namespace heed::nn {

/// Returns how many tokens a block has, so that a sequence of `length` has at most 128 blocks.
std::int64_t block_length(std::int64_t length);

/// What a block of cells becomes, of those that the mask does not hide.
enum class BlockRule {
  kLargest,  ///< the cell of the largest magnitude
  kSum
};

/// A map by blocks of queries and of keys, row-major. A block is hidden if all its cells are.
struct BlockMap {
  std::int64_t size;
  std::vector<double> values;        ///< [size, size], 0 where hidden
  std::vector<std::uint8_t> hidden;  ///< [size, size]
};
/// Reduces each head's map; maps and scores are [1, H, T, T], and -inf in scores hides a cell.
std::vector<BlockMap> block_maps(const Tensor& maps, const Tensor& scores, BlockRule rule);

/// The routes of one sequence, by blocks of its tokens.
struct BlockRoutes {
  std::vector<double> total;                ///< by block: sum over its tokens of |Routes::total|
  std::vector<std::vector<double>> shares;  ///< by part, then block; of a block they sum to 1, or
                                            ///< are 0 where nothing arrives
};
BlockRoutes block_routes(const Routes& routes);

}  // namespace heed::nn
