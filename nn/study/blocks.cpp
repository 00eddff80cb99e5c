#include "nn/study/blocks.h"

#include <cmath>

#include "autograd/ops/ops.h"

namespace heed::nn {

using namespace autograd;

namespace {

BlockMap block_map(const float* map, const float* scores, std::int64_t length, BlockRule rule) {
  const std::int64_t block = block_length(length), size = (length + block - 1) / block;
  BlockMap r{size, std::vector<double>(std::size_t(size * size), 0.0),
             std::vector<std::uint8_t>(std::size_t(size * size), 1)};
  for (std::int64_t i = 0; i < length; ++i)
    for (std::int64_t j = 0; j < length; ++j) {
      if (std::isinf(scores[i * length + j])) continue;
      const auto cell = std::size_t(i / block * size + j / block);
      const double x = double(map[i * length + j]);
      if (rule == BlockRule::kSum)
        r.values[cell] += x;
      else if (r.hidden[cell] || std::abs(x) > std::abs(r.values[cell]))
        r.values[cell] = x;
      r.hidden[cell] = 0;
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

std::vector<BlockMap> block_maps(const Tensor& maps, const Tensor& scores, BlockRule rule) {
  const std::int64_t length = maps.size(2);
  const Tensor values = contiguous(to(maps, float32)), shown = contiguous(to(scores, float32));
  std::vector<BlockMap> blocks;
  for (std::int64_t h = 0; h < maps.size(1); ++h) {
    const std::int64_t first = h * length * length;
    blocks.push_back(
        block_map(values.data<float>() + first, shown.data<float>() + first, length, rule));
  }
  return blocks;
}

BlockRoutes block_routes(const Routes& r) {
  const Tensor wide = to(r.total, float64);
  const auto total = sqrt(sum(wide * wide, {-1})).to_vector<double>();  // [T]
  const auto shares = r.shares().to_vector<double>();                   // [P, T]
  BlockRoutes blocks{block_sums(total), {}};
  for (std::size_t p = 0; p < r.parts.size(); ++p) {
    std::vector<double> lengths;
    for (std::size_t t = 0; t < total.size(); ++t)
      lengths.push_back(total[t] > 0 ? shares[p * total.size() + t] * total[t] : 0);
    std::vector<double> share = block_sums(lengths);
    for (std::size_t i = 0; i < share.size(); ++i)
      share[i] = blocks.total[i] > 0 ? share[i] / blocks.total[i] : 0;
    blocks.shares.push_back(std::move(share));
  }
  return blocks;
}

}  // namespace heed::nn
