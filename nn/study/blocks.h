// Maps of single heads for pictures and the page. In a long sequence, maps and routes are reduced
// to blocks of consecutive tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/study/routes.h"

namespace heed::nn {

/// Returns the number of tokens in a block: 1 if `length` is at most 128, and otherwise the
/// smallest number with which a sequence of `length` tokens has at most 112 blocks.
std::int64_t block_length(std::int64_t length);

/// Rule that reduces the cells of a block to one value. Cells that the attention mask hides are
/// skipped.
enum class BlockRule {
  kLargest,  ///< the value with the largest magnitude
  kSum       ///< the sum of the values
};

/// A matrix with one value for each block of queries and block of keys, row-major.
struct BlockMap {
  std::int64_t size;                 ///< number of blocks on each side
  std::vector<double> values;        ///< [size, size], 0 if `hidden` is 1
  std::vector<std::uint8_t> hidden;  ///< [size, size], 1 if the mask hides all cells of the block
};
/// Returns one BlockMap for each head, with blocks of `block` tokens. `maps` and `scores` have the
/// shape [1, H, T, T]. A score of -inf means that the mask hides the cell.
std::vector<BlockMap> block_maps(const Tensor& maps, const Tensor& scores, std::int64_t block,
                                 BlockRule rule = BlockRule::kLargest);

/// The routes of one sequence (see Routes), reduced to blocks of tokens.
struct BlockRoutes {
  std::vector<double> total;  ///< by block: sum over its tokens of the norm of Routes::total
  /// By route, then by block: sum over its tokens of the component of the route's vector along
  /// Routes::total. The sum over the routes is `total`.
  std::vector<std::vector<double>> values;
};
/// Reduces the routes of a study of one sequence, [1, T].
BlockRoutes block_routes(const Routes& routes);

}  // namespace heed::nn
