// Tests that each oracle alone rejects every mutant of every op. A check that accepts a wrong
// gradient has a defect.
#include "autograd/check/mutants.h"

#include "autograd/autograd.h"
#include "autograd/check/mutations.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;

TEST_CASE("no mutant of any op survives either oracle") {
  if (skips(kSanitized, "takes minutes with a sanitizer")) return;
  int killed = 0;
  std::map<std::string_view, std::set<std::string_view>> killed_by_mutation;
  for (const Check* check : registered_checks())
    for (const MutantResult& m : run_mutants(*check)) {
      INFO(m.op << ", input " << m.input << ": " << m.mutation << "; " << m.survived);
      CHECK(m.fate != MutantFate::kSurvived);
      CHECK((m.fate == MutantFate::kEquivalent ? m.largest_change <= 0x1p-43 : m.compared > 0));
      if (m.fate != MutantFate::kKilled) continue;
      ++killed;
      killed_by_mutation[m.mutation].insert(m.op);
    }
  CHECK(killed >= 400);
  CHECK(mutations().size() >= 12);
  for (const Mutation& m : mutations()) {
    INFO(m.name);
    CHECK(!killed_by_mutation[m.name].empty());
  }
}

// Returns true if gradcheck accepts f after the gradient of softmax is multiplied by `factor`.
bool passes(double factor, const DifferentiableFunction& f, const GradcheckOptions& options) {
  const MutateGradients guard([&](const Op& op, std::size_t, const Tensor& g, const Shape&) {
    return op.name() == "softmax" ? g * factor : g;
  });
  Generator random(4);
  return gradcheck(f, std::vector<Tensor>{randn({3, 4}, float64, random)}, options).ok();
}

TEST_CASE("a wrong softmax fails, but passes if its outputs are summed") {
  const auto right = [](Args t) { return softmax(t[0], -1); };
  // Here the cotangent is 1 everywhere. Each row sums to 1, so the right gradient is 0.
  const auto summed = [](Args t) { return sum(softmax(t[0], -1)); };
  for (const Oracle oracle : kAllOracles) {
    const GradcheckOptions options{.use_differences = oracle == Oracle::kDifferences,
                                   .use_dual = oracle == Oracle::kDual};
    CHECK(passes(1, right, options));
    CHECK(!passes(-7, right, options));
    CHECK(passes(-7, summed, options));
  }
}

}  // namespace
