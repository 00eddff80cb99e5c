// A resumed run has the bits of one that was never stopped: shown by training both.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "nn/train/trainer.h"

namespace heed::nn {

/// CRC-32C of rows, weights, moments and random streams, evaluations left out.
std::uint32_t hash_of(const Trainer& trainer);

struct ResumeCheck {
  struct Leg {
    std::string name;        ///< "2 threads, 20 + 20 steps"
    std::uint32_t hash = 0;  ///< CRC-32C of rows, weights, moments and random streams
    std::string difference;  ///< the first thing that is not as in the first leg, or ""
  };
  std::int64_t steps = 0;
  std::vector<Leg> legs;

  bool ok() const;
};

/// A trainer as it comes back from a checkpoint in this folder.
using Checkpoint = std::function<Trainer(const Trainer&, const std::filesystem::path& folder)>;
/// By save() and resume().
Trainer through_checkpoint(const Trainer& trainer, const std::filesystem::path& folder);

/// Trains the first n = min(steps, 40) steps of this configuration four times: straight, and n / 2
/// of them, a checkpoint in `folder`, the rest; with 1 thread and with 2, which evaluate and save
/// at other steps. Compares every row of the metrics, weight, moment and random stream bit for bit,
/// and between the two of one rhythm the best weights, too. `watch` is told of steps done, of all.
/// Errors as Trainer.
ResumeCheck verify_resume(RunConfig config, const std::filesystem::path& folder,
                          const WorkWatch& watch = {},
                          const Checkpoint& checkpoint = through_checkpoint);

}  // namespace heed::nn
