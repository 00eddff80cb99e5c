// What gradient checks run on: samples of each op and layer, in one list. Tests and
// `heed gradcheck` enumerate registered_checks(); nothing is checked by being remembered.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/tensor/create.h"

namespace heed::autograd {

using Args = std::span<const Tensor>;
/// A function of float64 tensors to one tensor, to be differentiated in all of them.
using DifferentiableFunction = std::function<Tensor(Args)>;

/// One call of an op: a function and the inputs to check it at, away from kinks.
struct Sample {
  std::string name;
  DifferentiableFunction f;
  std::vector<Tensor> inputs;  ///< float64
  /// Why the layouts that repeat elements (stride 0, aliased inputs) are not checked, as "equal
  /// elements are a kink of max"; empty: they are.
  std::string no_repeats = {};
};
using Samples = std::vector<Sample>;

/// Reproducible float64 inputs for samples.
class SampleGen {
 public:
  explicit SampleGen(std::uint64_t seed) : generator_(seed) {}
  Tensor normal(const Shape& shape);
  Tensor uniform(const Shape& shape, double low, double high);
  /// Distinct values in random order, at least 0.1 apart and 0.05 from 0: for ops with kinks.
  Tensor apart(const Shape& shape);
  Tensor integers(std::int64_t low, std::int64_t high, const Shape& shape);
  Tensor mask(const Shape& shape, double p_true = 0.6);

 private:
  Generator generator_;
};

/// A function that makes samples. Not default-constructible: an Op or Check cannot leave it out.
class SampleFn {
 public:
  SampleFn() = delete;
  template <class F>
  requires std::is_invocable_r_v<Samples, F, SampleGen&> SampleFn(F f)
      : f_(f) {}  // NOLINT: a lambda or function is a SampleFn
  Samples operator()() const;

 private:
  std::function<Samples(SampleGen&)> f_;
};

/// An entry of the list: an op by its Op, a layer or composite by a namespace-scope Check.
class Check {
 public:
  Check(std::string_view name, SampleFn samples);
  std::string_view name() const { return name_; }
  Samples samples() const { return samples_(); }

 private:
  std::string_view name_;
  SampleFn samples_;
};

/// All checks, sorted by name.
std::vector<const Check*> registered_checks();

}  // namespace heed::autograd
