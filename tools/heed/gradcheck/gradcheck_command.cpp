// heed gradcheck: every derivative against finite differences and dual numbers.
#include <sstream>

#include "nn/io/nearest.h"
#include "tools/heed/commands.h"
#include "tools/heed/gradcheck/gradcheck_report.h"
#include "tools/heed/output.h"

namespace heed {
namespace {

using autograd::CheckLayout;

// Names as on the command line: "stride0" for the layout "stride 0".
std::string flag_name(CheckLayout layout) {
  std::string name(autograd::layout_name(layout));
  std::erase(name, ' ');
  return name;
}

std::vector<CheckLayout> parse_layouts(const std::string& where, const std::string& raw) {
  std::vector<std::string> names;
  for (const CheckLayout layout : autograd::kAllLayouts) names.push_back(flag_name(layout));
  std::vector<CheckLayout> layouts;
  std::istringstream in(raw);
  for (std::string name; std::getline(in, name, ',');) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      usage_error("{}: there is no layout '{}'; the nearest is '{}'. All: {}", where, name,
                  nn::nearest(name, names), listing(names));
    layouts.push_back(autograd::kAllLayouts[found - names.begin()]);
  }
  if (layouts.empty()) usage_error("{} needs one or more of {}", where, listing(names));
  return layouts;
}

}  // namespace

std::unique_ptr<Command> gradcheck_command(CLI::App& app) {
  auto command =
      std::make_unique<Command>(app, "gradcheck", "check the derivative of every op and layer",
                                "  heed gradcheck\n"
                                "  heed gradcheck softmax matmul --order 1 --oracle dual\n"
                                "  heed gradcheck --layouts transposed,stride0 --json\n"
                                "  heed gradcheck --mutants");
  auto request = std::make_shared<GradcheckRequest>();
  Command* c = command.get();
  c->positional(
      "op", "names of ops or layers (default: all)",
      [request](const std::string&, const std::string& raw) { request->ops.push_back(raw); }, true);
  c->option("order", "1|2", "2", "1: gradients; 2: gradients of gradients too",
            [request](const std::string& where, const std::string& raw) {
              request->order = int(parse_integer(where, raw, 1, 2));
            });
  c->option("oracle", "NAME", "both", "fd (four-point differences), dual (dual numbers) or both",
            [request](const std::string& where, const std::string& raw) {
              if (raw != "fd" && raw != "dual" && raw != "both")
                usage_error("{} is fd, dual or both, got '{}'", where, raw);
              request->differences = raw != "dual";
              request->dual = raw != "fd";
            });
  c->option("layouts", "LIST", "all",
            "memory layouts, comma between: contiguous, transposed, sliced, stride0, aliased",
            [request](const std::string& where, const std::string& raw) {
              request->layouts = parse_layouts(where, raw);
            });
  c->flag("mutants", request->mutants,
          "check the checker: every op with its gradient made wrong must fail");
  c->option("run", "DIR", "none", "check the loss of this run's model in all its parameters",
            [request](const std::string&, const std::string& raw) { request->run = raw; });
  c->config_option();
  c->threads_option();
  c->json_option();
  c->run = [request, c] {
    request->json = c->json;
    if (request->mutants) return report_mutants(*request);
    if (!request->run.empty()) return report_run_gradcheck(*request);
    return report_gradchecks(*request);
  };
  return command;
}

}  // namespace heed
