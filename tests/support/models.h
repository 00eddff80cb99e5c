// Models and layers to test, none of whose parameters is 0 or 1.
#pragma once

#include "nn/layers/transformer.h"

namespace heed::nn::testing {

inline constexpr Positions kAllPositions[] = {Positions::kLearned, Positions::kSinusoidal,
                                              Positions::kRope, Positions::kAlibi,
                                              Positions::kNone};

/// Initialized, then every parameter moved, biases and norms included.
template <class M>
M random_module(const typename M::Options& o, std::int64_t seed = 3) {
  Generator g(seed);
  M module(o, g);
  const autograd::NoGrad guard;
  for (const NamedTensor& p : parameters(module))
    copy_(p.tensor, p.tensor + 0.3 * randn(p.tensor.shape(), o.dtype, g));
  return module;
}
inline Transformer random_model(const Transformer::Options& o) {
  return random_module<Transformer>(o);
}

}  // namespace heed::nn::testing
