#include "autograd/graph/check_registry.h"

#include <algorithm>
#include <cmath>

namespace heed::autograd {
namespace {

std::vector<const Check*>& registry() {
  static std::vector<const Check*> list;
  return list;
}

}  // namespace

Tensor SampleGen::normal(const Shape& shape) { return randn(shape, float64, generator_); }

Tensor SampleGen::uniform(const Shape& shape, double low, double high) {
  Tensor x = empty(shape, float64);
  generator_.uniform(std::span(x.mutable_data<double>(), std::size_t(x.numel())), low, high);
  return x;
}

Tensor SampleGen::apart(const Shape& shape) {
  Tensor x = empty(shape, float64);
  const std::int64_t n = x.numel();
  const std::vector<std::int64_t> order = randperm(n, generator_).to_vector<std::int64_t>();
  for (std::int64_t i = 0; i < n; ++i)
    x.mutable_data<double>()[i] = 0.1 * double(order[std::size_t(i)] - n / 2) + 0.05;
  return x;
}

Tensor SampleGen::integers(std::int64_t low, std::int64_t high, const Shape& shape) {
  return randint(low, high, shape, generator_);
}

Tensor SampleGen::mask(const Shape& shape, double p_true) {
  return bernoulli(p_true, shape, generator_);
}

Samples SampleFn::operator()() const {
  SampleGen generator(2024);
  return f_(generator);
}

Check::Check(std::string_view name, SampleFn samples) : name_(name), samples_(std::move(samples)) {
  registry().push_back(this);
}

std::vector<const Check*> registered_checks() {
  std::vector<const Check*> list = registry();
  std::sort(list.begin(), list.end(),
            [](const Check* a, const Check* b) { return a->name() < b->name(); });
  return list;
}

}  // namespace heed::autograd
