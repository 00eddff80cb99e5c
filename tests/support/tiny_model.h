// Options and inputs of a small model, and the relative error of its outputs.
#pragma once

#include "autograd/ops/ops.h"
#include "nn/layers/transformer.h"
#include "tests/support/catch.h"

namespace heed::nn::testing {

inline constexpr Index kContext = 9, kVocab = 11;

inline Transformer::Options tiny(DType dtype = autograd::float64) {
  return {.vocab = kVocab,
          .layers = 2,
          .context = kContext,
          .attention = {.d_model = 8, .heads = 2, .dtype = dtype}};
}

inline Tensor random_ids(Index batch, Index n = kContext) {
  autograd::Generator g(5);
  return randint(0, kVocab, {batch, n}, g);
}

/// Returns the largest difference, divided by the largest magnitude in `want`. If an element is
/// NaN, the result is NaN.
inline double relative_distance(const Tensor& got, const Tensor& want) {
  REQUIRE(got.shape() == want.shape());
  const double worst = max(abs(got - want)).item(), largest = max(abs(want)).item();
  return largest > 0 ? worst / largest : worst;
}

}  // namespace heed::nn::testing
