// The gradient checks as a report: every registered op and layer, every layout, both orders.
#pragma once

#include <string>
#include <vector>

#include "autograd/gradcheck.h"

namespace heed {

struct GradcheckRequest {
  std::vector<std::string> ops;                ///< names of checks; empty: all that are registered
  int order = 2;                               ///< 1: gradients; 2: gradients of gradients too
  bool differences = true, dual = true;        ///< which oracles
  std::vector<autograd::CheckLayout> layouts;  ///< empty: all
  bool json = false;
};

/// Runs the checks and prints, to stdout, a table of their errors, or with `json` one object; each
/// failure with sample, layout and worst entry. Returns kOk, or kCheckFailed if one failed or none
/// ran. UsageError on a name that is not registered.
int report_gradchecks(const GradcheckRequest& request);

}  // namespace heed
