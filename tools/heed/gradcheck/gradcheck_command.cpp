// The command `heed gradcheck`: checks derivatives with finite differences and dual numbers.
#include "tools/heed/commands.h"
#include "tools/heed/gradcheck/gradcheck.h"

namespace heed {

void gradcheck_command(Command& c) {
  c.name = "gradcheck", c.what = "check the derivative of every op and layer";
  c.examples =
      "  heed gradcheck\n"
      "  heed gradcheck --run runs/first\n"
      "  heed gradcheck softmax matmul --order 1 --oracle dual";
  c.notes =
      "Compares derivatives with differences and with dual numbers. The guide\n"
      "autograd/check/YOUR_GRADIENT.md shows how to check a function of your own.";
  auto r = std::make_shared<GradcheckRequest>();
  c.arguments = 1;
  c.add("Options",
        {lab::Setting("op", r->ops, {}, "names of ops or layers").shows("all"),
         {"order", r->order, {1, 2}, "1: gradients; 2: gradients of gradients too"},
         {"seed", r->seed, {0, 0xffffffff}, "seed of the random cotangents and directions"},
         {"oracle", r->oracle, "four-point differences (fd) or dual numbers"},
         {"run", r->run, "DIR", "check the gradient of this run's loss in each parameter tensor"},
         {"weights", r->weights, "FILE", "weights file in the directory of --run"}});
  c.add_common(Command::kThreads | Command::kJson);
  const auto mode = [&](std::string key, std::vector<std::string> accepts, std::string keys,
                        Out (*f)(const GradcheckRequest&)) {
    c.modes.push_back({.key = std::move(key),
                       .accepts = std::move(accepts),
                       .keys = std::move(keys),
                       .run = [r, f](const Command&) { return f(*r); }});
  };
  mode("run", c.only({"order", "oracle", "seed", "weights"}),
       "run parameters failed error message entries seconds float32 (ok target entries "
       "error_of_bound message) tensors (name parameters entries digits_dual digits_differences "
       "message)",
       report_run_gradcheck);
  mode("", c.all_but({"weights"}),
       "checked failed ops worst (name order error) skipped seconds seed rows (name checked failed "
       "skipped entries error_order_1 digits_dual_1 digits_differences_1 error_order_2 "
       "digits_dual_2 digits_differences_2) failures",
       report_gradchecks);
}

}  // namespace heed
