// The products that a step's MFU is a share of.
#include "tools/heed/bench/peak_products.h"

#include "autograd/kernels/simd/gemm_bf16.h"
#include "tests/support/catch.h"

using namespace heed;
using autograd::Precision;

namespace {

TEST_CASE("a step of rounded operands is measured by a product of such") {
  const PeakProducts exact(Precision::kFloat32, 1), rounded(Precision::kBfloat16, 1);
  REQUIRE(rounded.all().size() == exact.all().size() + 1);
  CHECK(exact.all()[0].name == "heed");
  CHECK(rounded.all().back().name ==
        std::string("heed, bfloat16 by ") + autograd::kernels::bf16_way());
  if (kSanitized) return;  // 17 GFLOP each
  for (const PeakProduct& p : exact.all()) {
    p.call();
    CHECK(exact.entry() ==
          Approx(double(PeakProducts::size()) * 0.5 * (1 + 1.0 / 512)).epsilon(1e-6));
  }
  rounded.all().back().call();
  CHECK(rounded.entry() == double(PeakProducts::size()) * 0.5);
}

}  // namespace
