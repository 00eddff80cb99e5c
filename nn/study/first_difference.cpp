#include "nn/study/first_difference.h"

#include <cstring>
#include <map>

#include "autograd/base/text.h"
#include "autograd/ops/ops.h"
#include "nn/study/over_time.h"

namespace heed::nn {

using namespace autograd;

namespace {

template <class T>
std::optional<std::int64_t> first_unequal(const std::vector<T>& a, const std::vector<T>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0) return std::int64_t(i);  // NaN equals itself
  return {};
}

template <class T>
std::optional<WeightDifference> difference_of(const std::string& name, const Tensor& a,
                                              const Tensor& b) {
  const std::vector<T> x = a.to_vector<T>(), y = b.to_vector<T>();
  const auto i = first_unequal(x, y);
  if (!i) return {};
  return WeightDifference{name, unravel(*i, a.shape()), double(x[std::size_t(*i)]),
                          double(y[std::size_t(*i)])};
}

std::map<std::int64_t, std::filesystem::path> checkpoints_by_step(
    const std::filesystem::path& run) {
  std::map<std::int64_t, std::filesystem::path> found;
  for (const CheckpointFile& c : list_checkpoints(run)) found[c.step] = c.file;
  return found;
}

std::optional<std::int64_t> step_of_weights(const SafeTensors& file) {
  const auto found = file.metadata.find("step");
  if (found == file.metadata.end()) return {};
  return parse_number<std::int64_t>(found->second);
}

// The run's weights, if it has some that say of which step they are.
std::optional<SafeTensors> last_weights(const std::filesystem::path& run) {
  const std::filesystem::path file = run / "model.safetensors";
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return {};
  SafeTensors weights = load_safetensors(file.string());
  if (!step_of_weights(weights)) return {};
  return weights;
}

}  // namespace

std::optional<WeightDifference> first_difference(const SafeTensors& a, const SafeTensors& b) {
  check<IoError>(a.tensors.size() == b.tensors.size(), a.path, "has ", a.tensors.size(),
                 " tensors, ", b.path, " ", b.tensors.size());
  for (const auto& [name, x] : a.tensors) {
    const Tensor y = b.find(name);
    check<IoError>(y.defined() && x.shape() == y.shape() && x.dtype() == y.dtype(), a.path, "has ",
                   name, " ", x.dtype(), " ", x.shape(), ", ", b.path, " has not");
    const auto difference = x.dtype() == float32   ? difference_of<float>(name, x, y)
                            : x.dtype() == float64 ? difference_of<double>(name, x, y)
                            : x.dtype() == int64   ? difference_of<std::int64_t>(name, x, y)
                                                   : std::nullopt;
    if (difference) return difference;
  }
  return {};
}

RunsDifference compare_weights(const std::filesystem::path& run_a,
                               const std::filesystem::path& run_b) {
  RunsDifference d;
  const auto compare = [&](std::int64_t step, const SafeTensors& a, const SafeTensors& b) {
    if (d.steps.empty() || d.steps.back() != step) d.steps.push_back(step);
    d.first = first_difference(a, b);
  };
  const auto b_files = checkpoints_by_step(run_b);
  for (const auto& [step, file] : checkpoints_by_step(run_a)) {
    const auto other = b_files.find(step);
    if (other == b_files.end()) continue;
    compare(step, load_safetensors(file.string()), load_safetensors(other->second.string()));
    if (d.first) return d;
  }
  const auto a = last_weights(run_a), b = last_weights(run_b);
  if (a && b && step_of_weights(*a) == step_of_weights(*b)) compare(*step_of_weights(*a), *a, *b);
  return d;
}

}  // namespace heed::nn
