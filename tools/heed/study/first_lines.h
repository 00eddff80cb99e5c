// The first lines of a study: which heads and MLPs change L, and what is known of them.
#pragma once

#include <string>
#include <vector>

#include "tools/heed/study/context.h"
#include "tools/heed/study/section.h"

namespace heed {

/// One of the first lines.
struct Claim {
  std::string text;
  std::vector<std::string> components = {};  ///< "L1H0", "L0MLP"; empty: about the model
  /// Role of the component, "other" for one that counts without a role, "redundant", or "".
  std::string role = {};
  bool in_table = false;  ///< true: a table of the first lines contains it, so text does not
};
/// The first lines: an introduction, the components that count, and claims.
struct FirstLines {
  std::string introduction = {};
  std::vector<Table> tables = {};
  std::vector<Claim> claims = {};
};
/// Returns the first lines. `sections` are those of the study.
FirstLines first_lines(StudyContext& context, const std::vector<Section>& sections);

}  // namespace heed
