#include "nn/study/copies.h"

#include "autograd/ops/ops.h"

namespace heed::nn {

using namespace autograd;

Batch copies_of(const Batch& batch, std::int64_t n) {
  const auto repeated = [&](const Tensor& x) {  // [B, T] -> [n B, T]
    const std::int64_t count = x.size(0), length = x.size(1);
    const Tensor all = expand(unsqueeze(x, 0), {n, count, length});
    return contiguous(reshape(all, {n * count, length}));
  };
  Batch copies;
  copies.inputs = repeated(batch.inputs), copies.targets = repeated(batch.targets);
  return copies;
}

std::vector<double> doubles(const Tensor& x) { return to(x, float64).to_vector<double>(); }

}  // namespace heed::nn
