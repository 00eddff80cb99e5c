// Mutants: versions of each op with a wrong derivative.
// A gradient check must reject ("kill") each of them.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "autograd/graph/observer.h"

namespace heed::autograd {

/// Replaces gradients during the lifetime of the object, on the current thread. Each gradient that
/// the vjp of an op returns is replaced by f(op, index of the input, gradient, shape of the input)
/// before it is summed over broadcast axes.
class MutateGradients : public OpObserver {
 public:
  using Function = std::function<Tensor(const Op&, std::size_t, const Tensor&, const Shape&)>;
  explicit MutateGradients(Function f) : f_(std::move(f)) {}

 private:
  void saw_gradients(Node& node, const Vjp& v, Grads& grads) override;
  Function f_;
};

/// Outcome of a mutant.
enum class MutantFate {
  kKilled,      ///< every oracle that can detect the mutant rejects it
  kEquivalent,  ///< the mutant changes gradients only by rounding, so no check can detect it
  kSurvived,    ///< an oracle that can detect the mutant accepts it: a defect of the checker
};

/// Result for one mutant: the gradient of one input of one op, made wrong by one mutation.
struct MutantResult {
  std::string_view op;  ///< name of the op
  /// Index of the op's input. For the mutation "stale saved value", it is the index of an input of
  /// the sample.
  std::size_t input;
  std::string_view mutation;  ///< name of the mutation, such as "doubled"
  MutantFate fate;
  std::string_view survived;  ///< name of an oracle that accepts the mutant; empty unless kSurvived
  std::int64_t compared = 0;  ///< number of gradients that were mutated
  /// Largest absolute change of a gradient entry, divided by the largest absolute entry. A change
  /// of at most 2^-43 is rounding, and the mutant is then equivalent.
  double largest_change = 0;
};

/// Runs every mutant of an op: each mutation of the gradient of each input. Each mutation is
/// checked where it has an effect: at its order, in its memory layout, and in float32 if it affects
/// only float32. Returns an empty list for the check of a layer or composite.
std::vector<MutantResult> run_mutants(const Check& check);

}  // namespace heed::autograd
