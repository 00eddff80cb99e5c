// heed study: which heads, places and tokens L comes from.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nn/study/ablation.h"
#include "tools/heed/command_line/command.h"
#include "tools/heed/study/subject.h"

namespace heed {

struct InterventionArguments {
  std::string ablate, corrupt;
  nn::Ablation ablation = nn::Ablation::kZero;
  std::int64_t samples = 0;
  bool attribute = false;
};
std::vector<nn::Setting> intervention_settings(InterventionArguments& a);

struct InterventionResults {
  std::vector<Table> tables;
  std::vector<std::filesystem::path> files;  ///< the pictures of --samples and --corrupt
};
/// What these arguments ask for; `study` is that of the subject, pictures are drawn into `out`.
/// UsageError naming the option that does not fit the others, the run or the sequence.
InterventionResults run_interventions(const InterventionArguments& a, const Command& c, const Subject& subject,
                    const nn::Study& study, const std::filesystem::path& out);

}  // namespace heed
