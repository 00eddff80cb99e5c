// What two of the notebooks need: inputs made by a rule, and the scale that weights were made with.
#pragma once

#include <cmath>

#include "autograd/ops/ops.h"

namespace heed::notebook {

/// Element i, in row-major order, is ((step i + first) mod modulus - modulus / 2) * unit.
inline autograd::Tensor counted(const autograd::Shape& shape, std::int64_t step, std::int64_t first,
                                std::int64_t modulus, double unit) {
  const std::int64_t middle = modulus / 2;
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.numel(); ++i)
    values.push_back(double((step * i + first) % modulus - middle) * unit);
  return autograd::from_data(values, shape);
}

/// c, given the matrices softmax(c * products) and products: a ratio of two weights, of the last
/// row, is exp(c * difference).
inline double scale_of(const autograd::Tensor& weights, const autograd::Tensor& products) {
  const std::int64_t row = weights.size(0) - 1;
  return std::log(weights.at({row, 0}) / weights.at({row, 1})) /
         (products.at({row, 0}) - products.at({row, 1}));
}

}  // namespace heed::notebook
