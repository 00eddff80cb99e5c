// Tests of the matrix products that `heed bench` times to measure the peak speed, from which it
// computes the MFU (model FLOPs utilization).
#include "tools/heed/bench/products.h"

#include "autograd/kernels/simd/gemm_bf16.h"
#include "tests/support/catch.h"

using namespace heed;
using autograd::Precision;

namespace {

TEST_CASE("for bfloat16 operands the peak includes heed's bfloat16 product") {
  const auto exact = load_peak_libraries(Precision::kFloat32),
             rounded = load_peak_libraries(Precision::kBfloat16);
  REQUIRE(rounded.size() == exact.size() + 1);
  CHECK(exact[0].name == "heed");
  CHECK(rounded.back().name == std::string("heed, bfloat16 by ") + autograd::kernels::bf16_way());
  // 1 + 1/512 is not a bfloat16 number; the nearest bfloat16 number is 1.
  const ProductShape shape{64, 64, 64};
  const std::vector<float> a(64 * 64, 1 + 1.0f / 512), b(64 * 64, 0.5f);
  std::vector<float> c(64 * 64);
  for (const ProductLibrary& library : exact) {
    c.back() = 0;
    library.multiply(shape, a.data(), b.data(), c.data());
    CHECK(c.back() == Approx(32 * (1 + 1.0 / 512)).epsilon(1e-6));
  }
  rounded.back().multiply(shape, a.data(), b.data(), c.data());
  CHECK(c.back() == 32);
}

}  // namespace
