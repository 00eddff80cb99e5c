// Tests that values and gradients of every registered op, composite and layer have the same bits at
// any number of threads, in float32 and float64. The test also runs the samples of ops that are
// added later.

#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/checks.h"
#include "tests/support/layouts.h"
#include "tests/support/threads.h"

namespace {

using namespace heed::autograd;
using namespace heed::autograd::testing;

// Every sample that is run has from kEnough to kMost elements. Every kernel that works on elements
// or rows divides this number of elements into several chunks.
constexpr Index kEnough = 1 << 15, kMost = 1 << 19;

// Returns the result and the gradients of all inputs, computed in `dtype`.
std::vector<Tensor> run(const Sample& s, DType dtype) {
  std::vector<Tensor> leaves;
  for (const Tensor& x : s.inputs) leaves.push_back(to(x, dtype).detach().requires_grad_());
  const Tensor y = s.f(leaves);
  std::vector<Tensor> all = {y};
  if (!y.requires_grad()) return all;
  Generator g(3);
  const Tensor v = randn(y.shape(), y.dtype(), g);
  for (const Tensor& d : grad(y, leaves, {.grad_output = v, .allow_unused = true}))
    if (d.defined()) all.push_back(d);
  return all;
}

// Returns true if the sample accepts its enlarged inputs. Constants of some samples (masks,
// indices) fit only the original shapes.
bool runs(const Sample& s, DType dtype) {
  try {
    run(s, dtype);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Returns the samples of the check with every axis of size 2 or more made `factor` times as long.
// Returns no samples if one of them does not accept such shapes.
Samples enlarged(const Check& check, Index factor) {
  try {
    return check.samples([factor](Shape shape) {
      double size = 1;
      for (int i = 0; i < shape.rank(); ++i) {
        size *= double(shape[i] > 1 ? shape[i] * factor : shape[i]);
        heed::check<ValueError>(size <= double(kMost), "enlarged", "too large");
        if (shape[i] > 1) shape[i] *= factor;
      }
      return shape;
    });
  } catch (const Error&) {
    return {};
  }
}

// Returns each sample of the check at the smallest size that has at least kEnough elements.
Samples large_samples(const Check& check) {
  std::map<std::string, Sample> found;
  for (const Index factor : {1, 2, 3, 5, 8, 12, 20, 32, 50, 80, 200, 1000, 10000, 50000})
    for (Sample& s : enlarged(check, factor))
      if (const Index n = input_elements(s); n >= kEnough && n <= kMost && !found.contains(s.name))
        if (runs(s, float64)) found.emplace(s.name, std::move(s));
  Samples samples;
  for (auto& [name, s] : found) samples.push_back(std::move(s));
  return samples;
}

// Returns true for checks whose samples accept only their own shapes. These checks need no test
// here, because layers consist of other ops, expand and squeeze are views, and sum_to calls sum.
bool has_fixed_shapes(std::string_view check) {
  const std::set<std::string_view> fixed = {"expand", "squeeze", "sum_to"};
  return check.starts_with("nn.") || fixed.contains(check);
}

TEST_CASE("every check has the same bits at 1, 2, 3 and 8 threads") {
  const Threads restored_at_the_end;
  for (const Check* check : library_checks()) {
    const Samples samples = large_samples(*check);
    CAPTURE(check->name());
    CHECK(samples.empty() == has_fixed_shapes(check->name()));
    for (const Sample& s : samples)
      for (const DType dtype : kSanitized ? std::vector{float32} : std::vector{float32, float64}) {
        set_num_threads(1);
        const std::vector<Tensor> one = run(s, dtype);
        for (const int threads : kSanitized ? std::vector{3} : std::vector{2, 3, 8}) {
          set_num_threads(threads);
          const std::vector<Tensor> many = run(s, dtype);
          CAPTURE(s.name, dtype, threads);
          REQUIRE(many.size() == one.size());
          for (std::size_t i = 0; i < one.size(); ++i) {
            CAPTURE(i);
            CHECK(same_bits(many[i], one[i]));
          }
        }
      }
  }
}

}  // namespace
