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
  bool mutants = false;
};

std::vector<std::string> layout_names() {
  std::vector<std::string> names;
  for (const CheckLayout layout : autograd::kAllLayouts) names.push_back(setting_name(layout));
  return names;
}

void complete(GradcheckArguments& a) {
  GradcheckRequest& r = a.request;
  r.differences = a.oracle != OracleChoice::kDual;
  r.dual = a.oracle != OracleChoice::kDifferences;
  for (const CheckLayout layout : autograd::kAllLayouts)
    if (std::count(a.layouts.begin(), a.layouts.end(), setting_name(layout)) > 0)
      r.layouts.push_back(layout);
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
         {"mutants", a->mutants,
          "check the checker: every op with its gradient made wrong must fail"},
         {"run", request.run, "DIR", "check the loss of this run's model in each parameter tensor"},
         {"seconds",
          request.seconds,
          {1, 86400},
          "to spend on --run, and a round of all tensors at least"}});
  c.add_common(Command::kAll | Command::kCsv);
  const auto with = [a](Report (*report)(const GradcheckRequest&)) {
    return [a, report](const Command&) {
      complete(*a);
      return report(a->request);
    };
  };
  c.modes = {{.key = "run",
              .accepts = c.only({"order", "oracle", "seed", "seconds"}),
              .result = kRunGradcheckKeys,
              .run = with(report_run_gradcheck)},
             {.key = "mutants",
              .accepts = c.only({"op"}),
              .result = kMutantKeys,
              .run = with(report_mutants)},
             {.key = "curve",
              .accepts = c.only({"op", "seed"}),
              .result = kCurveKeys,
              .run = with(report_curves)},
             {.accepts = c.all_but({"seconds"}),
              .result = kGradcheckKeys,
              .run = with(report_gradchecks)}};
}

}  // namespace heed
