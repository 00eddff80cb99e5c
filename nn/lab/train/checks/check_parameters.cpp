#include "nn/lab/train/checks/check_parameters.h"

#include <chrono>

#include "autograd/kernels/simd/simd.h"
#include "autograd/ops/ops.h"

namespace heed::lab {
namespace {

using autograd::Oracle;

// Adds the result `report` of one check to the record `p` of a parameter.
void take(CheckedParameter& p, const autograd::CheckReport& report,
          const autograd::GradcheckOptions& how) {
  for (const Oracle oracle : autograd::kAllOracles) {
    if ((oracle == Oracle::kDual ? how.dual_entries : how.difference_entries) == 0) continue;
    double fewest = p.digits[int(oracle)].value_or(16);
    for (int order = 1; order <= report.order; ++order) {
      const autograd::OracleReport& found = report.by(order, oracle);
      if (order == 1) p.entries += found.checked;
      for (const autograd::CheckedEntry* e : {&found.worst, &found.direction})
        if (!(e->digits() >= fewest)) fewest = e->digits();
    }
    p.digits[int(oracle)] = fewest;
  }
  if (!report.ok() && p.failure.empty()) p.failure = report.message;
}

}  // namespace

autograd::DifferentiableFunction loss_of_parameters(const Transformer& model, const Batch& batch) {
  Transformer::Options options = model.options;
  options.attention.dropout = 0;
  return [options, batch](autograd::Args values) {
    const bool single = values[0].dtype() == autograd::float32;
    const auto copy = with_parameters<Transformer>(
        options, single ? autograd::float32 : autograd::float64, {values.begin(), values.end()});
    return cross_entropy(copy.forward(batch.inputs), batch.targets);
  };
}

std::vector<CheckedParameter> check_parameters(const Transformer& model, const Batch& batch,
                                               autograd::GradcheckOptions how, double seconds,
                                               const ProgressCallback& progress) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  const autograd::DifferentiableFunction loss = loss_of_parameters(model, batch);
  const std::vector<Tensor> values = values_in_float64(model);
  std::vector<CheckedParameter> checked;
  for (const NamedTensor& p : parameters(model)) checked.push_back({p.name, p.tensor.numel()});
  const std::uint64_t seed = how.seed;
  for (Index* entries : {&how.dual_entries, &how.difference_entries})
    *entries = std::min<Index>(*entries, 1);
  for (std::size_t done = 0; done < values.size() || Clock::now() < end; ++done) {
    if (progress) progress(Index(done), std::ssize(values));
    const std::size_t i = done % values.size();
    const auto loss_of_one = [&](autograd::Args t) {
      std::vector<Tensor> all = values;
      all[i] = t[0];
      return loss(all);
    };
    how.seed = seed + done / values.size();
    take(checked[i], gradcheck(loss_of_one, std::vector{values[i]}, how), how);
  }
  return checked;
}

autograd::Float32Report check_float32(const Transformer& model, const Batch& batch) {
  return autograd::check_float32(loss_of_parameters(model, batch), values_in_float64(model),
                                 {autograd::kernels::simd_target()}, 1)[0];
}

std::int64_t float32_check_seconds(const Transformer& model, const Batch& batch) {
  // A product is one parameter times one token.
  constexpr Index kProductsPerSecond = 4'000'000;
  return count_parameters(model) * batch.inputs.numel() / kProductsPerSecond + 1;
}

}  // namespace heed::lab
