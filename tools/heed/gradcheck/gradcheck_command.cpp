// heed gradcheck: every derivative against finite differences and dual numbers.
#include <algorithm>

#include "tools/heed/commands.h"
#include "tools/heed/gradcheck/gradcheck_report.h"
#include "tools/heed/report/output.h"

namespace heed {

using autograd::CheckLayout;

namespace {

enum class OracleChoice { kDifferences, kDual, kBoth };

struct GradcheckArguments {
  GradcheckRequest request;
  OracleChoice oracle = OracleChoice::kBoth;
  std::vector<std::string> layouts;
};

std::vector<std::string> layout_names() {
  std::vector<std::string> names;
  for (const CheckLayout layout : autograd::kAllLayouts) names.push_back(setting_name(layout));
  return names;
}

void refuse(const Command& command, std::initializer_list<const char*> keys, const char* why) {
  for (const char* key : keys)
    if (command.given(key)) usage_error("{} --{}", why, key);
}

}  // namespace

template <>
struct nn::EnumNames<OracleChoice> {
  static constexpr std::pair<OracleChoice, const char*> kTable[] = {
      {OracleChoice::kDifferences, "fd"},
      {OracleChoice::kDual, "dual"},
      {OracleChoice::kBoth, "both"}};
};

void gradcheck_command(Command& c) {
  c.name = "gradcheck", c.what = "check the derivative of every op and layer";
  c.json_keys[""] =
      "checked failed ops worst (name order error) skipped seconds seed rows failures";
  c.json_keys["--mutants"] = "mutants killed equivalent survivors equivalents";
  c.json_keys["--curve"] = "curves (name sample steps) seed file";
  c.json_keys["--run"] =
      "run parameters failed error message entries seconds "
      "float32 (ok target entries error_of_bound message) "
      "tensors (name parameters entries digits_dual digits_differences message)";
  c.examples =
      "  heed gradcheck\n"
      "  heed gradcheck softmax matmul --order 1 --oracle dual\n"
      "  heed gradcheck --layouts transposed,stride0 --json\n"
      "  heed gradcheck softmax --junit softmax.xml\n"
      "  heed gradcheck softmax --curve softmax.png\n"
      "  heed gradcheck --mutants";
  auto a = std::make_shared<GradcheckArguments>();
  GradcheckRequest& request = a->request;
  c.arguments = 1;
  c.add("Options",
        {nn::Setting("op", request.ops, {}, "names of ops or layers").shows("all"),
         {"order", request.order, {1, 2}, "1: gradients; 2: gradients of gradients too"},
         {"seed", request.seed, {0, 0xffffffff}, "of the random cotangents and directions"},
         {"oracle", a->oracle, "four-point differences (fd) or dual numbers"},
         nn::Setting("layouts", a->layouts, layout_names(), "memory layouts, comma between")
             .shows("all"),
         {"junit", request.junit, "FILE", "write the results as JUnit XML, too"},
         {"curve", request.curve, "FILE.png", "draw the error of differences against their step"},
         {"mutants", request.mutants,
          "check the checker: every op with its gradient made wrong must fail"},
         {"run", request.run, "DIR", "check the loss of this run's model in each parameter tensor"},
         {"seconds",
          request.seconds,
          {1, 86400},
          "to spend on --run, and a round of all tensors at least"}});
  c.add_common(Command::kAll);
  c.run = [a](const Command& command) {
    GradcheckRequest& r = a->request;
    if (!r.run.empty() && command.given("op"))
      usage_error("--run checks the loss of a whole model; leave out --run or '{}'", r.ops[0]);
    if (!r.run.empty())
      refuse(command, {"mutants", "layouts", "junit", "curve"},
             "--run checks the loss of a whole model; leave out --run or");
    else if (command.given("seconds"))
      usage_error("--seconds is the time for --run; add --run or leave out --seconds");
    if (r.mutants)
      refuse(command, {"order", "oracle", "layouts", "seed", "junit", "curve"},
             "--mutants tries each oracle, order and layout where it shows; leave out");
    if (!r.curve.empty())
      refuse(command, {"order", "oracle", "layouts", "junit"},
             "--curve draws differences of the first order; leave out");
    if (!r.curve.empty() && !r.curve.ends_with(".png"))
      usage_error("--curve writes a PNG: needs a FILE.png, got '{}'", r.curve);
    r.json = command.json;
    r.differences = a->oracle != OracleChoice::kDual;
    r.dual = a->oracle != OracleChoice::kDifferences;
    for (const CheckLayout layout : autograd::kAllLayouts)
      if (std::count(a->layouts.begin(), a->layouts.end(), setting_name(layout)) > 0)
        r.layouts.push_back(layout);
    if (r.mutants) return report_mutants(r);
    if (!r.curve.empty()) return report_curves(r);
    return r.run.empty() ? report_gradchecks(r) : report_run_gradcheck(r);
  };
}

}  // namespace heed
