// A study as the data of report.html (page/README.md), and the file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "nn/study/ablation.h"
#include "nn/study/routes.h"
#include "nn/study/study.h"
#include "tools/heed/report/report.h"
#include "tools/heed/study/study_pictures.h"

namespace heed {

/// One run on one sequence [1, T], at one or several moments.
struct PagePane {
  std::string name, hash, objective;
  std::vector<std::string> tokens;  ///< labels, [T]
  std::int64_t layers, heads;
  nn::Json moments = nn::Json::array();
  std::optional<std::int64_t> checkpoints = {};  ///< that the run has: more than moments show

  /// Adds what a study found after `step`. `all`: every map, with routes from where; else those
  /// that checkpoints keep. `cuts`: what L is more by without each head, in the study's order;
  /// empty: not known.
  void add_moment(std::optional<std::int64_t> step, const nn::Study& study,
                  const nn::RouteStudy& routes, bool all, const std::vector<nn::Effect>& cuts = {});
  nn::Json json() const;
};
/// A pane without moments. `what` stands beside the run's name: "clean prompt".
PagePane make_pane(const PictureSource& source, const StudyWords& words,
                   const nn::Transformer& model, const std::string& what = "");
/// One with the study of a model after `step`.
PagePane pane_of(const PictureSource& source, const StudyWords& words, const nn::Transformer& model,
                 std::optional<std::int64_t> step, const nn::Study& study,
                 const std::vector<nn::Effect>& cuts, const std::string& what = "");

/// All that report.html shows. `tables`: as page/README.md says; `chosen`: the head shown first.
nn::Json page_data(const std::string& title, const std::string& command,
                   const std::vector<PagePane>& panes, const nn::Json& tables,
                   std::optional<nn::HeadIndex> chosen = {});
/// Writes report.html into the folder and returns its path; the rest as page_data(). IoError.
std::filesystem::path write_report(const std::filesystem::path& folder, const std::string& title,
                                   const std::vector<PagePane>& panes,
                                   const nn::Json& tables = nn::Json::array(),
                                   std::optional<nn::HeadIndex> chosen = {});

}  // namespace heed
