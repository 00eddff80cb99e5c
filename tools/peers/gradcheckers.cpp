// Runs heed's check_vjp on the cases of gradchecker_cases.h. If the program was built with Ceres,
// it also runs Ceres' GradientChecker. For gradcheckers.py, it prints one line per checker and
// case: checker|list|case|right|digits|milliseconds. `right` is 1 if the checker accepts the
// gradient, otherwise 0.
#include <chrono>
#include <iostream>

#include "tools/peers/check_case.h"
#ifdef HEED_CERES
#include <ceres/ceres.h>
#include <ceres/gradient_checker.h>
#endif

namespace {

using heed::peers::GradientCase;
using heed::peers::Vectors;

struct Answer {
  bool right = false;
  double digits = 0;
};

#ifdef HEED_CERES
// Adapts a case to Ceres. Ceres needs a Jacobian, so Evaluate() calls backward once per unit
// cotangent.
class CostOfCase : public ceres::CostFunction {
 public:
  explicit CostOfCase(const GradientCase& c) : case_(c) {
    for (const auto& array : c.x) mutable_parameter_block_sizes()->push_back(int(array.size()));
    set_num_residuals(int(c.forward(c.x)[0].size()));
  }
  bool Evaluate(const double* const* parameters, double* residuals,
                double** jacobians) const override {
    Vectors x = case_.x;
    for (std::size_t i = 0; i < x.size(); ++i)
      std::copy(parameters[i], parameters[i] + x[i].size(), x[i].begin());
    const Vectors y = case_.forward(x);
    std::copy(y[0].begin(), y[0].end(), residuals);
    for (std::size_t o = 0; jacobians && o < y[0].size(); ++o) {
      Vectors unit = {std::vector<double>(y[0].size(), 0.0)};
      unit[0][o] = 1;
      const Vectors g = case_.backward(x, unit);
      for (std::size_t i = 0; i < x.size(); ++i)
        if (jacobians[i])
          std::copy(g[i].begin(), g[i].end(), jacobians[i] + std::ptrdiff_t(o * g[i].size()));
    }
    return true;
  }

 private:
  const GradientCase& case_;
};

Answer check_by_ceres(const GradientCase& c) {
  const CostOfCase cost(c);
  const std::vector<const ceres::Manifold*>* no_manifolds = nullptr;
  const ceres::GradientChecker checker(&cost, no_manifolds, ceres::NumericDiffOptions());
  std::vector<const double*> parameters;
  for (const auto& array : c.x) parameters.push_back(array.data());
  ceres::GradientChecker::ProbeResults results;
  const double precision = ceres::Solver::Options().gradient_check_relative_precision;
  return {checker.Probe(parameters.data(), precision, &results)};
}
#endif

void run(const char* checker, Answer (*check)(const GradientCase&)) {
  const std::vector<GradientCase>* lists[] = {&heed::peers::gradient_cases(),
                                              &heed::peers::resolution_cases()};
  for (int list = 0; list < 2; ++list)
    for (std::size_t i = 0; i < lists[list]->size(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      const Answer answer = check((*lists[list])[i]);
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - start;
      std::cout << checker << '|' << list << '|' << i << '|' << answer.right << '|' << answer.digits
                << '|' << took.count() << '\n';
    }
}

}  // namespace

int main() {
  run("heed", [](const GradientCase& c) {
    const heed::autograd::CheckReport report = heed::peers::check_case(c);
    return Answer{report.ok(), report.digits()};
  });
#ifdef HEED_CERES
  run("Ceres", check_by_ceres);
#endif
}
