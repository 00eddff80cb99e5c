// Mutants: wrong twins of every op's derivative, each of which a gradient check has to kill.
#pragma once

#include <string_view>
#include <vector>

#include "autograd/graph/check_registry.h"

namespace heed::autograd {

/// One way to be wrong, tried on one op.
struct MutantResult {
  std::string_view op;
  std::string_view mutation;
  bool killed = false;
};
/// For every registered op, each of: opposite sign, doubled, zero, first entry dropped, last axis
/// shifted by one. Killed if a contiguous sample of the op then fails its check at order 1. A
/// mutation that changes no gradient of any sample is left out.
std::vector<MutantResult> run_mutants(const Check& check);

}  // namespace heed::autograd
