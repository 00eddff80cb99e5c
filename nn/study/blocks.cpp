#include "nn/study/blocks.h"

#include <algorithm>
#include <cmath>

#include "autograd/base/parallel.h"
#include "autograd/ops/ops.h"

namespace heed::nn {

using namespace autograd;

namespace {

BlockMap block_map(const float* map, const float* scores, std::int64_t length, std::int64_t block) {
  const std::int64_t size = (length + block - 1) / block;
  BlockMap r{size, std::vector<double>(std::size_t(size * size), 0.0),
             std::vector<std::uint8_t>(std::size_t(size * size), 1)};
  const auto add = [](double& value, double x) {
    if (std::isnan(x) || std::abs(x) > std::abs(value)) value = x;  // a NaN stays
  };
  for (std::int64_t first = 0; first < length; first += block) {
    // The queries of a block are reduced before the keys. A reduction cell by cell would be several
    // times slower, because each cell would wait for the result of the previous cell.
    std::vector<double> row(std::size_t(length), 0.0);
    std::vector<std::uint8_t> hidden(std::size_t(length), 1);
    for (std::int64_t i = first; i < std::min(first + block, length); ++i) {
      const float *x = map + i * length, *score = scores + i * length;
      for (std::int64_t j = 0; j < length; ++j) {
        if (std::isinf(score[j])) continue;
        add(row[std::size_t(j)], double(x[j]));
        hidden[std::size_t(j)] = 0;
      }
    }
    for (std::int64_t j = 0; j < length; ++j) {
      const auto cell = std::size_t(first / block * size + j / block);
      add(r.values[cell], row[std::size_t(j)]);
      r.hidden[cell] &= hidden[std::size_t(j)];
    }
  }
  return r;
}

}  // namespace

std::int64_t block_length(std::int64_t length) {
  constexpr std::int64_t kLongest = 128, kMost = 112;
  return length <= kLongest ? 1 : (length + kMost - 1) / kMost;
}

std::vector<BlockMap> block_maps(const Tensor& maps, const Tensor& scores, std::int64_t block) {
  const std::int64_t length = maps.size(2);
  const Tensor values = contiguous(to(maps, float32)), shown = contiguous(to(scores, float32));
  std::vector<BlockMap> blocks(static_cast<std::size_t>(maps.size(1)));
  parallel_for(maps.size(1), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t h = begin; h < end; ++h)
      blocks[std::size_t(h)] = block_map(values.data<float>() + h * length * length,
                                         shown.data<float>() + h * length * length, length, block);
  });
  return blocks;
}

}  // namespace heed::nn
