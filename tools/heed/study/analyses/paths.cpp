// Cuts of paths through several receivers.
#include <fmt/format.h>

#include "tools/heed/study/path_evidence.h"

namespace heed {
namespace {

void check_given_paths(const StudyContext& c) {
  if (!c.given("path")) return;
  if (c.text("path") != "all") nn::parse_paths("--path", c.text("path"), c.model().options);
  check_has_edges(c);
}

Section cut_paths(StudyContext& c) {
  Section s{.key = "paths", .title = "Paths"};
  const nn::Transformer::Options& o = c.model().options;
  const nn::PathCutter cutter = path_cutter(c);
  if (c.text("path") != "all") {
    add_cuts(s, "Cut paths", {cutter.cut(nn::parse_paths("--path", c.text("path"), o))}, c, "");
    return s;
  }
  const auto paths = nn::paths_through_heads(o);
  const auto rows = cutter.largest(paths, kMeasuredCuts, c.counting("Cutting paths"));
  add_cuts(s,
           fmt::format("Paths through one head to the logits, those with the {} largest of {} "
                       "predictions",
                       rows.size(), paths.size()),
           rows, c, "paths");
  return s;
}

const Analysis kPaths{
    .key = "paths",
    .order = 50,
    .options =
        {{"path", "PATHS",
          "cuts these paths together, such as L0H0:K:L1H1:logits; all: each path through one "
          "head to the logits, the largest predictions"}},
    .group = "Paths",
    .pictures = {"paths"},
    .check = check_given_paths,
    .run = cut_paths};

}  // namespace
}  // namespace heed
