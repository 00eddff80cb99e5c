#include "autograd/graph/check_registry.h"

#include <algorithm>

namespace heed::autograd {
namespace {

std::vector<const Check*>& registry() {
  static std::vector<const Check*> list;
  return list;
}

}  // namespace

std::string_view skip_text(SkipReason reason) {
  constexpr std::string_view kTexts[] = {
      "",
      "no input with elements has rank 2 or more to transpose",
      "no input with elements has an axis to slice",
      "no input has a last axis of size 2 or more to give stride 0",
      "no other input has the shape of the last one, so none can be the same tensor",
      "equal elements are a kink",
      "equal operands are a kink"};
  return kTexts[std::size_t(reason)];
}

Tensor SampleGen::normal(const Shape& shape) { return randn(resized(shape), float64, generator_); }

Tensor SampleGen::uniform(const Shape& shape, double low, double high) {
  Tensor x = empty(resized(shape), float64);
  generator_.uniform(std::span(x.mutable_data<double>(), std::size_t(x.numel())), low, high);
  return x;
}

Tensor SampleGen::apart(const Shape& shape) {
  Tensor x = empty(resized(shape), float64);
  const Index n = x.numel();
  const std::vector<std::int64_t> order = randperm(n, generator_).to_vector<std::int64_t>();
  for (Index i = 0; i < n; ++i)
    x.mutable_data<double>()[i] = 0.1 * double(order[std::size_t(i)] - n / 2) + 0.05;
  return x;
}

Tensor SampleGen::integers(Index low, Index high, const Shape& shape) {
  return randint(low, high, resized(shape), generator_);
}

Tensor SampleGen::mask(const Shape& shape, double p_true) {
  return bernoulli(p_true, resized(shape), generator_);
}

std::vector<NoSize> needs_axis() { return {{SampleSize::kScalar, "needs an axis"}}; }

Samples SampleFn::operator()(const Resize& resize) const {
  SampleGen generator(2024, resize);
  return f_(generator);
}

Check::Check(std::string_view name, SampleFn samples, std::vector<NoSize> no_sizes)
    : name_(name), samples_(std::move(samples)), no_sizes_(std::move(no_sizes)) {
  registry().push_back(this);
}
Check::~Check() { std::erase(registry(), this); }

std::vector<const Check*> registered_checks() {
  std::vector<const Check*> list = registry();
  std::sort(list.begin(), list.end(),
            [](const Check* a, const Check* b) { return a->name() < b->name(); });
  return list;
}

}  // namespace heed::autograd
