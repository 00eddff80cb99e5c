// An analysis of a study: one file in analyses/ with one static object. No other file names it.
//
//   Section run(StudyContext& context) { ... }
//   const Analysis kEdges{.key = "edges", .order = 40, .options = {...}, .run = run};
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/heed/study/context.h"
#include "tools/heed/study/section.h"

namespace heed {

struct Analysis;
/// Returns all analyses by their order.
const std::vector<const Analysis*>& analyses();

/// Adds an analysis to the list when it is constructed.
class Registration {
 public:
  explicit Registration(const Analysis& analysis);
  Registration(const Registration&) = delete;
};

/// An analysis, its options, and the function that returns its section.
struct Analysis {
  std::string_view key;  ///< key of its section in --show and JSON
  int order = 0;         ///< sections are shown in this order

  /// An option that only this analysis has. StudyContext::text() returns its value.
  struct Option {
    const char* key;   ///< "edge"
    const char* unit;  ///< placeholder of the value: "EDGES"
    const char* help;  ///< meaning
  };
  std::vector<Option> options = {};
  const char* group = "";  ///< heading of the options in help texts, one word
  const char* notes = "";  ///< text below this heading

  /// Returns true if an option that several analyses share selects this analysis. Null: no shared
  /// option selects it.
  bool (*by_shared)(const StudyContext& context) = nullptr;
  const char* shared = "";  ///< the shared options as text: "--ablate all"
  /// Returns true if the analysis runs although no option selects it. Null: it runs if it has no
  /// options and `by_shared` is null.
  bool (*by_default)(StudyContext& context) = nullptr;
  /// True: `heed study --over-time` also runs it if none of its options is given.
  bool repeats = true;
  /// Throws the errors of the options before anything is measured. Null: no option can be wrong.
  void (*check)(const StudyContext& context) = nullptr;
  Section (*run)(StudyContext& context) = nullptr;

  Registration registration = Registration(*this);

  /// Returns whether an option selects the analysis.
  bool is_asked(const StudyContext& context) const;
  /// Returns whether the analysis runs.
  bool runs(StudyContext& context) const;
  /// Returns the options that select the analysis as advice: "add --edge".
  std::string advice() const;
};

}  // namespace heed
