// heed study A B: two runs on the same sequence, head by head, and where their weights part.
#pragma once

#include <filesystem>
#include <string>

#include "nn/run/run_folder.h"
#include "nn/study/study.h"
#include "tools/heed/report/report.h"
#include "tools/plot/heatmap.h"

namespace heed {

/// What both runs are asked: run A, its sequence, and the scalar.
struct Comparison {
  std::filesystem::path folder;  ///< of A
  const nn::LoadedRun& run;
  const nn::Batch& one;
  const nn::Objective& objective;
  std::string of;                   ///< the objective in words
  std::string other, weights, out;  ///< B, the file of weights in both, --out
  bool overwrite = false;
};

/// Finds what differs and draws it. UsageError where run B cannot read
/// the sequence: another vocabulary, or a shorter context.
Report compare_runs(const Comparison& c);
/// The keys of its result.
Columns comparison_keys();

/// The maps of a quantity of run B minus those of run A, for each head that both have; both studies
/// are of one sequence.
plot::HeatmapGrid difference_grid(const nn::Study& a, const nn::Study& b,
                                  const nn::MapQuantity& quantity);

}  // namespace heed
