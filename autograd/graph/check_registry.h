// The registry of gradient checks: every op, composite and layer with the samples that it is
// checked on. Tests and `heed gradcheck` enumerate registered_checks(), so no check can be
// forgotten.
#pragma once

#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/tensor/create.h"

namespace heed::autograd {

/// Input tensors of a function.
using Args = std::span<const Tensor>;
/// Function from tensors to one tensor, to be differentiated with respect to all its inputs. The
/// inputs of samples and gradient checks are float64.
using DifferentiableFunction = std::function<Tensor(Args)>;

/// Reason why a sample is not checked in a layout. Its kinds are the only valid reasons.
class SkipReason {
 public:
  /// The reasons.
  enum Kind {
    kNone,                ///< not skipped: the sample is checked
    kNothingToTranspose,  ///< no input with elements has rank 2 or more
    kNothingToSlice,      ///< no input with elements has an axis
    kNothingToExpand,     ///< no input has a last axis of size 2 or more, to be given stride 0
    kNothingToAlias,      ///< no other input has the shape of the last one, so none can be the same
    kEqualElements,       ///< stride 0 makes elements of one input equal, which is a kink of the op
    kEqualOperands,       ///< stride 0 or aliasing makes operands equal, which is a kink of the op
  };
  /// Makes a reason of this kind.
  constexpr SkipReason(Kind kind = kNone) : kind_(kind) {}  // NOLINT: a kind is a reason
  /// Returns true for kNone.
  constexpr bool empty() const { return kind_ == kNone; }
  /// Returns a text such as "equal elements are a kink"; "" for kNone.
  std::string_view text() const;
  /// Returns text(), for reports.
  operator std::string() const { return std::string(text()); }  // NOLINT: for reports
  /// Returns true if both kinds are equal.
  friend constexpr bool operator==(SkipReason, SkipReason) = default;

 private:
  Kind kind_;
};
/// Prints reason.text().
std::ostream& operator<<(std::ostream& out, SkipReason reason);

/// One call of an op: a function and the inputs at which it is checked. The inputs are not at
/// kinks.
struct Sample {
  std::string name;            ///< short description, unique in its list, for reports
  DifferentiableFunction f;    ///< calls the op, with constants such as masks captured
  std::vector<Tensor> inputs;  ///< inputs of f, float64
  /// Reason to skip the layouts that repeat elements (stride 0, aliased inputs); kNone: checked.
  SkipReason no_repeats = {};
};
/// The samples of one check.
using Samples = std::vector<Sample>;

/// Sizes at which samples are drawn in addition to their own (tests/support/sizes.h).
enum class SampleSize {
  kZero,    ///< an axis of size 0
  kOne,     ///< an axis of size 1
  kScalar,  ///< rank 0
  kLarge,   ///< an axis longer than any block or vector of a kernel
};
/// Every SampleSize.
inline constexpr SampleSize kAllSizes[] = {SampleSize::kZero, SampleSize::kOne, SampleSize::kScalar,
                                           SampleSize::kLarge};
/// A size that an op does not accept, with the reason.
struct NoSize {
  SampleSize size;       ///< the size
  std::string_view why;  ///< for example "a maximum of nothing"
};
/// Returns the NoSize of an op that works along an axis: it does not accept rank 0.
std::vector<NoSize> needs_axis();
/// Maps each shape that a sample function requests to the shape that it gets. Empty: no change.
using Resize = std::function<Shape(const Shape&)>;

/// Source of reproducible inputs for samples. Each shape that is requested passes through Resize.
class SampleGen {
 public:
  /// Starts the random stream at `seed`.
  explicit SampleGen(std::uint64_t seed, Resize resize = {})
      : generator_(seed), resize_(std::move(resize)) {}
  /// Returns float64 values of the standard normal distribution.
  Tensor normal(const Shape& shape);
  /// Returns float64 values, uniform in [low, high).
  Tensor uniform(const Shape& shape, double low, double high);
  /// Returns distinct float64 values in random order, at least 0.1 apart and at least 0.05 from 0,
  /// for ops with kinks.
  Tensor apart(const Shape& shape);
  /// Returns int64 values, uniform in [low, high).
  Tensor integers(std::int64_t low, std::int64_t high, const Shape& shape);
  /// Returns bool8 values, each true with probability p_true.
  Tensor mask(const Shape& shape, double p_true = 0.6);

 private:
  Shape resized(const Shape& shape) const { return resize_ ? resize_(shape) : shape; }
  Generator generator_;
  Resize resize_;
};

/// Function that makes samples. It has no default constructor, so an Op or a Check cannot omit it.
class SampleFn {
 public:
  SampleFn() = delete;
  /// Wraps a function or lambda Samples(SampleGen&).
  template <class F>
  requires std::is_invocable_r_v<Samples, F, SampleGen&> SampleFn(F f)
      : f_(f) {}  // NOLINT: a lambda or function is a SampleFn
  /// Returns the samples. Each call returns the same ones, apart from `resize`.
  Samples operator()(const Resize& resize = {}) const;

 private:
  std::function<Samples(SampleGen&)> f_;
};

/// An entry of the registry during its lifetime. An op is registered by its Op, a layer or
/// composite by a Check at namespace scope.
class Check {
 public:
  /// Adds this check to the registry. `name` must outlive it.
  Check(std::string_view name, SampleFn samples, std::vector<NoSize> no_sizes = {});
  ~Check();
  Check(const Check&) = delete;  // the registry stores its address
  Check& operator=(const Check&) = delete;
  /// Returns the name of the op or composite; layers are named "nn.X".
  std::string_view name() const { return name_; }
  /// Returns the samples, with each shape mapped by `resize`.
  Samples samples(const Resize& resize = {}) const { return samples_(resize); }
  /// Returns the sizes that the op does not accept.
  const std::vector<NoSize>& no_sizes() const { return no_sizes_; }

 private:
  std::string_view name_;
  SampleFn samples_;
  std::vector<NoSize> no_sizes_;
};

/// Returns all checks, sorted by name.
std::vector<const Check*> registered_checks();

}  // namespace heed::autograd
