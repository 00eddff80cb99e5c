#include "autograd/check/float32.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/base/text.h"
#include "autograd/check/tensor_function.h"
#include "autograd/engine/engine.h"
#include "autograd/graph/graph.h"
#include "autograd/kernels/simd/simd.h"
#include "autograd/ops/ops.h"

namespace heed::autograd {
namespace {

using Tensors = std::vector<Tensor>;

constexpr double kFloat32Unit = 0x1p-24;  // largest relative rounding error of float32
constexpr double kRoundingsOfInputs = 4;

// Returns x (float64) as tracked inputs. float32_bounds() includes their rounding to float32.
Tensor rounded_inputs(const Tensor& x) {
  std::vector<Tracked> tracked;
  for (const double value : x.to_vector<double>()) tracked.push_back(rounded_input(value));
  return from_data(tracked, x.shape());
}

Tensor rounded_to_float32(const Tensor& x) { return to(to(x.detach(), float32), float64); }

// A function, with the float64 inputs and cotangents for which its results are compared.
struct Float32Case {
  const DifferentiableFunction& f;
  Tensors inputs;
  Tensor cotangent;  // cotangent of the value
  Tensors second;    // cotangent of each gradient, for order 2
  int order;

  Float32Case(const DifferentiableFunction& function, Args args, int max_order)
      : f(function), order(max_order) {
    const NoGrad guard;
    Generator random(1);
    for (const Tensor& x : args) {
      inputs.push_back(rounded_to_float32(x));
      second.push_back(rounded_to_float32(randn(x.shape(), float64, random)));
    }
    cotangent = rounded_to_float32(randn(f(inputs).shape(), float64, random));
  }
  // Returns the value of f and its gradients, for which fused ops run their backward kernels. At
  // order 2, two more groups follow: the gradients computed from the definitions of fused ops, and
  // the gradients of these gradients with respect to the inputs and the cotangent. `as` converts
  // the inputs and the cotangents to another dtype.
  Tensors results(const std::function<Tensor(const Tensor&)>& as) const {
    const GradMode recording(true);
    Tensors leaves;
    for (const Tensor& x : inputs) leaves.push_back(as(x).requires_grad_());
    const Tensor y = f(leaves);
    Tensors out{y.detach()};
    if (!y.requires_grad()) return out;  // f does not depend on its inputs
    const Tensor v = as(cotangent).requires_grad_();
    for (const Tensor& g :
         grad(y, leaves, {.grad_output = v.detach(), .retain_graph = true, .allow_unused = true}))
      out.push_back(g.detach());
    if (order == 1) return out;
    const Tensors first =
        grad(y, leaves, {.grad_output = v, .create_graph = true, .allow_unused = true});
    Tensor total = sum(v) * 0.0;  // with this term, `total` has a graph even if no gradient has one
    for (std::size_t i = 0; i < first.size(); ++i) {
      out.push_back(first[i].detach());
      total = total + sum(first[i] * as(second[i]));
    }
    leaves.push_back(v);
    for (const Tensor& g : grad(total, leaves, {.allow_unused = true})) out.push_back(g.detach());
    return out;
  }
};

// Returns the name of an element of Float32Case::results(), such as "gradient of input 0".
std::string result_name(std::size_t place, std::size_t inputs) {
  if (place == 0) return "value";
  --place;
  const std::string at = " of input " + std::to_string(place % std::max<std::size_t>(1, inputs));
  if (place < inputs) return "gradient" + at;
  if (place < 2 * inputs) return "gradient by definitions" + at;
  if (place == 3 * inputs) return "gradient of gradients of the cotangent";
  return "gradient of gradients" + at;
}

// Returns the entries of all tensors, concatenated.
std::vector<Tracked> entries_of(const Tensors& results) {
  std::vector<Tracked> all;
  for (const Tensor& t : results)
    for (const Tracked& entry : tracked_values(t)) all.push_back(entry);
  return all;
}

void compare_float32(Float32Report& report, const Tensors& got, const Float32Bounds& expected,
                     std::size_t inputs) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto values = got[i].to_vector<float>();
    for (std::size_t k = 0; k < values.size(); ++k, ++at) {
      const double exact = expected.exact.at(at), bound = expected.bound[at];
      const double error = std::abs(double(values[k]) - exact) / bound;
      if (!(error <= report.worst)) report.worst = error;
      if (error <= 1 || !report.ok) continue;
      report.ok = false;
      TextStream text;
      text.precision(9);
      text << result_name(i, inputs) << " at " << unravel(Index(k), got[i].shape()) << ": float32 "
           << values[k] << ", float64 " << exact << ", off by " << error << " times the bound";
      report.message = text.str();
    }
  }
  report.entries = Index(at);
  check<ValueError>(at == expected.exact.size(), "check_float32", "f has ", expected.exact.size(),
                    " entries in float64 and ", at, " in float32; it must return the same number");
}

}  // namespace

Float32Bounds float32_bounds(const std::vector<Tracked>& entries) {
  Float32Bounds result;
  for (const Tracked& entry : entries) {
    const double exact = entry.number.value;
    result.exact.push_back(exact);
    result.bound.push_back(
        std::max(kRoundingsOfInputs * kFloat32Unit * (entry.terms + std::abs(exact)),
                 double(std::numeric_limits<float>::min())));
  }
  return result;
}

std::vector<Float32Report> check_float32(const DifferentiableFunction& f, Args inputs,
                                         const std::vector<std::string>& targets, int order) {
  const Float32Case q(f, inputs, order);
  const Float32Bounds expected = float32_bounds(entries_of(q.results(rounded_inputs)));
  std::vector<Float32Report> reports;
  for (const std::string& target : targets) {
    const kernels::OnSimdTarget here(target);
    reports.push_back({target});
    compare_float32(reports.back(),
                    q.results([](const Tensor& x) { return to(x, float32).detach(); }), expected,
                    inputs.size());
  }
  return reports;
}

}  // namespace heed::autograd
