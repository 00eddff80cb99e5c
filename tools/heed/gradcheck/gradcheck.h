// heed gradcheck: what is asked for, and the report of each mode.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "autograd/check/gradcheck.h"
#include "nn/io/enum_names.h"
#include "tools/heed/report/report.h"

namespace heed {

enum class OracleChoice { kDifferences, kDual, kBoth };

struct GradcheckRequest {
  std::vector<std::string> ops;  ///< names of checks; empty: all that are registered
  std::int64_t order = 2;        ///< 1: gradients; 2: gradients of gradients too
  OracleChoice oracle = OracleChoice::kBoth;
  std::int64_t seed = 1;             ///< of cotangents and directions
  std::vector<std::string> layouts;  ///< names of memory layouts; empty: all
  std::string junit;                 ///< a JUnit file to write; empty: none
  std::string curve;                 ///< of report_curves(): the picture to draw
  bool mutants = false;              ///< report_mutants()
  std::string run;                   ///< of report_run_gradcheck(): the run directory
  std::int64_t seconds = 5;          ///< to spend on that

  /// Order, oracles and seed.
  autograd::GradcheckOptions options() const;
};

/// The checks of these names, all if there are none. UsageError on a name that is not registered.
std::vector<const autograd::Check*> chosen_checks(const std::vector<std::string>& names);
/// The name of a layout as --layouts has it: "stride0".
std::string setting_name(autograd::CheckLayout layout);
/// Digits for a table, rounded down: "15.6", "nan".
std::string digits_text(double digits);

/// The results of all checks. Their addresses stay.
using CheckResults = std::deque<autograd::CheckResult>;
/// The findings of the oracles at one order, each in a line, and the command that repeats them.
std::string findings_text(const autograd::CheckResult& r, int order,
                          const GradcheckRequest& request);
/// One test suite as XML 1.0 in UTF-8: a case for each sample, layout and order. What XML cannot
/// hold, control characters and bytes that are not UTF-8, becomes U+FFFD.
std::string junit_xml(const CheckResults& results, double seconds, const GradcheckRequest& request);

/// Runs the checks: a table of the digits that agree, and each failure with sample, layout, each
/// oracle's worst entry and the command that repeats it. Writes `junit`: a case for each check,
/// sample, layout and order. Exits with 1 if one failed or none ran. UsageError on a name that is
/// not registered; IoError.
Report report_gradchecks(const GradcheckRequest& request);
/// Every registered op with the gradient of one input made wrong in one way. Exits with 1, naming
/// them, if an oracle lets one live.
Report report_mutants(const GradcheckRequest& request);
/// Draws the error of central differences against their step, of 1 to 8 ops. UsageError for another
/// number of ops; IoError.
Report report_curves(const GradcheckRequest& request);
/// The loss of a trained model on two sequences of its task, in float64, in each of its parameter
/// tensors. Exits with 1, naming them, if one is wrong.
Report report_run_gradcheck(const GradcheckRequest& request);

// What each of these sets.
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
struct heed::nn::EnumNames<heed::OracleChoice> {
  static constexpr std::pair<heed::OracleChoice, const char*> kTable[] = {
      {heed::OracleChoice::kDifferences, "fd"},
      {heed::OracleChoice::kDual, "dual"},
      {heed::OracleChoice::kBoth, "both"}};
};
