// Verifies that a stopped and resumed run has the same bits as an uninterrupted run, by training
// both.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "nn/run/run_folder.h"

namespace heed::nn {

/// Result of verify_resume().
struct ResumeCheck {
  /// One of the two runs.
  struct Leg {
    std::string name;        ///< such as "2 threads, 20 + 20 steps"
    std::uint32_t hash = 0;  ///< hash_of() of the last snapshot
    std::string difference;  ///< first difference from the uninterrupted run, or ""
  };
  std::int64_t steps = 0;  ///< steps of each run
  std::vector<Leg> legs;   ///< the uninterrupted run, then the resumed one

  /// Returns whether both runs have the same bits.
  bool ok() const { return legs[1].difference.empty(); }
};

/// Trains the first n = min(steps, 40) steps of this configuration twice. The first run has 1
/// thread and is uninterrupted. The second run has 2 threads. It is saved in `folder` after n / 2
/// steps and resumed from there. The two runs also save at different steps. Compares the histories,
/// weights, moments, best weights and random streams of both runs bit for bit.
///
/// `progress` receives the steps done and the total. `changed(folder)`, if given, is called between
/// the save and the resume, so that a test can damage the save. Throws like Trainer and RunFolder.
ResumeCheck verify_resume(RunConfig config, const RunFolder& folder,
                          const ProgressCallback& progress = {},
                          const std::function<void(const RunFolder&)>& changed = {});

}  // namespace heed::nn
