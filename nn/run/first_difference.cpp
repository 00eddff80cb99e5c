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

RunsDifference compare_weights(const std::filesystem::path& run_a,
                               const std::filesystem::path& run_b) {
  const RunFolder run(run_a), other_run(run_b);
  RunsDifference d;
  const auto compare = [&](std::int64_t step, const SafeTensors& a, const SafeTensors& b) {
    if (d.steps.empty() || d.steps.back() != step) d.steps.push_back(step);
    d.first = first_difference(a, b);
  };
  std::map<std::int64_t, std::filesystem::path> others;
  for (const CheckpointFile& c : other_run.checkpoints()) others[c.step] = c.file;
  for (const auto& [step, file] : run.checkpoints()) {
    const auto other = others.find(step);
    if (other == others.end()) continue;
    compare(step, load_safetensors(file.string()), load_safetensors(other->second.string()));
    if (d.first) return d;
  }
  const auto a = run.last_weights(), b = other_run.last_weights();
  if (a && b && a->step == b->step)
    compare(a->step, load_safetensors(a->file.string()), load_safetensors(b->file.string()));
  return d;
}

}  // namespace heed::nn
