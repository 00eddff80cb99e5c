// A study as the data of report.html (page/README.md), and the file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "nn/study/routes.h"
#include "tools/heed/report/report.h"
#include "tools/heed/study/subject.h"

namespace heed {

/// One run on one sequence [1, T], at one or several checkpoints.
struct PagePane {
  std::string name, hash, objective;
  std::vector<std::string> tokens;  ///< labels, [T]
  std::int64_t layers, heads;
  nn::Json checkpoints = nn::Json::array();
  std::optional<std::int64_t> saved_checkpoints = {};  ///< that the run has: more than checkpoints show

  /// Adds what a study found after `step`. `all`: every map, with routes from where; else those
  /// that checkpoints keep.
  void add_checkpoint(std::optional<std::int64_t> step, const nn::Study& study,
                  const nn::RouteStudy& routes, bool all);
  nn::Json json() const;
};
/// A pane without checkpoints. `what` stands beside the run's name: "clean prompt".
PagePane make_pane(const Subject& subject, const std::string& what = "");
/// A pane of the subject's study.
PagePane pane_of(const Subject& subject, const nn::Study& study, const std::string& what = "");

/// Writes report.html into the folder and returns its path. `tables`: as page/README.md says;
/// `chosen`: the head shown first. IoError.
std::filesystem::path write_page(const std::filesystem::path& folder, const std::string& title,
                                 const std::vector<PagePane>& panes,
                                 const nn::Json& tables = nn::Json::array(),
                                 std::optional<nn::HeadIndex> chosen = {});

}  // namespace heed
