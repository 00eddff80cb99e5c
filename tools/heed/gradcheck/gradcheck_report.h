// The gradient checks as a report: every registered op and layer, every layout, both orders.
#pragma once

#include <string>
#include <vector>

#include "autograd/check/gradcheck.h"

namespace heed {

struct GradcheckRequest {
  std::vector<std::string> ops;                ///< names of checks; empty: all that are registered
  std::int64_t order = 2;                      ///< 1: gradients; 2: gradients of gradients too
  bool differences = true, dual = true;        ///< which oracles
  std::int64_t seed = 1;                       ///< of cotangents and directions
  std::vector<autograd::CheckLayout> layouts;  ///< empty: all
  bool json = false;
  std::string junit;         ///< a JUnit file to write; empty: none
  std::string curve;         ///< a picture of differences' errors to draw instead
  bool mutants = false;      ///< check the checker instead
  std::string run;           ///< a run folder: check its model's loss instead
  std::int64_t seconds = 5;  ///< to spend on that
};

/// The checks of these names, all if there are none. UsageError on a name that is not registered.
std::vector<const autograd::Check*> chosen_checks(const std::vector<std::string>& names);
/// The name of a layout as --layouts has it: "stride0".
std::string setting_name(autograd::CheckLayout layout);
/// Digits for a table, rounded down: "15.6", "nan".
std::string digits_text(double digits);

/// Runs the checks and prints, to stdout, a table of the digits that agree, or with `json` one
/// object; each failure with sample, layout, each oracle's worst entry and the command that repeats
/// it. Writes `junit`: a case for each check, sample, layout and order. Returns kOk, or
/// kCheckFailed if one failed or none ran. UsageError on a name that is not registered; IoError.
int report_gradchecks(const GradcheckRequest& request);
/// Every registered op with the gradient of one input made wrong in one way: kCheckFailed, naming
/// them, if an oracle lets one live.
int report_mutants(const GradcheckRequest& request);
/// Draws the error of central differences against their step, of 1 to 8 ops, and prints it.
/// UsageError for another number of ops; IoError.
int report_curves(const GradcheckRequest& request);
/// The loss of a trained model on two sequences of its task, in float64, in each of its parameter
/// tensors: kCheckFailed, naming them, if one is wrong.
int report_run_gradcheck(const GradcheckRequest& request);

}  // namespace heed
