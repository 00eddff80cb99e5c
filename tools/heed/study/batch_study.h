// heed study --samples: the heads on many sequences, whatever stands where in each.
#pragma once

#include <cstdint>
#include <filesystem>

#include "nn/run/run_folder.h"
#include "nn/study/study.h"
#include "tools/heed/pictures.h"
#include "tools/heed/study/table.h"

namespace heed {

/// The first `samples` evaluation sequences. UsageError for more than memory is kept for.
nn::Batch evaluation_batch(const nn::LoadedRun& run, std::int64_t samples);
/// Their study. UsageError where sequences end at different places: means would be of padding.
nn::Study batch_study(const nn::LoadedRun& run, const nn::Batch& batch,
                      const nn::Objective& objective);

/// Each head's numbers, means over the sequences.
StudyTable batch_table(const nn::Study& study, const std::string& objective);
/// by_distance.png: each head's mean weight, and dL/dS, by how far the key is before the query.
/// Returns the file.
std::filesystem::path draw_by_distance(const std::filesystem::path& folder, const nn::Study& study,
                                       const PictureSource& source);

}  // namespace heed
