// Differentiates random graphs of all ops, composites and layers. Values and derivatives are
// compared with the two oracles of the gradient checker.
#include "autograd/autograd.h"
#include "autograd/check/tensor_function.h"
#include "tests/support/checks.h"
#include "tests/support/layouts.h"

namespace {

using namespace heed::autograd;

// Returns the gradient of f at x, summed over the elements of f with random weights. The gradient
// is differentiable if `create_graph` is true.
Tensor gradient_at(const DifferentiableFunction& f, const Tensor& x, bool create_graph) {
  const GradMode recording(true);
  const Tensor leaf = x.requires_grad() ? x : x.detach().requires_grad_(), y = f({&leaf, 1});
  if (!y.requires_grad()) return zeros_like(x);
  return grad(y, {leaf},
              {.grad_output = testing::draw(y.shape(), 1),
               .create_graph = create_graph,
               .allow_unused = true})[0];
}

// Builds a graph from the tensor x. The graph depends on the seed only.
class GraphBuilder {
 public:
  GraphBuilder(std::uint64_t seed, const Tensor& x) : random_(seed), made_{x} {}

  // Calls random samples of random checks. Returns the sum of all results with random weights.
  Tensor run() {
    static const std::vector<Samples> samples = [] {
      std::vector<Samples> of_checks;
      for (const Check* check : library_checks()) of_checks.push_back(check->samples());
      return of_checks;
    }();
    constexpr int kCalls = 6;
    for (int i = 0; i < kCalls; ++i) add(pick(pick(samples)));
    Tensor total = zeros({}, float64);
    for (const Tensor& t : made_) total = total + sum(t) * (1 + random_.uniform_double());
    return total;
  }

 private:
  std::int64_t below(std::int64_t n) { return std::int64_t(random_.uniform_double() * double(n)); }
  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[std::size_t(below(std::ssize(list)))];
  }

  // Adds the result of the sample, or its gradient, both limited to (-1, 1).
  void add(const Sample& s) {
    std::vector<Tensor> inputs;
    for (const Tensor& x : s.inputs) inputs.push_back(near(x));
    const std::size_t of = std::size_t(below(std::ssize(inputs)));
    const bool is_gradient = below(4) == 0 && inputs[of].numel() > 0;
    const auto of_one = [&](Args x) {
      std::vector<Tensor> moved = inputs;
      moved[of] = x[0];
      return s.f(moved);
    };
    const Tensor y =
        is_gradient ? gradient_at(of_one, inputs[of], made_[0].requires_grad()) : s.f(inputs);
    if (y.numel() > 0) made_.push_back(tanh(0.25 * hooked(y)));
  }

  // Returns x, moved by the elements of a tensor that was made before. An op with kinks has its
  // inputs at least 0.05 from each kink (SampleGen::apart).
  Tensor near(const Tensor& x) {
    if (x.numel() == 0) return x;
    const Tensor here = zeros_like(x);
    copy_(flip(flatten(here), 0), flip(flatten(x), 0));
    const Tensor moved = here + 0.02 * reshape(view_of_made(x.numel()), x.shape());
    fill_(here, std::nan(""));  // the sum does not save its operands
    return moved;
  }

  // Returns n elements of a tensor that was made before.
  Tensor view_of_made(std::int64_t n) {
    Tensor t = pick(made_);
    if (t.rank() >= 2 && below(2) == 0) t = transpose(t, 0, -1);
    t = reshape(t, {-1});
    if (t.numel() < n) t = reshape(expand(t, {n / t.numel() + 1, -1}), {-1});
    const std::int64_t step = 1 + below(t.numel() / n), length = (n - 1) * step + 1,
                       start = below(t.numel() - length + 1);
    return slice(below(2) == 0 ? flip(t, 0) : t, 0, start, start + length, step);
  }

  // Returns y. One half of it has no gradient, and a hook doubles the gradient of the other half.
  // The hook is on a copy, because a vjp that reads its output y sends y further gradients.
  Tensor hooked(const Tensor& y) {
    const Tensor copy = y + 0.0;
    if (copy.requires_grad()) copy.register_hook([](const Tensor& g) { return g * 2.0; });
    return 0.5 * copy + 0.5 * y.detach();
  }

  Generator random_;
  std::vector<Tensor> made_;
};

TEST_CASE("values and derivatives of random graphs are right up to the third derivative") {
  const char* graphs = std::getenv("HEED_GRAPHS");
  for (int seed = 1; seed <= (graphs ? std::atoi(graphs) : 200); ++seed) {
    CAPTURE(seed);
    const DifferentiableFunction graph = [seed](Args x) {
      return GraphBuilder(std::uint64_t(seed), x[0]).run();
    };
    const DifferentiableFunction slope = [&](Args x) {
      return sum(gradient_at(graph, x[0], x[0].requires_grad()));
    };
    const std::vector<Tensor> x = {testing::draw({3, 2}, std::uint64_t(seed))};
    const std::vector<double> numbers = testing::values(x[0]);
    const Tensor tracked =
        from_data(std::vector<Tracked>(numbers.begin(), numbers.end()), x[0].shape());
    CHECK(call_unrecorded(graph, x).item() ==
          Approx(tracked_values(graph({&tracked, 1}))[0].number.value).epsilon(1e-12));
    const CheckReport to_second = gradcheck(graph, x, {.order = 2, .difference_entries = 0}),
                      third = gradcheck(slope, x,
                                        {.order = 2, .dual_entries = 1, .difference_entries = 1});
    INFO(to_second << "\n" << third);
    CHECK(to_second.ok());
    CHECK(third.ok());
    // Two passes through one graph add up.
    const Tensor leaf = x[0].detach().requires_grad_(), y = graph({&leaf, 1});
    backward(y, {.retain_graph = true});
    backward(y);
    CHECK(testing::close(leaf.grad(), 2.0 * engine_gradients(graph, x, {})[0]));
  }
}

}  // namespace
