// Compares three implementations of attention: the fused kernel, the composite of public ops, and
// one written in einsums. The calls are drawn at random from all options. Values, gradients and
// second derivatives are compared.
#include "tests/support/attention_calls.h"
#include "tests/support/simd_targets.h"

namespace {

constexpr int kCalls = kSanitized ? 40 : 300;

using namespace heed::autograd;
using namespace heed::autograd::testing;

double largest_among(const std::vector<Tensor>& results, std::size_t begin, std::size_t end) {
  double most = 0;
  for (std::size_t i = begin; i < end; ++i) most = std::max(most, largest(results[i]));
  return most;
}

// Compares got[k] with want[k] for begin <= k < end. These results have one order: they are values,
// gradients or second derivatives. Softmax does not depend on a bias that is equal for all keys of
// a row. The gradient of such a bias is 0 up to rounding of long sums, whose terms are as large as
// the other gradients; `floor` allows for this.
void check_float64(const Call& c, const std::vector<Tensor>& got, const std::vector<Tensor>& want,
                   std::size_t begin, std::size_t end) {
  for (std::size_t k = begin; k < end; ++k) {
    CAPTURE(k);
    const bool no_effect = k == begin + 3 && c.row_shares_bias();
    const double floor = no_effect ? 128 * 0x1p-53 * largest_among(want, begin, end) : 0;
    REQUIRE(got[k].shape() == want[k].shape());
    CHECK(distance(got[k], want[k]) <= 1e-12 * largest(want[k]) + floor);
  }
}

TEST_CASE("fused, composite and einsums agree in float64, at orders 1 and 2") {
  for_each_simd_target([] {
    std::mt19937 random(1);
    for (int i = 0; i < kCalls; ++i) {
      const Call c = draw_call(random);
      CAPTURE(i, c.text);
      const auto want = run(c, Implementation::kEinsum, float64, true);
      const std::size_t n = c.inputs.size();
      for (const Implementation implementation :
           {Implementation::kFused, Implementation::kComposite}) {
        CAPTURE(int(implementation));
        const auto got = run(c, implementation, float64, true);
        REQUIRE(got.size() == want.size());
        check_float64(c, got, want, 0, 1);
        check_float64(c, got, want, 1, n + 1);
        check_float64(c, got, want, n + 1, want.size());
      }
      // Without create_graph, the backward pass runs the kernel.
      check_float64(c, run(c, Implementation::kFused, float64), want, 1, n + 1);
    }
  });
}

TEST_CASE("attention without heads, queries, keys or channels") {
  Generator g(4);
  const Shape lead = {2, 3};
  for (const bool causal : {false, true})
    for (const Call& c : {plain_call({0, 3}, 4, 5, 6, 7, {.causal = causal}, {4, 5}, g),
                          plain_call({0}, 4, 5, 6, 7, {.causal = causal}, {}, g),
                          plain_call(lead, 0, 5, 6, 7, {.causal = causal}, {5}, g),
                          plain_call(lead, 4, 0, 6, 7, {.causal = causal}, {4, 1}, g),
                          plain_call(lead, 4, 5, 0, 7, {.scale = 1, .causal = causal}, {4, 5}, g),
                          plain_call(lead, 4, 5, 6, 0, {.causal = causal}, {3, 1, 5}, g)}) {
      CAPTURE(c.scores, c.inputs[0].shape(), c.inputs[2].shape());
      const auto want = run(c, Implementation::kEinsum, float64);
      for (const Implementation implementation :
           {Implementation::kFused, Implementation::kComposite}) {
        const auto got = run(c, implementation, float64);
        check_float64(c, got, want, 0, 1);
        check_float64(c, got, want, 1, want.size());
      }
    }
}

}  // namespace
