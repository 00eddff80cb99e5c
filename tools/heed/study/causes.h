// What heed study says of causes: which heads, places and tokens L comes from.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "nn/run/run_folder.h"
#include "nn/study/ablation.h"
#include "nn/study/patching.h"
#include "nn/study/study.h"
#include "tools/heed/command_line/command.h"
#include "tools/heed/pictures.h"
#include "tools/heed/study/table.h"

namespace heed {

struct CauseArguments {
  std::string ablate, corrupt;
  nn::Ablation ablation = nn::Ablation::kZero;
  std::int64_t samples = 0;
  bool attribute = false;
};
std::vector<nn::Setting> cause_settings(CauseArguments& a);

struct Causes {
  std::vector<StudyTable> tables;
  std::optional<nn::Study> batch;        ///< of --samples without --ablate
  std::optional<nn::Patching> patching;  ///< of --corrupt
  std::vector<std::string> labels;       ///< of its positions
};
/// What these arguments ask for; `one` is the sequence that is studied, `objective` is of it.
/// UsageError naming the option that does not fit the others, the run or the sequence.
Causes study_causes(const CauseArguments& a, const Command& c, const nn::LoadedRun& run,
                    const nn::Batch& one, const nn::Objective& objective);
/// Their pictures, into `folder`; returns the files.
std::vector<std::filesystem::path> draw_causes(const std::filesystem::path& folder,
                                               const Causes& causes, const PictureSource& source);

}  // namespace heed
