#include "autograd/check/mutants.h"

#include <algorithm>
#include <set>

#include "autograd/check/float32.h"
#include "autograd/check/gradcheck.h"
#include "autograd/check/mutations.h"
#include "autograd/check/tensor_function.h"
#include "autograd/kernels/simd/simd.h"
#include "autograd/ops/ops.h"

namespace heed::autograd {
namespace {

double largest(const Tensor& x) { return x.numel() == 0 ? 0 : max(abs(x)).item(); }

// Largest relative change that another order of summation can cause. For example, the mean of a
// softmax's gradient is 0 up to rounding, so the mutation "mean term dropped" changes the gradient
// only by rounding errors.
constexpr double kRounding = 0x1p-43;

// Applies one mutation to the gradients of one input of one op, and measures the change.
class Mutant {
 public:
  Mutant(std::string_view op, std::size_t input, const Mutation& mutation)
      : op_(op), input_(input), mutation_(mutation) {}

  Tensor operator()(const Op& op, std::size_t input, const Tensor& g, const Shape& shape) {
    if (!mutation_.apply || op.name() != op_ || input != input_) return g;
    if (mutation_.spoils == Spoils::kFloat32Gradients && g.dtype() != float32) return g;
    Tensor wrong = mutation_.apply(g, shape);
    const NoGrad guard;
    compare(sum_to(g, shape), sum_to(wrong, shape));  // both summed to the input's shape
    if (mutation_.order == 2 && g.requires_grad()) largest_difference_ = largest_gradient_;
    return wrong;
  }

  // Returns the sample with a wrong gradient of one input: the gradient at the point 7/8 * x
  // instead of x, where x are all inputs. A vjp has such an error if it reads values that were
  // saved too early.
  Sample with_stale_value(const Sample& s) {
    Sample stale = s;
    stale.f = [f = s.f, i = input_](Args t) {
      std::vector<Tensor> now(t.begin(), t.end()), before;
      for (const Tensor& x : now) before.push_back(0.875 * x.detach());
      before[i] = t[i] - 0.125 * t[i].detach();
      now[i] = t[i].detach();
      const Tensor y = f(before);
      return f(now) + (y - y.detach());
    };
    Generator random(1);
    const Tensor v = randn(call_unrecorded(s.f, s.inputs).shape(), float64, random);
    compare(engine_gradients(s.f, s.inputs, v)[input_],
            engine_gradients(stale.f, s.inputs, v)[input_]);
    return stale;
  }

  double largest_change() const {
    return largest_difference_ == 0 ? 0 : largest_difference_ / largest_gradient_;
  }
  bool changed() const { return !(largest_change() <= kRounding); }
  std::int64_t compared = 0;

 private:
  void compare(const Tensor& right, const Tensor& wrong) {
    ++compared;
    largest_gradient_ = std::max(largest_gradient_, largest(right));
    const double difference = largest(wrong - right);
    if (!(difference <= largest_difference_)) largest_difference_ = difference;
  }

  std::string_view op_;
  std::size_t input_;
  const Mutation& mutation_;
  double largest_difference_ = 0, largest_gradient_ = 0;  // over all mutated gradients
};

// Returns true if the oracle alone rejects the mutant for at least one sample.
bool kills(Oracle oracle, const Samples& samples, const Mutation& mutation) {
  const GradcheckOptions options{.order = mutation.order,
                                 .use_differences = oracle == Oracle::kDifferences,
                                 .use_dual = oracle == Oracle::kDual};
  for (const Sample& sample : samples) {
    const SampleInLayout laid_out = with_layout(sample, mutation.layout);
    if (laid_out.sample && !gradcheck(laid_out.sample->f, laid_out.sample->inputs, options).ok())
      return true;
  }
  return false;
}

bool float32_kills(const Samples& samples) {
  return std::any_of(samples.begin(), samples.end(), [](const Sample& s) {
    return !check_float32(s.f, s.inputs, {kernels::simd_target()})[0].ok;
  });
}

// Returns the name of an oracle that accepts the mutant. Returns an empty string if every oracle
// that can detect the mutant rejects it.
std::string_view survived(const Samples& samples, const Mutation& mutation, Mutant& mutant) {
  const MutateGradients guard([&](const Op& op, std::size_t input, const Tensor& g,
                                  const Shape& shape) { return mutant(op, input, g, shape); });
  if (mutation.spoils == Spoils::kFloat32Gradients)
    return float32_kills(samples) ? "" : "float32 against float64";
  for (const Oracle oracle : kAllOracles)
    if (!kills(oracle, samples, mutation)) return oracle_name(oracle);
  return "";
}

// Returns the indices of the op's inputs that receive a gradient.
std::set<std::size_t> differentiable_inputs(const Check& check, const Samples& samples) {
  std::set<std::size_t> inputs;
  const MutateGradients guard([&](const Op& op, std::size_t input, const Tensor& g, const Shape&) {
    if (op.name() == check.name()) inputs.insert(input);
    return g;
  });
  for (const Sample& sample : samples)
    gradcheck(sample.f, sample.inputs, {.use_differences = false, .dual_entries = 1});
  return inputs;
}

MutantResult run_mutant(const Check& check, const Samples& samples, std::size_t input,
                        const Mutation& mutation) {
  Mutant mutant(check.name(), input, mutation);
  Samples stale;
  if (mutation.spoils == Spoils::kSavedInputs)
    for (const Sample& s : samples)
      if (input < s.inputs.size()) stale.push_back(mutant.with_stale_value(s));
  MutantResult result{check.name(), input, mutation.name, MutantFate::kKilled, {}};
  result.survived = survived(stale.empty() ? samples : stale, mutation, mutant);
  result.compared = mutant.compared;
  result.largest_change = mutant.largest_change();
  if (result.survived.empty()) return result;
  result.fate = MutantFate::kSurvived;
  if (mutant.compared > 0 && !mutant.changed()) {
    result.fate = MutantFate::kEquivalent;
    result.survived = {};
  }
  return result;
}

}  // namespace

void MutateGradients::saw_gradients(Node& node, const Vjp& v, Grads& grads) {
  const auto inputs = node.inputs();
  for (std::size_t i = 0; i < std::min(grads.size(), inputs.size()); ++i)
    if (grads[i].defined() && v.needs(int(i)))
      grads[i] = f_(*node.op(), i, grads[i], inputs[i].node->shape());
}

std::vector<MutantResult> run_mutants(const Check& check) {
  std::vector<MutantResult> results;
  const Samples samples = check.samples();
  const std::set<std::size_t> of_op = differentiable_inputs(check, samples);
  if (of_op.empty()) return results;
  std::set<std::size_t> of_samples;
  for (const Sample& s : samples)
    for (std::size_t i = 0; i < s.inputs.size(); ++i) of_samples.insert(i);
  for (const Mutation& mutation : mutations())
    for (const std::size_t input : mutation.spoils == Spoils::kSavedInputs ? of_samples : of_op)
      results.push_back(run_mutant(check, samples, input, mutation));
  return results;
}

}  // namespace heed::autograd
