#include "nn/lab/train/checks/causality.h"

#include <algorithm>
#include <cmath>

#include "autograd/engine/engine.h"

namespace heed::lab {

using namespace autograd;

Tensor reach(const std::function<Tensor(const Tensor&)>& f, const Tensor& x,
             const Tensor& outputs) {
  const Index count = outputs.size(0), length = x.size(1);
  Shape copies = x.shape();
  copies[0] = count;
  const GradMode recording(true);
  const Tensor inputs = contiguous(expand(x.detach(), copies)).detach().requires_grad_();
  const Tensor y = f(inputs);
  check(y.rank() >= 2 && y.size(0) == count && y.size(1) == length, "causality", "f needs to map ",
        inputs.shape(), " to [", count, ", ", length, ", ...], got ", y.shape());
  if (!y.requires_grad()) return zeros({count, length}, float64);
  // Each output is computed on a separate copy of x, so that one backward pass is enough.
  Shape own{count, length};
  for (int a = 2; a < y.rank(); ++a) own.push_back(1);
  const Tensor here = reshape(eq(unsqueeze(outputs, 1), arange(length)), own);
  Generator random(1);
  const Tensor dy = masked_fill(randn(y.shape(), y.dtype(), random), logical_not(here), 0);
  const Tensor dx = grad(y, inputs, {.grad_output = dy, .allow_unused = true});
  return max(abs(reshape(to(dx, float64), {count, length, -1})), {2});
}

std::vector<Leak> spot_leaks(const Transformer& model, std::int64_t seed) {
  const Index length = std::min<Index>(model.options.context, 32);
  if (length < 2) return {};
  Generator random{std::uint64_t(seed)};
  const Tensor ids = randint(0, model.options.vocab, {1, length}, random);
  // The last output may depend on every input, so it is not tested.
  const Index spots = std::min<Index>(3, length - 1);
  const Tensor outputs = contiguous(slice(randperm(length - 1, random), 0, 0, spots));
  const auto derivatives = reach([&](const Tensor& e) { return model.forward_embedded(e); },
                                 model.tok(ids).detach(), outputs)
                               .to_vector<double>();
  std::vector<Leak> leaks;
  for (Index i = 0; i < spots; ++i) {
    const std::int64_t output = outputs.to_vector<std::int64_t>()[std::size_t(i)];
    for (Index s = output + 1; s < length; ++s)
      if (const double value = derivatives[std::size_t(i * length + s)]; std::abs(value) > 0)
        leaks.push_back({output, s, value});
  }
  return leaks;
}

}  // namespace heed::lab
