// Mutants: versions of each op with a wrong derivative.
// A gradient check must reject ("kill") each of them.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "autograd/graph/observer.h"

namespace heed::autograd {

/// Replaces gradients during the lifetime of the object, on the current thread. Each gradient that
/// the vjp of an op returns is replaced by f(op, input, gradient, shape of the input),
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
  kKilled,      ///< each oracle alone, of those that can detect it, rejects it
  kEquivalent,  ///< it changes no gradient of any sample, so no check can detect it
  kSurvived,    ///< an oracle that can detect it accepts it: a defect of the checker
};

/// Result for one mutant: the gradient of one input of one op, made wrong by one mutation.
struct MutantResult {
  std::string_view op;  ///< name of the op
  /// Index of the op's input. For the mutation "stale saved value": index of the sample's input.
  std::size_t input;
  std::string_view mutation;  ///< name of the mutation, such as "doubled"
  MutantFate fate;
  std::string_view survived;  ///< the oracle that accepts it; empty if none does
  std::int64_t compared = 0;  ///< number of gradients that were mutated
  /// Largest change of any entry, divided by the largest entry. A mutant is equivalent if this is
  /// at most 2^-43, which is rounding.
  double largest_change = 0;
};

/// Runs every mutant of an op: each mutation of each input. Each mutation is checked where it has
/// an effect: at its order, in its memory layout, and in float32 if it affects float32 only. The
/// check of a layer has no mutants.
std::vector<MutantResult> run_mutants(const Check& check);

}  // namespace heed::autograd
