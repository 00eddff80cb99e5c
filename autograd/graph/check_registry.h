// Samples of each op and layer for gradient checks, in one list. Tests and
// `heed gradcheck` enumerate registered_checks(); nothing is checked by being remembered.
#pragma once

#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/tensor/create.h"

namespace heed::autograd {

using Args = std::span<const Tensor>;
/// A function of float64 tensors to one tensor, to be differentiated in all of them.
using DifferentiableFunction = std::function<Tensor(Args)>;

/// Reason for not checking a sample in a layout. There are no other reasons.
class SkipReason {
 public:
  enum Kind {
    kNone,  ///< it is checked
    kNothingToTranspose,
    kNothingToSlice,
    kNothingToExpand,
    kNothingToAlias,
    kEqualElements,  ///< of one input, which stride 0 makes
    kEqualOperands,  ///< which stride 0 and one tensor given twice make
  };
  constexpr SkipReason(Kind kind = kNone) : kind_(kind) {}  // NOLINT: a kind is a reason
  constexpr bool empty() const { return kind_ == kNone; }
  /// Returns a text such as "equal elements are a kink"; "" for kNone.
  std::string_view text() const;
  operator std::string() const { return std::string(text()); }  // NOLINT: for reports
  friend constexpr bool operator==(SkipReason, SkipReason) = default;

 private:
  Kind kind_;
};
std::ostream& operator<<(std::ostream& out, SkipReason reason);

/// One call of an op: a function and the inputs to check it at, away from kinks.
struct Sample {
  std::string name;
  DifferentiableFunction f;
  std::vector<Tensor> inputs;  ///< float64
  /// Why the layouts that repeat elements (stride 0, aliased inputs) are not checked, if not.
  SkipReason no_repeats = {};
};
using Samples = std::vector<Sample>;

/// Sizes that samples are drawn in besides their own (tests/support/sizes.h).
enum class SampleSize {
  kZero,    ///< an axis of 0
  kOne,     ///< an axis of 1
  kScalar,  ///< rank 0
  kLarge,   ///< an axis longer than any block or vector of a kernel
};
inline constexpr SampleSize kAllSizes[] = {SampleSize::kZero, SampleSize::kOne, SampleSize::kScalar,
                                           SampleSize::kLarge};
/// A size that an op does not take, and why not.
struct NoSize {
  SampleSize size;
  std::string_view why;  ///< as "a maximum of nothing"
};
/// The NoSize of an op along an axis.
std::vector<NoSize> needs_axis();
/// Returns a shape in place of each that a sample function requests. Empty: no change.
using Resize = std::function<Shape(const Shape&)>;

/// Reproducible float64 inputs for samples.
class SampleGen {
 public:
  explicit SampleGen(std::uint64_t seed, Resize resize = {})
      : generator_(seed), resize_(std::move(resize)) {}
  Tensor normal(const Shape& shape);
  Tensor uniform(const Shape& shape, double low, double high);
  /// Distinct values in random order, at least 0.1 apart and 0.05 from 0: for ops with kinks.
  Tensor apart(const Shape& shape);
  Tensor integers(std::int64_t low, std::int64_t high, const Shape& shape);
  Tensor mask(const Shape& shape, double p_true = 0.6);

 private:
  Shape resized(const Shape& shape) const { return resize_ ? resize_(shape) : shape; }
  Generator generator_;
  Resize resize_;
};

/// A function that makes samples. Not default-constructible: an Op or Check cannot leave it out.
class SampleFn {
 public:
  SampleFn() = delete;
  template <class F>
  requires std::is_invocable_r_v<Samples, F, SampleGen&> SampleFn(F f)
      : f_(f) {}  // NOLINT: a lambda or function is a SampleFn
  Samples operator()(const Resize& resize = {}) const;

 private:
  std::function<Samples(SampleGen&)> f_;
};

/// An entry of the list while it lives: an op by its Op, a layer or composite by a Check of its
/// own.
class Check {
 public:
  Check(std::string_view name, SampleFn samples, std::vector<NoSize> no_sizes = {});
  ~Check();
  Check(const Check&) = delete;  // the list knows it by its address
  Check& operator=(const Check&) = delete;
  std::string_view name() const { return name_; }
  Samples samples(const Resize& resize = {}) const { return samples_(resize); }
  const std::vector<NoSize>& no_sizes() const { return no_sizes_; }

 private:
  std::string_view name_;
  SampleFn samples_;
  std::vector<NoSize> no_sizes_;
};

/// All checks, sorted by name.
std::vector<const Check*> registered_checks();

}  // namespace heed::autograd
