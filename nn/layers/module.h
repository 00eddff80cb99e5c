// Module, the base of all layers and models, and functions that visit a module's parameters.
//
// A module is a plain struct that can be moved but not copied. It lists its parameters and its
// child modules once, in a member function visit(f). Counting, optimizers, checkpoints, clone() and
// printing all use visit(). A module looks like this:
//
//      struct MyLayer : Module {
//        struct Options { ... } options;
//        explicit MyLayer(const Options&, Generator& g = default_generator());
//        Tensor weight;
//        Linear out;
//        template <class F> void visit(F&& f) { f("weight", weight); f("out", out); }
//      };
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "autograd/graph/graph.h"
#include "autograd/graph/inplace.h"
#include "autograd/ops/ops.h"
#include "nn/io/named_tensor.h"

namespace heed::nn {

/// Base of all modules. A module can be moved but not copied. clone(module) makes a copy.
struct Module {
  Module() = default;
  ///@{
  /// Moves the parameters; no tensor is copied.
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;
  ///@}
};

/// Calls f(name, tensor) for each parameter of `module` and of its children, depth first and in the
/// order of visit(). The name is a std::string: `prefix` followed by a name such as
/// "blocks.0.ln1.weight". The tensor is a `Tensor&`, so f can replace it. Undefined tensors are
/// skipped, such as the bias of a layer that has none.
template <class M, class F>
void for_each_parameter(M& module, F&& f, const std::string& prefix = {}) {
  module.visit([&](std::string_view name, auto& member) {
    const std::string full = prefix + std::string(name);
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, Tensor>) {
      if (member.defined()) f(full, member);
    } else {
      for_each_parameter(member, f, full + ".");
    }
  });
}

/// Calls f(tensor) for the tensors of for_each_parameter(), in the same order. It builds no names,
/// so that it is fast enough to be called for each shard (part of a batch) of a training step.
template <class M, class F>
void for_each_tensor(M& module, F&& f) {
  module.visit([&](std::string_view, auto& member) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, Tensor>) {
      if (member.defined()) f(member);
    } else {
      for_each_tensor(member, f);
    }
  });
}

/// Returns all parameters with their full names, in the order of visit(). The tensors are handles:
/// they share memory and gradients with those of the module.
template <class M>
std::vector<NamedTensor> parameters(const M& module) {
  std::vector<NamedTensor> list;
  // visit() passes mutable references. This function only reads them, so the const_cast is safe.
  for_each_parameter(const_cast<M&>(module), [&](const std::string& name, Tensor& p) {
    list.push_back({name, p});
  });
  return list;
}

/// Returns the values of parameters() in float64, without gradient history.
template <class M>
std::vector<Tensor> values_in_float64(const M& module) {
  std::vector<Tensor> values;
  for (const NamedTensor& p : parameters(module)) values.push_back(to(p.tensor.detach(), float64));
  return values;
}
/// Returns the number of scalars in all parameters of `module`.
template <class M>
Index count_parameters(const M& module) {
  Index n = 0;
  for (const NamedTensor& p : parameters(module)) n += p.tensor.numel();
  return n;
}

/// Returns true if the name is that of a bias: it ends in "bias".
inline bool is_bias(std::string_view name) { return name.ends_with("bias"); }

/// Calls `f.operator()<T>()` and returns its result. T is float if the parameter is float32, and
/// double otherwise.
template <class F>
decltype(auto) dispatch_parameter(const Tensor& parameter, F&& f) {
  if (parameter.dtype() == float32) return f.template operator()<float>();
  return f.template operator()<double>();
}

/// Returns a new module with these options, but with `dtype` (float32 or float64) as the dtype of
/// its constants, such as tables of positions. Its parameters are `values`, in the order of
/// parameters(). Throws std::out_of_range if there are too few values.
template <class M>
M with_parameters(typename M::Options options, autograd::DType dtype,
                  const std::vector<Tensor>& values) {
  if constexpr (requires { options.attention.dtype; })
    options.attention.dtype = dtype;
  else if constexpr (requires { options.dtype; })
    options.dtype = dtype;
  Generator scratch;  // the drawn weights are replaced below
  M module(options, scratch);
  std::size_t next = 0;
  for_each_parameter(module, [&](const std::string&, Tensor& p) { p = values.at(next++); });
  return module;
}

/// Returns a new module with the same options and with copies of all parameters.
template <class M>
M clone(const M& module) {
  Generator scratch;  // not default_generator(), because the drawn values are overwritten below
  M copy(module.options, scratch);
  const auto from = parameters(module), to = parameters(copy);
  const autograd::NoGrad guard;
  for (std::size_t i = 0; i < from.size(); ++i) autograd::copy_(to[i].tensor, from[i].tensor);
  return copy;
}

}  // namespace heed::nn
