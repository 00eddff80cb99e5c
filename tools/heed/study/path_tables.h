// Cuts of edges and paths: the options --edges-into, --edge, --path and --through-mlps.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/heed/report/progress.h"
#include "tools/heed/study/head_study.h"
#include "tools/heed/study/study_pictures.h"

namespace heed {

/// Options of cuts of paths. An empty text means that the option is not given.
struct PathArguments {
  std::string edges_into;     ///< receivers: L1H1, L1H1.K, L1MLP, logits or all
  std::string edge;           ///< edges as L0H0:K:L1H1
  std::string path;           ///< paths as L0H0:K:L1H1:logits, or "all"
  bool through_mlps = false;  ///< MLPs between a component and its receiver are computed again
};
/// Returns the options as settings. Their values are stored in `a`, which must outlive them.
std::vector<nn::Setting> path_settings(PathArguments& a);
/// Throws UsageError or ValueError if an option is not valid for the model of the subject.
void check_paths(const PathArguments& a, const Command& c, const Subject& s);

/// Measures the cuts that the options name: each edge of --edges-into and each path of --path all,
/// if it is one of the largest predictions, and the lists of --edge and --path, each as one cut.
/// Without options, measures the largest of all edges if the heads were measured. Draws edges.png
/// and paths.png into `out`, and appends them to `files`.
std::vector<Table> path_tables(const PathArguments& a, const HeadArguments& heads, const Command& c,
                               const Subject& s, const HeadStudy& study,
                               const std::filesystem::path& out, Progress& progress, Files& files);

}  // namespace heed
