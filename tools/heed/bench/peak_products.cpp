#include "tools/heed/bench/peak_products.h"

#include "autograd/kernels/kernels.h"
#include "autograd/kernels/simd/gemm_bf16.h"

namespace heed {

namespace kernels = autograd::kernels;

// 1 + 1/512 is no bfloat16: its neighbor there is 1.
PeakProducts::PeakProducts(autograd::Precision matmul, int threads)
    : a_(std::size_t(size() * size()), 1 + 1.0f / 512),
      b_(a_.size(), 0.5f),
      c_(a_.size()),
      onednn_(load_onednn()) {
  const auto ours = [this](void (*gemm)(const kernels::Gemm<float>&)) {
    return [this, gemm] {
      const std::int64_t n = size();
      kernels::Gemm<float> g;
      g.m = g.n = g.k = n;
      g.a = a_.data(), g.a_row = n, g.a_col = 1;
      g.b = b_.data(), g.b_row = n, g.b_col = 1;
      g.c = c_.data(), g.c_row = n, g.c_col = 1;
      gemm(g);
    };
  };
  products_.push_back({"heed", ours(kernels::gemm<float>)});
  if (onednn_) {
    onednn_->set_threads(threads);
    products_.push_back({onednn_->name, [this] {
                           onednn_->sgemm(false, false, size(), size(), size(), a_.data(),
                                          b_.data(), c_.data());
                         }});
  }
  if (matmul == autograd::Precision::kBfloat16)
    products_.push_back(
        {std::string("heed, bfloat16 by ") + kernels::bf16_way(), ours(kernels::gemm_bf16)});
}

}  // namespace heed
