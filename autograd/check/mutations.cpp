#include "autograd/check/mutations.h"

#include "autograd/ops/ops.h"

namespace heed::autograd {
namespace {

// Returns g, set to 0 where `mask` is false.
Tensor kept(const Tensor& g, const Tensor& mask) { return masked_fill(g, logical_not(mask), 0); }

Tensor without_first(const Tensor& g, const Shape&) {
  Tensor keep = full(g.shape(), 1, bool8);
  if (g.numel() > 0) *keep.mutable_data<bool>() = false;
  return kept(g, keep);
}

// Returns g shifted by one position along an axis; the first slice becomes the last slice.
Tensor rolled(const Tensor& g, int axis) {
  if (g.rank() == 0 || g.size(axis) < 2) return g;
  return cat({slice(g, axis, 1, g.size(axis)), slice(g, axis, 0, 1)}, axis);
}

Tensor without_last_row(const Tensor& g, const Shape&) {
  if (g.rank() == 0 || g.size(0) == 0) return g;
  const std::int64_t last = g.size(0) - 1;
  return cat({slice(g, 0, 0, last), 0.0 * slice(g, 0, last, last + 1)}, 0);
}

Tensor transposed(const Tensor& g, const Shape&) {
  return g.rank() < 2 ? g : reshape(transpose(g, -1, -2), g.shape());
}

Tensor without_mean(const Tensor& g, const Shape&) {
  return g.numel() == 0 ? g : g - (g.rank() == 0 ? g : mean(g, -1, true));
}

Tensor zeros_filled(const Tensor& g, const Shape&) {
  return g.numel() == 0 ? g : where(eq(g, 0.0), mean(abs(g)), g);
}

Tensor doubled(const Tensor& g, const Shape&) { return g * 2.0; }

constexpr Mutation kMutations[] = {
    {"opposite sign", [](const Tensor& g, const Shape&) { return -g; }, true},
    {"doubled", doubled, true},
    {"zero", [](const Tensor& g, const Shape&) { return g * 0.0; }, true},
    {"a millionth too large", [](const Tensor& g, const Shape&) { return g * (1 + 1e-6); }},
    {"sign lost", [](const Tensor& g, const Shape&) { return abs(g); }},
    {"first entry dropped", without_first},
    {"last row dropped", without_last_row},
    {"one column off", [](const Tensor& g, const Shape&) { return rolled(g, -1); }, true},
    {"one row off", [](const Tensor& g, const Shape&) { return rolled(g, 0); }},
    {"transposed", transposed},
    {"reversed", [](const Tensor& g, const Shape&) { return g.rank() == 0 ? g : flip(g, -1); },
     true},
    {"mean term dropped", without_mean},
    {"mask forgotten", zeros_filled},
    {"missing un-broadcast", [](const Tensor& g, const Shape& x) { return unsummed(g, x, false); }},
    {"assigned, not accumulated",
     [](const Tensor& g, const Shape& x) { return unsummed(g, x, true); }},
    // The value of the result equals g; only its gradient is wrong.
    {"wrong at order 2 only",
     [](const Tensor& g, const Shape&) { return g + 0.5 * (g - g.detach()); }, false, 2},
    {"wrong if transposed only", doubled, false, 1, CheckLayout::kTransposed},
    {"wrong in float32 only", [](const Tensor& g, const Shape&) { return g * (1 + 0x1p-10); },
     false, 1, CheckLayout::kContiguous, Spoils::kFloat32Gradients},
    // For this mutation, MutantResult::input is the index of an input of the sample, not of the op.
    {"stale saved value", nullptr, false, 1, CheckLayout::kContiguous, Spoils::kSavedInputs}};

}  // namespace

Tensor unsummed(const Tensor& g, const Shape& input, bool last) {
  Tensor result = g;
  const int lead = g.rank() - input.rank();
  for (int a = 0; a < g.rank(); ++a) {
    const std::int64_t n = g.size(a);
    if (n < 2 || (a >= lead && input[a - lead] == n)) continue;
    Shape along = Dims::filled(g.rank(), 1);
    along[a] = n;
    const Tensor place = reshape(arange(n), along);
    result = kept(result, expand(eq(place, double(last ? n - 1 : 0)), g.shape()));
  }
  return result;
}

std::span<const Mutation> mutations() { return kMutations; }

}  // namespace heed::autograd
