// The command `heed gradcheck`: checks derivatives with finite differences and dual numbers.
#include "tools/heed/commands.h"
#include "tools/heed/gradcheck/gradcheck.h"

namespace heed {

void gradcheck_command(Command& c) {
  c.name = "gradcheck", c.what = "check the derivative of every op and layer";
  c.examples =
      "  heed gradcheck\n"
      "  heed gradcheck --run runs/first\n"
      "  heed gradcheck softmax matmul --order 1 --oracle dual\n"
      "  heed gradcheck --mutants\n"
      "  heed gradcheck --layouts transposed,stride0 --json\n"
      "  heed gradcheck softmax --junit softmax.xml\n"
      "  heed gradcheck softmax --curve softmax.png";
  c.notes =
      "Compares derivatives with differences and with dual numbers. The guide\n"
      "autograd/check/YOUR_GRADIENT.md shows how to check a function of your own.";
  auto r = std::make_shared<GradcheckRequest>();
  std::vector<std::string> layouts;
  for (const autograd::CheckLayout layout : autograd::kAllLayouts)
    layouts.push_back(setting_name(layout));
  c.arguments = 1;
  c.add("Options",
        {nn::Setting("op", r->ops, {}, "names of ops or layers").shows("all"),
         {"order", r->order, {1, 2}, "1: gradients; 2: gradients of gradients too"},
         {"seed", r->seed, {0, 0xffffffff}, "seed of the random cotangents and directions"},
         {"oracle", r->oracle, "four-point differences (fd) or dual numbers"},
         nn::Setting("layouts", r->layouts, layouts, "memory layouts, separated by commas")
             .shows("all"),
         {"junit", r->junit, "FILE", "also write the results as JUnit XML"},
         {"curve", r->curve, "FILE.png", "draw the error of differences against their step"},
         {"mutants", r->mutants, "test the checker: each op with a wrong gradient must fail"},
         {"run", r->run, "DIR", "check the gradient of this run's loss in each parameter tensor"},
         {"weights", r->weights, "FILE", "weights file in the directory of --run"},
         {"seconds",
          r->seconds,
          {1, 86400},
          "time limit of --run; one round of all tensors always runs"}});
  c.add_common(Command::kAll | Command::kCsv);
  const auto mode = [&](std::string key, std::vector<std::string> accepts, Columns keys,
                        Report (*report)(const GradcheckRequest&)) {
    c.modes.push_back({.key = std::move(key),
                       .accepts = std::move(accepts),
                       .result = keys,
                       .run = [r, report](const Command&) { return report(*r); }});
  };
  mode("run", c.only({"order", "oracle", "seed", "seconds", "weights"}), kRunGradcheckKeys,
       report_run_gradcheck);
  mode("mutants", c.only({"op"}), kMutantKeys, report_mutants);
  mode("curve", c.only({"op", "seed"}), kCurveKeys, report_curves);
  mode("", c.all_but({"seconds", "weights"}), kGradcheckKeys, report_gradchecks);
}

}  // namespace heed
