// Modules are plain move-only structs. Each names its parameters and children once, in visit(f);
// counting, optimizers, checkpoints, cloning and printing are all visitors.
//
//   struct Mine : Module {
//     struct Options { ... } options;
//     explicit Mine(const Options&, Generator& g = default_generator());
//     Tensor weight;
//     Linear out;
//     template <class F> void visit(F&& f) { f("weight", weight); f("out", out); }
//   };
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

/// Base of every module: moves, does not copy. clone(m) copies.
struct Module {
  Module() = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;
};

/// f(full name, Tensor&) for each parameter, depth first in visit()'s order. Undefined ones (no
/// bias) are left out.
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

/// All parameters, as handles on the module's own.
template <class M>
std::vector<NamedTensor> parameters(const M& module) {
  std::vector<NamedTensor> list;
  // visit() hands out references to replace tensors by; here they are only read.
  for_each_parameter(const_cast<M&>(module), [&](const std::string& name, Tensor& p) {
    list.push_back({name, p});
  });
  return list;
}

template <class M>
std::int64_t count_parameters(const M& module) {
  std::int64_t n = 0;
  for (const NamedTensor& p : parameters(module)) n += p.tensor.numel();
  return n;
}

/// Returns whether the name is that of a bias: "...bias", or TransformerLens' "...b_Q".
inline bool is_bias(std::string_view name) {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  return last.ends_with("bias") || last.starts_with("b_");
}

/// f.operator()<T>() with T = float or double, the types of parameters' elements.
template <class F>
decltype(auto) dispatch_parameter(const Tensor& parameter, F&& f) {
  if (parameter.dtype() == float32) return f.template operator()<float>();
  return f.template operator()<double>();
}

/// An independent module with the same options and values.
template <class M>
M clone(const M& module) {
  Generator scratch;  // the draws are overwritten: leave the thread's stream alone
  M copy(module.options, scratch);
  const auto from = parameters(module), to = parameters(copy);
  const autograd::NoGrad guard;
  for (std::size_t i = 0; i < from.size(); ++i) autograd::copy_(to[i].tensor, from[i].tensor);
  return copy;
}

}  // namespace heed::nn
