// The update of the optimizer AdamW (Loshchilov and Hutter 2019) on arrays.
#pragma once

#include <cmath>

#include "autograd/base/index.h"

namespace heed::autograd::kernels {

/// Constants of one update, which are the same for all elements. lr is the learning rate, and t is
/// the number of the update, starting with 1.
struct AdamWStep {
  double beta1;       ///< decay rate of the first moment
  double beta2;       ///< decay rate of the second moment
  double eps;         ///< added to the denominator of the update
  double grad_scale;  ///< factor for all gradients; below 1 if gradients are clipped
  double keep;        ///< 1 - lr * weight decay; factor of the old parameter
  double step_size;   ///< lr / (1 - beta1^t), for update t
  double root;        ///< sqrt(1 - beta2^t), for update t
};

namespace reference {

/// Updates n parameters p and their moments m and v in place, from the gradients g:
///   g' = g grad_scale,  m = beta1 m + (1 - beta1) g',  v = beta2 v + (1 - beta2) g'^2,
///   p = p keep - step_size m / (sqrt(v) / root + eps).
/// g is not changed. The four arrays must not overlap.
template <class T>
void adamw(T* p, const T* g, T* m, T* v, Index n, const AdamWStep& s) {
  using std::sqrt;
  const T b1 = T(s.beta1), b2 = T(s.beta2), c1 = T(1 - s.beta1), c2 = T(1 - s.beta2);
  const T scale = T(s.grad_scale), keep = T(s.keep), rate = T(s.step_size), eps = T(s.eps);
  const T inverse_root = T(1 / s.root);
  for (Index i = 0; i < n; ++i) {
    const T gi = g[i] * scale;
    m[i] = b1 * m[i] + c1 * gi;
    v[i] = b2 * v[i] + c2 * gi * gi;
    p[i] = p[i] * keep - rate * m[i] / (sqrt(v[i]) * inverse_root + eps);
  }
}

}  // namespace reference
}  // namespace heed::autograd::kernels
