// The command `heed gradcheck`: its options, and the function that returns the result of each mode.
#pragma once

#include <string>
#include <vector>

#include "autograd/check/gradcheck.h"
#include "nn/io/enum_names.h"
#include "nn/lab/run/run_folder.h"
#include "tools/heed/report/out.h"

namespace heed {

/// Value of --oracle.
enum class OracleChoice { kDifferences, kDual, kBoth };

/// Options of the command line.
struct GradcheckRequest {
  std::vector<std::string> ops;  ///< names of ops and layers; empty: all that are registered
  Index order = 2;               ///< 1: gradients; 2: also gradients of gradients
  OracleChoice oracle = OracleChoice::kBoth;
  std::int64_t seed = 1;                         ///< seed of random cotangents and directions
  std::string run;                               ///< run directory for report_run_gradcheck()
  std::string weights = lab::RunFolder::kState;  ///< weights file of this run

  /// Returns the options of the checker: order, oracles and seed.
  autograd::GradcheckOptions options() const;
};

/// Formats a number of digits for a table, rounded down: "15.6" or "nan".
std::string digits_text(double digits);

/// Runs the checks. The result contains a table of the number of digits to which engine and oracle
/// agree. For each failure it contains the sample, the layout, the worst entry of each oracle and
/// the command that repeats the check. The exit code is 1 if a check failed or none ran. Throws
/// UsageError if a name is not registered.
Out report_gradchecks(const GradcheckRequest& request);
/// Checks the gradient of a trained model's loss with respect to each parameter tensor, in float64,
/// on two sequences of the model's task. If the model is float32 and small enough, also compares
/// loss and gradients in float32 with those in float64. If a gradient is wrong, the result names
/// the tensor and the exit code is 1. Throws NumericError if a parameter is not finite.
Out report_run_gradcheck(const GradcheckRequest& request);

}  // namespace heed

template <>
inline constexpr auto heed::nn::kEnumNames<heed::OracleChoice> = std::to_array({"fd", "dual",
                                                                                "both"});
