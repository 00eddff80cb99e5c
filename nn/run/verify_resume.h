// Verifies that a resumed run has the bits of one that was never stopped, by training both.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "nn/run/run_folder.h"

namespace heed::nn {

struct ResumeCheck {
  struct Leg {
    std::string name;        ///< "2 threads, 20 + 20 steps"
    std::uint32_t hash = 0;  ///< hash_of its last snapshot
    std::string difference;  ///< the first thing that is not as in the first leg, or ""
  };
  std::int64_t steps = 0;
  std::vector<Leg> legs;  ///< straight; stopped and resumed

  bool ok() const { return legs[1].difference.empty(); }
};

/// Trains the first n = min(steps, 40) steps of this configuration twice: straight with 1 thread,
/// and n / 2 of them, a save in `folder`, the rest with 2 threads; saves at other steps, too.
/// Compares every row of the history, weight, moment, best weight and random stream bit for bit.
/// `progress` receives the steps done and all steps. `changed(folder)`, if given, is called between
/// the save and the resume, so that a test can damage the save. Errors as Trainer.
ResumeCheck verify_resume(RunConfig config, const RunFolder& folder,
                          const ProgressCallback& progress = {},
                          const std::function<void(const RunFolder&)>& changed = {});

}  // namespace heed::nn
