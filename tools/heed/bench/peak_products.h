// What the machine multiplies at most, to state a step's share of.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/kernels/simd/simd.h"
#include "autograd/ops/ops.h"
#include "tools/heed/bench/comparators.h"

namespace heed {

struct PeakProduct {
  std::string name;            ///< "heed", "oneDNN", "heed, bfloat16 by amx"
  std::function<void()> call;  ///< PeakProducts::size() cubed; the object outlives it
};

/// Square products of float32, ours and oneDNN's; for steps whose operands are rounded ours of
/// rounded ones, too: float32's peak is no limit of theirs.
class PeakProducts {
 public:
  /// Rows and columns: 2048, or what the references can do in a moment.
  static std::int64_t size() { return autograd::kernels::simd_runs() ? 2048 : 256; }
  static double flop() { return 2.0 * double(size() * size() * size()); }

  PeakProducts(autograd::Precision matmul, int threads);
  PeakProducts(const PeakProducts&) = delete;  // calls know where it lies
  PeakProducts& operator=(const PeakProducts&) = delete;
  const std::vector<PeakProduct>& all() const { return products_; }
  /// An entry of the last product: all are the same.
  float entry() const { return c_.back(); }

 private:
  std::vector<float> a_, b_, c_;
  std::optional<Comparator> onednn_;
  std::vector<PeakProduct> products_;
};

}  // namespace heed
