// Gradient check of a module or a model, in its parameters and its inputs:
//
//   const ModuleReport report = check_module(layer, {x});
//   CHECK(report.ok());  // report.message() names the parameter
#pragma once

#include <string>
#include <vector>

#include "autograd/check/gradcheck.h"
#include "nn/layers/module.h"

namespace heed::nn {

/// Result of check_module().
struct ModuleReport {
  /// A parameter or an input of the module, and the check of the gradient with respect to it.
  struct Checked {
    std::string name;  ///< name in parameters(), or "input 0"
    autograd::CheckReport report;
  };
  std::vector<Checked> tensors;  ///< parameters in the order of parameters(), then the inputs

  /// Returns true if every gradient is right, and at least one was checked.
  bool ok() const { return !tensors.empty() && message().empty(); }
  /// Returns name and reason of the first gradient that is not right, such as "out.weight: input 0
  /// at [1, 2]: ...". Returns "" if there is none.
  std::string message() const {
    for (const Checked& t : tensors)
      if (!t.report.ok()) return t.name + ": " + t.report.message;
    return "";
  }
};

/// Calls a module with one input.
struct CallModule {
  /// Returns module(inputs[0]).
  template <class M>
  Tensor operator()(const M& module, const std::vector<Tensor>& inputs) const {
    return module(inputs[0]);
  }
};

/// Checks the gradient of call(module, inputs) with respect to each parameter of the module and
/// each floating-point input by gradcheck(), in float64; other inputs are constants. `call` returns
/// a tensor of any shape, and must be deterministic: without dropout. The module must be
/// constructible from its options and a Generator (module.h). The parameters keep their values.
/// Throws the errors of gradcheck() and of `call`.
template <class M, class F = CallModule>
ModuleReport check_module(const M& module, const std::vector<Tensor>& inputs,
                          const autograd::GradcheckOptions& how = {}, const F& call = {}) {
  std::vector<NamedTensor> tensors = parameters(module);
  const std::size_t count = tensors.size();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    tensors.push_back({"input " + std::to_string(i), inputs[i]});
  std::vector<Tensor> values;
  for (const NamedTensor& t : tensors)
    values.push_back(autograd::is_floating(t.tensor.dtype())
                         ? to(t.tensor.detach(), autograd::float64)
                         : t.tensor);
  ModuleReport result;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!autograd::is_floating(tensors[i].tensor.dtype())) continue;
    const auto f = [&](autograd::Args t) {
      std::vector<Tensor> all = values;
      all[i] = t[0];
      const auto first_input = all.begin() + std::ptrdiff_t(count);
      return call(with_parameters<M>(module.options, autograd::float64, {all.begin(), first_input}),
                  std::vector<Tensor>(first_input, all.end()));
    };
    result.tensors.push_back({tensors[i].name, gradcheck(f, std::vector{values[i]}, how)});
  }
  return result;
}

}  // namespace heed::nn
