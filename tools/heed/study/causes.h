// heed study: which heads, places and tokens L comes from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nn/run/run_folder.h"
#include "nn/study/ablation.h"
#include "nn/study/patching.h"
#include "nn/study/study.h"
#include "tools/heed/command_line/command.h"

namespace heed {

struct CauseArguments {
  std::string ablate, corrupt;
  nn::Ablation ablation = nn::Ablation::kZero;
  std::int64_t samples = 0;
  bool attribute = false;
};
std::vector<nn::Setting> cause_settings(CauseArguments& a);

struct Causes {
  std::vector<Table> tables;
  std::optional<nn::Study> batch;        ///< of --samples without --ablate
  std::optional<nn::Patching> patching;  ///< of --corrupt
  std::vector<std::string> labels;       ///< of its positions
};
/// What these arguments ask for; `study` is that of the sequence `one`.
/// UsageError naming the option that does not fit the others, the run or the sequence.
Causes study_causes(const CauseArguments& a, const Command& c, const nn::LoadedRun& run,
                    const nn::Batch& one, const nn::Objective& objective, const nn::Study& study);

/// What L is more by without each head; nothing where that would take seconds.
std::vector<nn::Effect> cut_heads(const nn::Transformer& model, const nn::Batch& one,
                                  const nn::Objective& objective);

}  // namespace heed
