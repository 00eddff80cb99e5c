// A study as the data of report.html (page/README.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nn/io/json.h"
#include "nn/study/ablation.h"
#include "nn/study/routes.h"
#include "nn/study/study.h"

namespace heed {

/// One run on one sequence, at one or several moments.
struct PagePane {
  std::string name, hash, objective;
  std::vector<std::string> tokens;  ///< labels, [T]
  nn::Json moments = nn::Json::array();
  std::optional<std::int64_t> checkpoints = {};  ///< that the run has: more than moments show

  /// Adds what a study [1, T] found after `step`. `all`: every map, with routes from where; else
  /// those that checkpoints keep. `cuts`: what L is more by without each head, in the study's
  /// order; empty: not known.
  void add_moment(std::optional<std::int64_t> step, const nn::Study& study,
                  const nn::RouteStudy& routes, bool all, const std::vector<nn::Effect>& cuts = {});
  nn::Json json(std::int64_t layers, std::int64_t heads) const;
};

/// All that report.html shows. `tables`: as page/README.md says; `chosen`: the head shown first.
nn::Json page_data(const std::string& title, const std::string& command,
                   const std::vector<nn::Json>& panes, const nn::Json& tables,
                   std::optional<nn::HeadIndex> chosen = {});

}  // namespace heed
