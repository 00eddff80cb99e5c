// Cuts of edges and paths as sections.
#pragma once

#include <string>
#include <vector>

#include "nn/study/path_cuts.h"
#include "tools/heed/study/analysis.h"

namespace heed {

inline constexpr std::size_t kMeasuredCuts = 48;  ///< cuts of a table: the largest predictions

/// Returns a cutter for the context's sample and --through-mlps.
nn::PathCutter path_cutter(StudyContext& c);
/// Throws UsageError if the model has no edges, or if --through-mlps has no effect.
void check_has_edges(const StudyContext& c);
/// Fills a section with cuts of paths: sentences, a table and, unless `file` is empty, a chart in
/// FILE.png.
void add_cuts(Section& section, const std::string& title, const std::vector<nn::Evidence>& rows,
              StudyContext& c, const std::string& file);

}  // namespace heed
