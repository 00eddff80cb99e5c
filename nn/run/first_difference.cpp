#include "nn/run/first_difference.h"

#include <map>

#include "autograd/ops/ops.h"
#include "nn/io/tensor_difference.h"
#include "nn/run/run_folder.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Returns the first element whose bits differ. A NaN equals a NaN with the same bits.
std::optional<WeightDifference> difference_of(const std::string& name, const Tensor& a,
                                              const Tensor& b) {
  const std::optional<std::int64_t> i = compare_tensors(a, b).first;
  if (!i) return {};
  const auto value = [&](const Tensor& t) {
    return to(reshape(t.detach(), {-1}), float64).to_vector<double>()[std::size_t(*i)];
  };
  return WeightDifference{name, unravel(*i, a.shape()), value(a), value(b)};
}

}  // namespace

std::optional<WeightDifference> first_difference(const SafeTensors& a, const SafeTensors& b) {
  check<IoError>(a.tensors.size() == b.tensors.size(), a.path, "has ", a.tensors.size(),
                 " tensors, ", b.path, " has ", b.tensors.size());
  for (const auto& [name, x] : a.tensors) {
    const Tensor y = b.find(name);
    check<IoError>(y.defined() && x.shape() == y.shape() && x.dtype() == y.dtype(), a.path, "has ",
                   name, " ", x.dtype(), " ", x.shape(), ", ", b.path, " does not have it");
    if (auto difference = difference_of(name, x, y)) return difference;
  }
  return {};
}

}  // namespace heed::nn
