#include "nn/study/softmax.h"

#include <cmath>

#include "autograd/ops/ops.h"

namespace heed::nn {

using namespace autograd;

Tensor weights_of(const Tensor& scores, const MultiHeadAttention& attention) {
  const NoGrad guard;
  const Tensor wide = to(scores, float64);
  const Tensor hidden = le(wide, -HUGE_VAL);
  if (attention.options.sink == Sink::kNone)
    // The weights of a row that is hidden as a whole are NaN before they are set to 0.
    return masked_fill(softmax(wide, -1), hidden, 0);
  const Tensor sink = attention.sink_logit.defined() ? to(attention.sink_logit.detach(), float64)
                                                     : zeros({1}, float64);
  const Tensor column =
      expand(reshape(sink, {-1, 1, 1}), {wide.size(0), wide.size(1), wide.size(2), 1});
  return slice(softmax(cat({column, wide}, -1), -1), -1, 1, wide.size(-1) + 1);
}

}  // namespace heed::nn
