#include "autograd/check/mutants.h"

#include "autograd/check/gradcheck.h"
#include "autograd/graph/mutation.h"
#include "autograd/ops/ops.h"

namespace heed::autograd {
namespace {

Tensor without_first(const Tensor& g) {
  Tensor keep = full(g.shape(), 1, bool8);
  if (g.numel() > 0) *keep.mutable_data<bool>() = false;
  return masked_fill(g, logical_not(keep), 0);
}

Tensor shifted(const Tensor& g) {
  if (g.rank() == 0 || g.size(-1) < 2) return g;
  return cat({slice(g, -1, 1, g.size(-1)), slice(g, -1, 0, 1)}, -1);
}

struct Mutant {
  std::string_view name;
  Tensor (*apply)(const Tensor&);
};
constexpr Mutant kMutants[] = {{"opposite sign", [](const Tensor& g) { return -g; }},
                               {"doubled", [](const Tensor& g) { return g * 2.0; }},
                               {"zero", [](const Tensor& g) { return g * 0.0; }},
                               {"first entry dropped", without_first},
                               {"last axis shifted", shifted}};

bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && all(eq(a, b)).item() != 0;
}

}  // namespace

std::vector<MutantResult> run_mutants(const Check& check) {
  std::vector<MutantResult> results;
  for (const Mutant& mutant : kMutants) {
    bool changed = false, killed = false;
    {
      const MutateGradients guard([&](const Op& op, std::size_t, const Tensor& g) {
        if (op.name() != check.name()) return g;
        Tensor wrong = mutant.apply(g);
        changed = changed || !same(wrong, g);
        return wrong;
      });
      constexpr CheckLayout kContiguous[] = {CheckLayout::kContiguous};
      for (const CheckResult& r : run_check(check, {.use_differences = false}, kContiguous))
        killed = killed || (r.skipped.empty() && !r.report.ok);
    }
    if (changed) results.push_back({check.name(), mutant.name, killed});
  }
  return results;
}

}  // namespace heed::autograd
