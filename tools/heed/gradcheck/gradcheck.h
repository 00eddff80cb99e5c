// The command `heed gradcheck`: its options, and the function that makes the report of each mode.
#pragma once

#include <deque>
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
  std::vector<std::string> layouts;             ///< names of memory layouts; empty: all
  std::string junit;                            ///< JUnit file to write; empty: none
  std::string curve;                            ///< PNG file that report_curves() writes
  bool mutants = false;                         ///< true: the mode of report_mutants()
  std::string run;                              ///< run directory for report_run_gradcheck()
  std::string weights = nn::RunFolder::kState;  ///< weights file of this run
  std::int64_t seconds = 5;  ///< time limit of report_run_gradcheck(), in seconds

  /// Returns the options of the checker: order, oracles and seed.
  autograd::GradcheckOptions options() const;
};

/// Returns the checks with these names, or all checks if `names` is empty. Throws UsageError if a
/// name is not registered.
std::vector<const autograd::Check*> chosen_checks(const std::vector<std::string>& names);
/// Returns the name of a layout for --layouts, such as "stride0".
std::string setting_name(autograd::CheckLayout layout);
/// Formats a number of digits for a table, rounded down: "15.6" or "nan".
std::string digits_text(double digits);

/// The results of all checks. The container is a deque, because pointers to its elements must stay
/// valid when elements are added.
using CheckResults = std::deque<autograd::CheckResult>;
/// Returns what each oracle found at one order (1: gradients, 2: gradients of gradients), one line
/// per finding, and the command that repeats the check.
std::string findings_text(const autograd::CheckResult& r, int order,
                          const GradcheckRequest& request);
/// Returns one test suite as XML 1.0 in UTF-8, with a test case for each sample, layout and order.
/// Control characters that XML forbids, and bytes that are not UTF-8, are replaced by U+FFFD.
std::string junit_xml(const CheckResults& results, double seconds, const GradcheckRequest& request);

/// Runs the checks. The report contains a table of the number of digits to which engine and oracle
/// agree. For each failure it contains the sample, the layout, the worst entry of each oracle and
/// the command that repeats the check. If request.junit is not empty, writes that file. The exit
/// code is 1 if a check failed or none ran. Throws UsageError if a name is not registered, and
/// IoError if the file cannot be written.
Report report_gradchecks(const GradcheckRequest& request);
/// Tests the checker. A mutant is an op in which the gradient of one input is made wrong by one
/// mutation. Checks every mutant of the requested ops. If an oracle accepts a mutant, the report
/// names the mutant. The exit code is 1 if an oracle accepts a mutant or if the ops have none.
/// Throws UsageError if a name is not registered.
Report report_mutants(const GradcheckRequest& request);
/// Draws the error of central differences against the step size, for 1 to 8 ops. Throws UsageError
/// for another number of ops, a name that is not registered, an op without samples, or a file that
/// is not a .png. Throws IoError if the picture cannot be written.
Report report_curves(const GradcheckRequest& request);
/// Checks the gradient of a trained model's loss with respect to each parameter tensor, in float64,
/// on two sequences of the model's task. If the model is float32 and the time limit allows it, also
/// compares loss and gradients in float32 with those in float64. If a gradient is wrong, the report
/// names the tensor and the exit code is 1. Throws NumericError if a parameter is not finite.
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
inline constexpr Column kMutantKeys[] = {
    {"mutants"}, {"killed"}, {"equivalent"}, {"survivors"}, {"equivalents"}};
inline constexpr Column kStepColumns[] = {{"step"}, {"error"}, {"error_of_six_points"}};
inline constexpr Column kCurveColumns[] = {{"name"}, {"sample"}, rows("steps", kStepColumns)};
inline constexpr Column kCurveKeys[] = {rows("curves", kCurveColumns), {"seed"}, {"file"}};
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
