// The first lines of a study: which heads and MLPs matter, and what is known of them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/heed/study/head_study.h"

namespace heed {

/// One of the first lines, and its numbers.
struct Claim {
  std::string text;
  std::vector<std::string> components = {};  ///< "L1H0", "L0MLP"; empty: about the model
  /// Main role of the components, "other", "no effect" for a pattern without an effect, or "all
  /// that matter"; "" without components.
  std::string role = {};
  /// The numbers that hold on other sequences, too, up to a factor of 2: scores, needed, suffices,
  /// lost_without, left_alone.
  std::vector<std::pair<std::string, double>> numbers = {};
};
/// Returns the first lines, most important first. `answers` are lines about the options of the
/// command line. `predicts` is Subject::predicts.
std::vector<Claim> first_lines(const HeadStudy& study, bool predicts,
                               const std::vector<std::string>& answers = {});

}  // namespace heed
