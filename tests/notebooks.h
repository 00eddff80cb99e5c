// What the tests of the five notebooks share: their attention, op by op, and notebook 4's tensors.
#pragma once

#include <cmath>

#include "autograd/ops.h"

namespace heed::autograd::testing {

inline Tensor f64(std::initializer_list<std::initializer_list<double>> rows) {
  return tensor(rows, float64);
}
inline bool near(const Tensor& got, const Tensor& want, double tolerance) {
  return allclose(got, want, 0, tolerance);
}

struct Attention {
  Tensor scores, pattern, output;
};
// The notebooks' own formula, op by op.
inline Attention by_hand(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                         const Tensor& additive = {}) {
  Attention r;
  r.scores = matmul(q, mT(k)) * scale;
  if (additive.defined()) r.scores = r.scores + additive;
  r.pattern = softmax(r.scores, -1);
  r.output = matmul(r.pattern, v);
  return r;
}
inline Tensor causal_additive(const Shape& shape) { return triu(full(shape, -kInf, float64), 1); }

// Cells 3 to 18: two keys of size d, one query.
struct Notebook4 {
  Tensor q, k, v;
  explicit Notebook4(std::int64_t d) {
    const Tensor one = ones({d}, float64);
    q = unsqueeze(one, 0);
    k = stack({2.0 * one, one}, 0);
    v = stack({3.0 * one, 4.0 * one}, 0);
  }
};

}  // namespace heed::autograd::testing
