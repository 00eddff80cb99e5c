// report.html: the panes of its page, and the file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nn/io/json.h"
#include "nn/study/ablation.h"
#include "nn/study/over_time.h"
#include "nn/study/study.h"
#include "tools/heed/pictures.h"
#include "tools/heed/study/study_pictures.h"

namespace heed {

/// One sequence [1, T] and one scalar of it, as a pane says them.
struct ReportPane {
  const PictureSource& source;
  const StudyWords& words;
  const nn::Batch& one;
  const nn::Objective& objective;
  std::string what = {};  ///< beside the run's name: "clean prompt"
};
/// What L is more by without each head; nothing where that would take seconds.
std::vector<nn::Effect> cut_heads(const nn::Transformer& model, const nn::Batch& one,
                                  const nn::Objective& objective);
/// With one moment: the model as it is, after `step`, and its study. `cuts`: what L is more by
/// without each head, to mark the saturated ones; empty: not known.
nn::Json pane_now(const ReportPane& pane, const nn::Transformer& model, const nn::Study& study,
                  std::optional<std::int64_t> step, const std::vector<nn::Effect>& cuts);
/// With up to eight moments: the weights of checkpoints, the first, the last and those about the
/// steepest fall. The model keeps the last ones. IoError as load_safetensors.
nn::Json pane_over_time(const ReportPane& pane, nn::Transformer& model,
                        const std::vector<nn::CheckpointFile>& checkpoints,
                        const nn::OverTime& study);

/// Writes report.html into the folder and returns its path; the rest as page_data().
/// IoError.
std::filesystem::path write_report(const std::filesystem::path& folder, const std::string& title,
                                   const std::vector<nn::Json>& panes, const nn::Json& tables,
                                   std::optional<nn::HeadIndex> chosen = {});

}  // namespace heed
