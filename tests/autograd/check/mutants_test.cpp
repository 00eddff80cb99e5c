// Tests that each oracle alone rejects every mutant: an op with a wrong gradient of one input. A
// check that accepts a wrong gradient has a defect.
#include "autograd/autograd.h"
#include "autograd/check/diagnosis.h"
#include "autograd/check/float32.h"
#include "autograd/check/tensor_function.h"
#include "autograd/kernels/simd/simd.h"
#include "tests/support/catch.h"
#include "tests/support/checks.h"
#include "tests/support/layouts.h"
#include "tests/support/mutate_gradients.h"

namespace {

using namespace heed::autograd;

// The values that a mutation changes. Both oracles of gradcheck can detect all of these changes
// except kFloat32Gradients, which only check_float32() can detect.
enum class Spoils {
  kGradients,         // the gradients that a vjp returns
  kFloat32Gradients,  // the gradients that a vjp returns in float32; those in float64 stay right
  kSavedInputs,       // the input values that the op saved for its backward pass
};

// One way to make a gradient wrong.
struct Mutation {
  std::string_view name;
  // Returns the wrong gradient for the right gradient g. `input` is the shape of the op's input.
  // The pointer is null for kSavedInputs.
  Tensor (*apply)(const Tensor& g, const Shape& input);
  // Order of the wrong gradient. If it is 2, only the gradient of the gradient is wrong.
  int order = 1;
  CheckLayout layout = CheckLayout::kContiguous;  // memory layout in which it is checked
  Spoils spoils = Spoils::kGradients;
};

Tensor without_first(const Tensor& g, const Shape&) {
  Tensor first = full(g.shape(), false, bool8);
  if (g.numel() > 0) *first.mutable_data<bool>() = true;
  return masked_fill(g, first, 0);
}

Tensor without_last_row(const Tensor& g, const Shape&) {
  if (g.rank() == 0 || g.size(0) == 0) return g;
  const Index last = g.size(0) - 1;
  return cat({slice(g, 0, 0, last), 0.0 * slice(g, 0, last, last + 1)}, 0);
}

// Returns g shifted by one position along an axis; the first slice becomes the last slice.
Tensor rolled(const Tensor& g, int axis) {
  if (g.rank() == 0 || g.size(axis) < 2) return g;
  return cat({slice(g, axis, 1, g.size(axis)), slice(g, axis, 0, 1)}, axis);
}

Tensor transposed_in_place(const Tensor& g, const Shape&) {
  return g.rank() < 2 ? g : reshape(transpose(g, -1, -2), g.shape());
}

Tensor without_mean(const Tensor& g, const Shape&) {
  return g.numel() == 0 ? g : g - (g.rank() == 0 ? g : mean(g, -1, true));
}

Tensor zeros_filled(const Tensor& g, const Shape&) {
  return g.numel() == 0 ? g : where(eq(g, 0.0), mean(abs(g)), g);
}

Tensor doubled(const Tensor& g, const Shape&) { return g * 2.0; }

constexpr Mutation kMutations[] = {
    {"opposite sign", [](const Tensor& g, const Shape&) { return -g; }},
    {"doubled", doubled},
    {"zero", [](const Tensor& g, const Shape&) { return g * 0.0; }},
    {"a millionth too large", [](const Tensor& g, const Shape&) { return g * (1 + 1e-6); }},
    {"sign lost", [](const Tensor& g, const Shape&) { return abs(g); }},
    {"first entry dropped", without_first},
    {"last row dropped", without_last_row},
    {"one column off", [](const Tensor& g, const Shape&) { return rolled(g, -1); }},
    {"one row off", [](const Tensor& g, const Shape&) { return rolled(g, 0); }},
    {"transposed", transposed_in_place},
    {"reversed", [](const Tensor& g, const Shape&) { return g.rank() == 0 ? g : flip(g, -1); }},
    {"mean term dropped", without_mean},
    {"mask forgotten", zeros_filled},
    {"missing un-broadcast", [](const Tensor& g, const Shape& x) { return unsummed(g, x, false); }},
    {"assigned, not accumulated",
     [](const Tensor& g, const Shape& x) { return unsummed(g, x, true); }},
    // The value of the result equals g; only its gradient is wrong.
    {"wrong at order 2 only",
     [](const Tensor& g, const Shape&) { return g + 0.5 * (g - g.detach()); }, 2},
    {"wrong if transposed only", doubled, 1, CheckLayout::kTransposed},
    {"wrong in float32 only", [](const Tensor& g, const Shape&) { return g * (1 + 0x1p-10); }, 1,
     CheckLayout::kContiguous, Spoils::kFloat32Gradients},
    {"stale saved value", nullptr, 1, CheckLayout::kContiguous, Spoils::kSavedInputs}};

// Applies one mutation to the gradients of one input of one op, and measures the change. For
// kSavedInputs, `input` is the index of an input of the sample, not of the op.
class Mutant {
 public:
  Mutant(std::string_view op, std::size_t input, const Mutation& mutation)
      : op_(op), input_(input), mutation_(mutation) {}

  // Returns the name of an oracle that accepts the mutant for all samples, or "" if every oracle
  // that can detect the mutant rejects it.
  std::string_view accepted_by(Samples samples) {
    if (mutation_.spoils == Spoils::kSavedInputs) {
      std::erase_if(samples, [&](const Sample& s) { return input_ >= s.inputs.size(); });
      for (Sample& s : samples) s = with_stale_value(s);
    }
    const MutateGradients guard([&](const Op& op, std::size_t input, const Tensor& g,
                                    const Shape& shape) { return apply(op, input, g, shape); });
    if (mutation_.spoils == Spoils::kFloat32Gradients)
      return std::ranges::all_of(samples, is_right_in_float32) ? "float32 against float64" : "";
    for (const Oracle oracle : kAllOracles)
      if (std::ranges::all_of(samples, [&](const Sample& s) { return is_right(s, oracle); }))
        return oracle == Oracle::kDual ? "dual numbers" : "differences";
    return "";
  }

  // Returns true if the mutation changes gradients only as another order of summation can. For
  // example, the mean of a softmax's gradient is 0 up to rounding, so the mutation "mean term
  // dropped" changes the gradient only by rounding errors.
  bool is_rounding() const {
    return largest_difference_ == 0 || largest_difference_ / largest_gradient_ <= 0x1p-43;
  }
  bool has_compared = false;  // true if a gradient was mutated

 private:
  static bool is_right_in_float32(const Sample& s) {
    return check_float32(s.f, s.inputs, {kernels::simd_target()})[0].ok;
  }

  bool is_right(const Sample& sample, Oracle oracle) const {
    const std::optional<Sample> s = with_layout(sample, mutation_.layout).sample;
    return !s || gradcheck(s->f, s->inputs, only_by(oracle, mutation_.order)).ok();
  }

  Tensor apply(const Op& op, std::size_t input, const Tensor& g, const Shape& shape) {
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

  void compare(const Tensor& right, const Tensor& wrong) {
    has_compared = true;
    largest_gradient_ = std::max(largest_gradient_, testing::largest(right));
    const double difference = testing::largest(wrong - right);
    if (!(difference <= largest_difference_)) largest_difference_ = difference;
  }

  std::string_view op_;
  std::size_t input_;
  const Mutation& mutation_;
  double largest_difference_ = 0, largest_gradient_ = 0;  // over all mutated gradients
};

// Returns the indices of the op's inputs that receive a gradient; none for a layer or composite.
std::set<std::size_t> differentiable_inputs(const Check& check, const Samples& samples) {
  std::set<std::size_t> inputs;
  const MutateGradients guard([&](const Op& op, std::size_t input, const Tensor& g, const Shape&) {
    if (op.name() == check.name()) inputs.insert(input);
    return g;
  });
  for (const Sample& sample : samples)
    gradcheck(sample.f, sample.inputs, {.dual_entries = 1, .difference_entries = 0});
  return inputs;
}

TEST_CASE("no mutant of any op survives either oracle") {
  if (skips(kSanitized, "takes minutes with a sanitizer")) return;
  int killed = 0;
  std::set<std::string_view> killed_by;  // names of mutations
  for (const Check* check : registered_checks()) {
    const Samples samples = check->samples();
    const std::set<std::size_t> of_op = differentiable_inputs(*check, samples);
    if (of_op.empty()) continue;
    std::set<std::size_t> of_samples;
    for (const Sample& s : samples)
      for (std::size_t i = 0; i < s.inputs.size(); ++i) of_samples.insert(i);
    for (const Mutation& mutation : kMutations)
      for (const std::size_t input : mutation.spoils == Spoils::kSavedInputs ? of_samples : of_op) {
        Mutant mutant(check->name(), input, mutation);
        const std::string_view accepted_by = mutant.accepted_by(samples);
        CAPTURE(check->name(), input, mutation.name, accepted_by);
        CHECK(mutant.has_compared);
        CHECK((accepted_by.empty() || mutant.is_rounding()));
        if (!accepted_by.empty()) continue;
        ++killed;
        killed_by.insert(mutation.name);
      }
  }
  CHECK(killed >= 400);
  for (const Mutation& m : kMutations) {
    INFO(m.name);
    CHECK(killed_by.contains(m.name));
  }
}

}  // namespace
