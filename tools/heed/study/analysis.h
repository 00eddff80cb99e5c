// An analysis of a study: one file in analyses/ with one constant, and its line in kAnalyses.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "tools/heed/study/context.h"
#include "tools/heed/study/section.h"

namespace heed {

/// An analysis and the function that returns its section.
struct Analysis {
  std::string_view key;  ///< of its section, in --show and JSON
  /// The options without which it does not run: "add --ablate or --keep"; "" if it always runs.
  const char* advice = "";
  /// Returns true if its options are given. Then text has the whole section. Null: it has none.
  bool (*asked)(const StudyOptions& options) = nullptr;
  /// Returns whether it runs although it is not asked for. Null: no.
  bool (*by_default)(StudyContext& context) = nullptr;
  /// Throws the errors of the options before anything is measured. Null: no option can be wrong.
  void (*check)(StudyContext& context) = nullptr;
  Section (*run)(StudyContext& context) = nullptr;

  bool is_asked(const StudyOptions& options) const { return asked && asked(options); }
  bool runs(StudyContext& context) const {
    return is_asked(context.options) || (by_default && by_default(context));
  }
};

extern const Analysis kComponents, kGradient, kSets, kEdges, kCells, kPatching;
/// All analyses, in the order of their sections.
inline constexpr std::array kAnalyses{&kComponents, &kGradient, &kSets,
                                      &kEdges,      &kCells,    &kPatching};

}  // namespace heed
