#include "nn/optim/first_non_finite.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "autograd/base/shape.h"
#include "autograd/base/text.h"
#include "autograd/ops/ops.h"
#include "nn/layers/module.h"

namespace heed::nn {

using namespace autograd;

std::string first_non_finite(const Tensor& x) {
  const Tensor row_major = contiguous(x.detach());
  return dispatch_parameter(row_major, [&]<class T> {
    const std::span values(row_major.data<T>(), std::size_t(x.numel()));
    const auto bad = std::ranges::find_if_not(values, [](T v) { return std::isfinite(v); });
    TextStream text;
    if (bad != values.end())
      text << (std::isnan(*bad) ? std::nan("") : double(*bad)) << " at "
           << unravel(bad - values.begin(), x.shape());
    return text.str();
  });
}

std::string first_non_finite(const std::vector<NamedTensor>& tensors) {
  for (const NamedTensor& t : tensors)
    if (is_floating(t.tensor.dtype()))
      if (const std::string bad = first_non_finite(t.tensor); !bad.empty())
        return t.name + " is " + bad;
  return "";
}

}  // namespace heed::nn
