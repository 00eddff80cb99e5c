// What heed study is asked: a sequence, a scalar L of it, and what else to make of them.
#pragma once

#include <optional>
#include <string>

#include "nn/run/run_folder.h"
#include "nn/study/objective.h"
#include "tools/heed/command_line/command.h"
#include "tools/heed/heads_grid.h"
#include "tools/heed/study/causes.h"
#include "tools/heed/study/study_export.h"

namespace heed {

struct StudyArguments {
  std::string run, other, weights = nn::RunFolder::kModel, prompt, of = "loss", out, head;
  std::optional<StudyExport> form;
  std::string at;
  std::int64_t sample = 0;
  bool ascii = false, overwrite = false, over_time = false;
  CauseArguments causes;
};

/// The sequence [1, T] that was asked for. UsageError where options do not fit it or each other.
nn::Batch chosen_sequence(const StudyArguments& a, const Command& c, const nn::Task& task);
/// --of at --at, of a sequence of `length`. UsageError.
nn::Objective chosen_objective(const StudyArguments& a, const nn::TaskFacts& facts,
                               std::int64_t length);
/// As --of and --at say it: "diff:c-d at 5".
std::string objective_text(const nn::Objective& o, const nn::TaskFacts& facts);
/// The head that --head names, if any. UsageError.
std::optional<nn::HeadIndex> chosen_head(const StudyArguments& a, const Command& c,
                                         const nn::Transformer& model);

}  // namespace heed
