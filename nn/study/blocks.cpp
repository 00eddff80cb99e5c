#include "nn/study/blocks.h"

#include <algorithm>
#include <cmath>

#include "autograd/base/parallel.h"
#include "autograd/ops/ops.h"

namespace heed::nn {

using namespace autograd;

namespace {

BlockMap block_map(const float* map, const float* scores, std::int64_t length, std::int64_t block,
                   BlockRule rule) {
  const std::int64_t size = (length + block - 1) / block;
  BlockMap r{size, std::vector<double>(std::size_t(size * size), 0.0),
             std::vector<std::uint8_t>(std::size_t(size * size), 1)};
  const auto add = [rule](double& value, double x) {
    if (rule == BlockRule::kSum)
      value += x;
    else if (std::isnan(x) || std::abs(x) > std::abs(value))
      value = x;  // a NaN stays
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

// Returns the sum of x over the tokens of each block. x has one number for each token.
std::vector<double> block_sums(const std::vector<double>& x) {
  const auto length = std::int64_t(x.size()), block = block_length(length);
  std::vector<double> sums(std::size_t((length + block - 1) / block), 0.0);
  for (std::int64_t t = 0; t < length; ++t) sums[std::size_t(t / block)] += x[std::size_t(t)];
  return sums;
}

}  // namespace

std::int64_t block_length(std::int64_t length) {
  constexpr std::int64_t kLongest = 128, kMost = 112;
  return length <= kLongest ? 1 : (length + kMost - 1) / kMost;
}

std::vector<BlockMap> block_maps(const Tensor& maps, const Tensor& scores, std::int64_t block,
                                 BlockRule rule) {
  const std::int64_t length = maps.size(2);
  const Tensor values = contiguous(to(maps, float32)), shown = contiguous(to(scores, float32));
  std::vector<BlockMap> blocks(static_cast<std::size_t>(maps.size(1)));
  parallel_for(maps.size(1), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t h = begin; h < end; ++h)
      blocks[std::size_t(h)] =
          block_map(values.data<float>() + h * length * length,
                    shown.data<float>() + h * length * length, length, block, rule);
  });
  return blocks;
}

BlockRoutes block_routes(const Routes& r) {
  const Tensor wide = to(r.total, float64);
  const auto total = sqrt(sum(wide * wide, {-1})).to_vector<double>();  // [T]
  const auto shares = r.shares().to_vector<double>();                   // [P, T]
  BlockRoutes blocks{block_sums(total), {}};
  for (std::size_t p = 0; p < r.parts.size(); ++p) {
    std::vector<double> values(total.size(), 0.0);
    for (std::size_t t = 0; t < total.size(); ++t)
      if (total[t] > 0) values[t] = shares[p * total.size() + t] * total[t];
    blocks.values.push_back(block_sums(values));
  }
  return blocks;
}

}  // namespace heed::nn
