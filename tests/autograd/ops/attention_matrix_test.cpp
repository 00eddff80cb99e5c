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

// Returns bool8 [..., Tk, 1], with the leading axes of `keys`: true for a key that no query may
// read. If heads share the key, this holds for the queries of all these heads. `reads` [..., Tq,
// Tk] is true where a query may read a key.
Tensor unread(const Tensor& reads, const Shape& keys) {
  Tensor read = mT(any(reads, {-2}, true));
  while (read.rank() > keys.rank()) read = any(read, {0});
  for (int i = 0; i < keys.rank() - 2; ++i)
    if (keys[i] == 1) read = any(read, {i}, true);
  return logical_not(read);
}

TEST_CASE("NaN in keys and values that no query may read changes no bit, in every call drawn") {
  std::mt19937 random(3);
  std::int64_t hidden = 0;
  for (int i = 0; i < kCalls; ++i) {
    Call c = draw_call(random);
    if (!c.options.keep.defined() && !c.options.causal) continue;
    CAPTURE(i, c.text);
    Tensor reads = c.kept(), gone[2];
    Call dirty = c;
    for (const std::size_t k : {1u, 2u}) {
      if (k == 2 && c.options.fully_masked == FullyMasked::kUniform)
        reads = logical_or(reads, c.fully_masked_rows());  // a fully masked row reads all values
      const Tensor clean = c.arranged(k);
      gone[k - 1] = unread(reads, clean.shape());
      hidden += std::int64_t(sum(to(gone[k - 1], float64)).item());
      dirty.inputs[k] = masked_fill(clean, gone[k - 1], k == 1 ? std::nan("") : kInf);
      c.inputs[k] = contiguous(clean);
      c.axes[k] = dirty.axes[k] = {};
    }
    // A product with such a key or value is 0 for observers if it is not finite.
    const Tensor unseen = logical_or(mT(gone[0]), mT(gone[1]));
    const auto seen = [&](const Tensor& x) { return where(unseen, zeros({1}, x.dtype()), x); };
    RecordedTensors clean_seen, dirty_seen;
    c.options.hooks = &clean_seen.hooks, dirty.options.hooks = &dirty_seen.hooks;
    for (const Implementation implementation : {Implementation::kFused, Implementation::kComposite})
      for (const DType dtype : {float32, float64}) {
        CAPTURE(int(implementation), dtype);
        const auto want = run(c, implementation, dtype), got = run(dirty, implementation, dtype);
        for (std::size_t k = 0; k < want.size(); ++k) CHECK(same_bits(want[k], got[k]));
        for (const std::size_t k : {1u, 2u})
          CHECK(is_zero(masked_fill(got[k + 1], logical_not(gone[k - 1]), 0)));
        for (std::size_t k = 0; k < std::size(RecordedTensors::kNames); ++k)
          CHECK(same_bits(seen(clean_seen.x[k]), seen(dirty_seen.x[k])));
      }
  }
  CHECK(hidden > 1000);
}

TEST_CASE("a fully masked row gives zeros or uniform weights, as the options state") {
  Generator g(1);
  const Tensor q = randn({2, 3, 4}, float64, g).requires_grad_(),
               k = randn({2, 5, 4}, float64, g).requires_grad_(),
               v = randn({2, 5, 4}, float64, g).requires_grad_();
  Tensor bits = full({2, 3, 5}, 1, bool8);
  bits = logical_and(bits, ne(unsqueeze(arange(3), 1), 1.0));  // masks row 1 of each sequence
  const KeepMask keep(bits);
  const auto output = [&](FullyMasked rule) {
    return attention(q, k, v, {.keep = keep, .fully_masked = rule});
  };
  CHECK(largest(select(output(FullyMasked::kZero), 1, 1)) == 0);
  const Tensor uniform = output(FullyMasked::kUniform);
  CHECK(allclose(select(uniform, 1, 1), mean(v, {1}), 1e-15, 1e-15));
  // Row 1 has equal weights that do not depend on the scores, so the gradients of q and k are 0.
  const auto d = grad(sum(select(uniform, 1, 1) * 2.0), {q, k, v});
  CHECK(largest(d[0]) == 0);
  CHECK(largest(d[1]) == 0);
  CHECK(values(d[2]) == values(full({2, 5, 4}, 0.4, float64)));
  CHECK(allclose(select(uniform, 1, 2), select(output(FullyMasked::kZero), 1, 2), 1e-14, 1e-14));
}

TEST_CASE("a row is fully masked if its largest score is -inf, whichever mask caused it") {
  // The mask hides key 1 from all queries. The bias hides key 0 from query 0.
  const Tensor q = ones({2, 3}, float64), k = ones({2, 3}, float64);
  const Tensor v = from_data(std::vector<double>{1, 5}, {2, 1}).requires_grad_();
  const KeepMask keep(from_data(std::vector<bool>{true, false}, {1, 2}));
  const Tensor bias = tensor({{-kInf, 0}, {0, 0}}, float64);
  const auto output = [&](FullyMasked rule) {
    return attention(q, k, v, {.keep = keep, .bias = ScoreBias(bias), .fully_masked = rule});
  };
  CHECK(values(output(FullyMasked::kZero)) == std::vector<double>{0, 1});
  const Tensor uniform = output(FullyMasked::kUniform);
  CHECK(values(uniform) == std::vector<double>{3, 1});
  CHECK(values(grad(sum(uniform), {v})[0]) == std::vector<double>{1.5, 0.5});
}

TEST_CASE("without keys every row is fully masked") {
  const Tensor q = ones({2, 3}, float64), k = ones({0, 3}, float64), v = ones({0, 4}, float64);
  for (const FullyMasked rule : {FullyMasked::kZero, FullyMasked::kUniform})
    CHECK(values(attention(q, k, v, {.fully_masked = rule})) == std::vector<double>(8, 0));
}

}  // namespace
