// Mutants: wrong twins of every op's derivative, each of which a gradient check has to kill.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "autograd/graph/observer.h"

namespace heed::autograd {

/// While it lives, what ops' vjps return on this thread goes through f(op, input, gradient, shape
/// of the input), before it is summed over broadcast axes.
class MutateGradients : public OpObserver {
 public:
  using Mutation = std::function<Tensor(const Op&, std::size_t, const Tensor&, const Shape&)>;
  explicit MutateGradients(Mutation f) : f_(std::move(f)) {}

 private:
  void saw_gradients(Node& node, const Vjp& v, Grads& grads) override;
  Mutation f_;
};

enum class MutantFate {
  kKilled,      ///< by each oracle that can see it, alone
  kEquivalent,  ///< it changes no gradient of any sample: there is nothing to see
  kSurvived,
};

/// One input's gradient of one op made wrong in one way.
struct MutantResult {
  std::string_view op;
  std::size_t input;      ///< of the op; for a stale saved value, of its samples
  std::string_view kind;  ///< as "doubled"
  MutantFate fate;
  std::string_view survived;  ///< the oracle that let it live
  std::int64_t compared = 0;  ///< gradients that were mutated
  /// Of any entry, relative to the largest entry; 2^-43 or less, rounding, of an equivalent one.
  double largest_change = 0;
};

/// Every mutant of an op: each input, each kind. A kind is sought where it shows: at order 1, or 2
/// for one whose value is right, in the layout for one that is wrong in that layout only, in
/// float32 for one that is wrong there only. A layer's check has none.
std::vector<MutantResult> run_mutants(const Check& check);

}  // namespace heed::autograd
