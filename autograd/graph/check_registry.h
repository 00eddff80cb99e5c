// The registry of gradient checks. It has an entry for every op, layer and composite (a function
// made of ops), with the samples on which it is checked. Tests and `heed gradcheck` take their
// checks from registered_checks(), so no check can be forgotten.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/tensor/create.h"

namespace heed::autograd {

/// Input tensors of a function.
using Args = std::span<const Tensor>;
/// Function of tensors that returns one tensor. It is differentiated with respect to all its
/// inputs. The inputs of samples and gradient checks are float64.
using DifferentiableFunction = std::function<Tensor(Args)>;

/// Reason why a sample is not checked in a memory layout.
enum class SkipReason {
  kNone,                ///< not skipped: the sample is checked
  kNothingToTranspose,  ///< no nonempty input has rank 2 or more
  kNothingToSlice,      ///< no nonempty input has an axis
  kNothingToExpand,     ///< no nonempty input has a last axis of size 2 or more
  kNothingToAlias,      ///< no other input has the last input's shape, so no two can alias
  kEqualElements,       ///< stride 0 makes elements of an input equal, and the op has a kink there
  kEqualOperands,       ///< a layout makes operands equal, and the op has a kink there
};
/// Returns a text such as "equal elements are a kink"; "" for kNone.
std::string_view skip_text(SkipReason reason);

/// One call of an op: a function, and the inputs at which its gradient is checked. The function
/// must not have a kink at these inputs.
struct Sample {
  std::string name;            ///< description for reports, unique among the samples of a check
  DifferentiableFunction f;    ///< calls the op; constants such as masks are captured
  std::vector<Tensor> inputs;  ///< inputs of f, float64
  /// Reason to skip the layouts in which several entries share memory (stride 0, aliased inputs).
  /// If it is kNone, these layouts are checked.
  SkipReason no_repeats = SkipReason::kNone;
};
/// The samples of one check.
using Samples = std::vector<Sample>;

/// Sizes at which every op is checked in addition to the sizes of its own samples, unless a NoSize
/// excludes the size (tests/autograd/graph/registry_test.cpp).
enum class SampleSize {
  kZero,    ///< an axis of size 0
  kOne,     ///< an axis of size 1
  kScalar,  ///< rank 0
  kLarge,   ///< an axis of size 67: longer than any vector, and not a multiple of its length
};
/// Every SampleSize.
inline constexpr SampleSize kAllSizes[] = {SampleSize::kZero, SampleSize::kOne, SampleSize::kScalar,
                                           SampleSize::kLarge};
/// A size that an op does not accept, with the reason.
struct NoSize {
  SampleSize size;       ///< the size
  std::string_view why;  ///< the reason, for example "a maximum of nothing"
};
/// Returns the value of `no_sizes` for an op that works along an axis. Such an op does not accept
/// rank 0.
std::vector<NoSize> needs_axis();
/// Function that maps each shape that a SampleFn requests to the shape that is drawn. If it is
/// empty, the requested shapes are drawn.
using Resize = std::function<Shape(const Shape&)>;

/// Draws reproducible random inputs for samples. A Resize maps each requested shape.
class SampleGen {
 public:
  /// Seeds the random numbers with `seed`.
  explicit SampleGen(std::uint64_t seed, Resize resize = {})
      : generator_(seed), resize_(std::move(resize)) {}
  /// Returns float64 values drawn from the standard normal distribution.
  Tensor normal(const Shape& shape);
  /// Returns float64 values, uniform in [low, high).
  Tensor uniform(const Shape& shape, double low, double high);
  /// Returns distinct float64 values in random order, at least 0.1 apart and at least 0.05 from 0,
  /// for ops with kinks.
  Tensor apart(const Shape& shape);
  /// Returns int64 values, uniform in [low, high).
  Tensor integers(Index low, Index high, const Shape& shape);
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
  /// Wraps a function or lambda with the signature Samples(SampleGen&).
  template <class F>
  requires std::is_invocable_r_v<Samples, F, SampleGen&> SampleFn(F f)
      : f_(f) {}  // NOLINT: implicit on purpose
  /// Returns the samples. Two calls with the same `resize` return the same samples.
  Samples operator()(const Resize& resize = {}) const;

 private:
  std::function<Samples(SampleGen&)> f_;
};

/// Entry of the registry; it is registered from its construction to its destruction. An Op contains
/// its Check. For a layer or composite, define a Check at namespace scope.
class Check {
 public:
  /// Adds this check to the registry. `name` must outlive this object.
  Check(std::string_view name, SampleFn samples, std::vector<NoSize> no_sizes = {});
  ~Check();
  Check(const Check&) = delete;  // the registry stores the address of this object
  Check& operator=(const Check&) = delete;
  /// Returns the name of the op or composite. The name of a layer X starts with "nn.X".
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
