// The checker kills every wrong twin of every op: a check that could pass on a wrong gradient is a
// defect.
#include "autograd/check/mutants.h"

#include "tests/support/catch.h"

using namespace heed::autograd;

TEST_CASE("no mutant of any op survives its gradient check") {
  int mutants = 0;
  for (const Check* check : registered_checks())
    for (const MutantResult& m : run_mutants(*check)) {
      ++mutants;
      INFO(m.op << ": " << m.mutation);
      CHECK(m.killed);
    }
  CHECK(mutants > 150);
}
