// heed gradcheck --mutants: is the checker any good?
#include <algorithm>

#include "autograd/check/mutants.h"
#include "tools/heed/gradcheck/gradcheck_report.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"

namespace heed {

using autograd::MutantFate;

namespace {

nn::Json mutant_list(const std::vector<autograd::MutantResult>& mutants) {
  nn::Json list = nn::Json::array();
  for (const auto& m : mutants) {
    nn::Json mutant = nn::Json::object({{"op", m.op}, {"input", m.input}, {"mutation", m.kind}});
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

int report_mutants(const GradcheckRequest& request) {
  std::int64_t killed = 0;
  std::vector<autograd::MutantResult> equivalent, survivors;
  Progress progress(false);
  for (const autograd::Check* check : chosen_checks(request.ops)) {
    progress.at_work(fmt::format("mutants of {}", check->name()));
    for (const autograd::MutantResult& m : run_mutants(*check)) {
      killed += m.fate == MutantFate::kKilled;
      if (m.fate == MutantFate::kEquivalent) equivalent.push_back(m);
      if (m.fate == MutantFate::kSurvived) survivors.push_back(m);
    }
  }
  progress.clear();
  const std::int64_t mutants = killed + std::ssize(survivors);
  if (request.json) {
    print_json(nn::Json::object({{"mutants", mutants},
                                 {"killed", killed},
                                 {"equivalent", equivalent.size()},
                                 {"survivors", mutant_list(survivors)},
                                 {"equivalents", mutant_list(equivalent)}}));
  } else {
    for (const auto& m : equivalent)
      print("equivalent {}, input {}: {} changes {} gradients by {:.0e} at most\n", m.op, m.input,
            m.kind, m.compared, m.largest_change);
    for (const auto& m : survivors)
      print("SURVIVED {}, input {}: gradient {}, seen by {}\n", m.op, m.input, m.kind, m.survived);
    print("{} of {} mutants killed by each oracle alone; {} more are equivalent\n", killed, mutants,
          equivalent.size());
  }
  if (mutants == 0) print_error("gradcheck: no mutant ran; that proves nothing");
  return mutants > 0 && survivors.empty() ? kOk : kCheckFailed;
}

}  // namespace heed
