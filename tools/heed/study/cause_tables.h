// Results of nn/study as tables and as a picture.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nn/study/attribution.h"
#include "nn/study/head_importance.h"
#include "nn/study/lens.h"
#include "nn/study/patching.h"
#include "nn/tasks/vocabulary.h"
#include "tools/heed/pictures.h"
#include "tools/heed/study/table.h"

namespace heed {

/// `names` of what was ablated, one for each effect.
StudyTable ablation_table(const std::vector<std::string>& names,
                          const std::vector<nn::Effect>& effects, nn::Ablation how);
StudyTable head_importance_table(const std::vector<nn::HeadImportance>& heads);

/// Every place, those of the largest effect first; `tokens` are labels of the positions.
StudyTable patching_table(const nn::Patching& patching, const std::vector<std::string>& tokens);
/// How well first and second order estimate the effects.
StudyTable estimates_table(const nn::Patching& patching, const std::vector<std::string>& tokens);
/// Layer by position, a panel for each site.
void draw_patching(const std::filesystem::path& file, const nn::Patching& patching,
                   const std::vector<std::string>& tokens, const PictureSource& source);

/// `query`: whose row of the flow is shown.
StudyTable token_table(const nn::TokenAttribution& attribution, const nn::AttentionFlow& flow,
                       std::int64_t query, const std::vector<std::string>& tokens);
/// From the last position on.
StudyTable lens_table(const nn::LogitLens& lens, const std::vector<std::string>& tokens,
                      const nn::Vocabulary& vocabulary);
StudyTable logit_attribution_table(const std::vector<nn::Contribution>& parts);
/// nn::copying_scores, of the heads in their order.
StudyTable copying_table(const std::vector<nn::HeadIndex>& heads,
                         const std::vector<double>& scores);

}  // namespace heed
