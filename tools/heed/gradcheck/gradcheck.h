// The command `heed gradcheck`: its options, and the function that makes the report of each mode.
#pragma once

#include <string>
#include <vector>

#include "autograd/check/gradcheck.h"
#include "nn/io/enum_names.h"
#include "nn/run/run_folder.h"
#include "tools/heed/report/report.h"

namespace heed {

/// Value of --oracle.
enum class OracleChoice { kDifferences, kDual, kBoth };

/// Options of the command line.
struct GradcheckRequest {
  std::vector<std::string> ops;  ///< names of ops and layers; empty: all that are registered
  std::int64_t order = 2;        ///< 1: gradients; 2: also gradients of gradients
  OracleChoice oracle = OracleChoice::kBoth;
  std::int64_t seed = 1;                        ///< seed of random cotangents and directions
  std::string run;                              ///< run directory for report_run_gradcheck()
  std::string weights = nn::RunFolder::kState;  ///< weights file of this run

  /// Returns the options of the checker: order, oracles and seed.
  autograd::GradcheckOptions options() const;
};

/// Formats a number of digits for a table, rounded down: "15.6" or "nan".
std::string digits_text(double digits);

/// Runs the checks. The report contains a table of the number of digits to which engine and oracle
/// agree. For each failure it contains the sample, the layout, the worst entry of each oracle and
/// the command that repeats the check. The exit code is 1 if a check failed or none ran. Throws
/// UsageError if a name is not registered.
Report report_gradchecks(const GradcheckRequest& request);
/// Checks the gradient of a trained model's loss with respect to each parameter tensor, in float64,
/// on two sequences of the model's task. If the model is float32 and small enough, also compares
/// loss and gradients in float32 with those in float64. If a gradient is wrong, the report names
/// the tensor and the exit code is 1. Throws NumericError if a parameter is not finite.
Report report_run_gradcheck(const GradcheckRequest& request);

// ---- keys and columns of the reports
inline constexpr Column kWorstKeys[] = {{"name"}, {"order"}, {"error"}};
inline constexpr Column kCheckColumns[] = {{"name", "digits that agree"},
                                           {"checked", "checks"},
                                           {"failed"},
                                           {"skipped"},
                                           {"error_order_1"},
                                           {"error_order_2"},
                                           {"kinks_moved"},
                                           {"differences"},
                                           {"dual"},
                                           {"", "entries"},
                                           {"", "dual 1"},
                                           {"", "diff 1"},
                                           {"", "dual 2"},
                                           {"", "diff 2"},
                                           {"", "failed"}};
inline constexpr Column kGradcheckKeys[] = {
    {"checked"}, {"failed"},  {"ops"},  fields("worst", kWorstKeys),
    {"skipped"}, {"seconds"}, {"seed"}, rows("rows", kCheckColumns),
    {"failures"}};
inline constexpr Column kFloat32Keys[] = {
    {"ok"}, {"target"}, {"entries"}, {"error_of_bound"}, {"message"}};
inline constexpr Column kCheckedTensorColumns[] = {{"name", "loss of 2 sequences, float64"},
                                                   {"parameters", "parameters", "", "commas"},
                                                   {"entries", "entries"},
                                                   {"", "dual"},
                                                   {"", "diff"},
                                                   {"digits_dual"},
                                                   {"digits_differences"},
                                                   {"message"},
                                                   {"", "failed"}};
inline constexpr Column kRunGradcheckKeys[] = {{"run"},
                                               {"parameters"},
                                               {"failed"},
                                               {"error"},
                                               {"message"},
                                               {"entries"},
                                               {"seconds"},
                                               fields("float32", kFloat32Keys),
                                               rows("tensors", kCheckedTensorColumns)};

}  // namespace heed

template <>
inline constexpr auto heed::nn::kEnumNames<heed::OracleChoice> = std::to_array({"fd", "dual",
                                                                                "both"});
