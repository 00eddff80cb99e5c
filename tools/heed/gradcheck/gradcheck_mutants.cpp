// `heed gradcheck --mutants`: tests the checker itself with wrong gradients.
#include <algorithm>

#include "autograd/check/mutants.h"
#include "tools/heed/gradcheck/gradcheck.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"

namespace heed {

using autograd::MutantFate;

namespace {

Value mutant_list(const std::vector<autograd::MutantResult>& mutants) {
  Value list = Value::array();
  for (const auto& m : mutants) {
    Value mutant = Value::object({{"op", m.op}, {"input", m.input}, {"mutation", m.mutation}});
    if (m.fate == MutantFate::kSurvived) mutant.append("oracle", m.survived);
    if (m.fate == MutantFate::kEquivalent) {
      mutant.append("gradients", m.compared);
      mutant.append("largest_change", m.largest_change);
    }
    list.push_back(mutant);
  }
  return list;
}

}  // namespace

Report report_mutants(const GradcheckRequest& request) {
  std::int64_t killed = 0;
  std::vector<autograd::MutantResult> equivalent, survivors;
  Progress progress(false);
  for (const autograd::Check* check : chosen_checks(request.ops)) {
    progress.at_work(fmt::format("Checking mutants of {}", check->name()));
    for (const autograd::MutantResult& m : run_mutants(*check)) {
      killed += m.fate == MutantFate::kKilled;
      if (m.fate == MutantFate::kEquivalent) equivalent.push_back(m);
      if (m.fate == MutantFate::kSurvived) survivors.push_back(m);
    }
  }
  const std::int64_t mutants = killed + std::ssize(survivors);
  Report report(kMutantKeys);
  report.set("mutants", mutants);
  report.set("killed", killed);
  report.set("equivalent", equivalent.size());
  report.set("survivors", mutant_list(survivors));
  report.set("equivalents", mutant_list(equivalent));
  for (const auto& m : equivalent)
    report.line("equivalent: {}, input {}: '{}' changes {} gradients by at most {:.0e}", m.op,
                m.input, m.mutation, m.compared, m.largest_change);
  for (const auto& m : survivors)
    report.line("SURVIVED: {}, input {}: '{}' is not detected by {}", m.op, m.input, m.mutation,
                m.survived);
  report.line("{} of {} mutants rejected by each oracle alone; {} more are equivalent", killed,
              mutants, equivalent.size());
  if (mutants == 0)
    report.fail(kCheckFailed, "gradcheck: no mutant ran, so nothing is proven; choose other ops");
  else if (!survivors.empty())
    report.fail(kCheckFailed);
  return report;
}

}  // namespace heed
