// Activation patching over pairs of prompts: the options --corrupt, --pairs and --corruption.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "nn/study/patching.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/study/study_pictures.h"
#include "tools/heed/study/subject.h"

namespace heed {

struct Command;

/// Options of patching. An empty text means that the option is not given.
struct PatchingArguments {
  std::string corrupt;     ///< a corrupt prompt for the subject's sequence
  std::string pairs;       ///< file of pairs
  std::string corruption;  ///< name of a corruption of the task
};
/// Returns the options as settings. Their values are stored in `a`, which must outlive them.
std::vector<nn::Setting> patching_settings(PatchingArguments& a);

/// N pairs of prompts of equal length, and L on them.
struct PromptPairs {
  nn::Batch clean, corrupt;  ///< [N, T]
  nn::Objective objective;
  std::string text;                 ///< as text: "32 pairs of induction, corruption value"
  std::vector<std::string> labels;  ///< of the positions, [T]; empty: their numbers

  /// Returns L in words.
  std::string objective_text(const Subject& s) const;
};
/// Returns the pairs that the options select; no value if no option is given. `samples` is the
/// number of pairs of --corruption, or 0 for the default. Throws UsageError,
/// ValueError or IoError, with the option or the line of the file, if they cannot be used.
std::optional<PromptPairs> chosen_pairs(const PatchingArguments& a, std::int64_t samples,
                                        const Command& c, const Subject& s);
/// Returns the heat maps of the shares: panels of the sites by position or by head, for both
/// directions. `positions` are the labels of the positions, or empty for their numbers.
plot::HeatmapGrid patching_grid(const nn::Patching& patching, bool by_head,
                                const std::vector<std::string>& positions,
                                const std::string& pairs);
/// Patches every place in both directions. Returns a table for each direction. Draws patching.png
/// (by position) and patching_heads.png into `out` and appends them to `files`.
std::vector<Table> patching_tables(const PromptPairs& pairs, const Subject& s,
                                   const std::filesystem::path& out, Progress& progress,
                                   Files& files);

}  // namespace heed
