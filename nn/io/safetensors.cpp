// Functions for loaded safetensors files: they find and compare tensors, and copy tensors into
// parameters. safetensors_read.cpp and safetensors_write.cpp read and write files.
#include "nn/io/safetensors.h"

#include <algorithm>
#include <span>
#include <unordered_map>

#include "autograd/base/error.h"
#include "autograd/base/text.h"
#include "autograd/graph/graph.h"
#include "autograd/graph/inplace.h"
#include "autograd/ops/ops.h"
#include "nn/io/nearest.h"
#include "nn/io/safetensors_format.h"

namespace heed::nn {

using namespace autograd;

Tensor SafeTensors::find(std::string_view name) const {
  for (const NamedTensor& t : tensors)
    if (t.name == name) return t.tensor;
  return {};
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const Tensor x = contiguous(a.detach()), y = contiguous(b.detach());
  const auto count = std::size_t(x.numel());
  return dispatch_any(a.dtype(), [&]<class T>() {
    return std::ranges::equal(std::as_bytes(std::span(x.data<T>(), count)),
                              std::as_bytes(std::span(y.data<T>(), count)));
  });
}

void load_parameters(const std::vector<NamedTensor>& into, const SafeTensors& file) {
  constexpr std::size_t kShown = 5;  // largest number of tensors listed per problem
  std::unordered_map<std::string_view, const Tensor*> found;
  for (const NamedTensor& t : file.tensors) found[t.name] = &t.tensor;
  std::vector<const Tensor*> sources;  // source in the file of each tensor in `into`
  std::vector<std::string> names, missing, unexpected, different;
  for (const auto& [name, p] : into) {
    names.push_back(name);
    const auto match = found.find(name);
    TextStream text;
    if (match == found.end()) {
      text << name << " " << p.shape();
      missing.push_back(text.str());
      continue;
    }
    const Tensor& x = *match->second;
    if (x.shape() != p.shape() || x.dtype() != p.dtype()) {
      text << name << " is " << x.dtype() << " " << x.shape() << " in the file, needs " << p.dtype()
           << " " << p.shape();
      different.push_back(text.str());
    }
    sources.push_back(&x);
    found.erase(match);
  }
  for (const NamedTensor& t : file.tensors) {
    if (!found.count(t.name)) continue;
    std::string text = safetensors::quoted(t.name);
    if (unexpected.size() < kShown && !names.empty() && t.name.size() <= 200)
      text += " (nearest: " + nearest(t.name, names) + ")";
    unexpected.push_back(text);
  }

  std::string problems;
  const auto report = [&](const char* what, const std::vector<std::string>& list) {
    if (list.empty()) return;
    problems += std::string(problems.empty() ? "" : "; ") + what;
    for (std::size_t i = 0; i < std::min(list.size(), kShown); ++i)
      problems += (i ? ", " : " ") + list[i];
    if (list.size() > kShown) problems += " and " + std::to_string(list.size() - kShown) + " more";
  };
  report("missing", missing);
  report("unexpected", unexpected);
  report("different:", different);
  check<IoError>(problems.empty(), "load_parameters", file.path, " does not fit: ", problems,
                 "; use a file with all tensors of this model");

  const NoGrad guard;
  for (std::size_t i = 0; i < into.size(); ++i) copy_(into[i].tensor, *sources[i]);
}

}  // namespace heed::nn
