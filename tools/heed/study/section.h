// A study is a document: a list of sections. An analysis returns a section, and the writers of
// text, JSON, pictures and the page show any section.
#pragma once

#include <string>
#include <vector>

#include "nn/study/evidence.h"
#include "tools/heed/pictures.h"
#include "tools/heed/report/report.h"
#include "tools/heed/result_folder.h"

namespace heed {

/// The result of one analysis.
struct Section {
  std::string key;    ///< name in --show and JSON: "edges"
  std::string title;  ///< "Edges: change of L in logits, ..."
  std::vector<std::string> sentences = {};
  /// Lines that the section adds to the first lines of a study: "Without L0H0, L changes by ...".
  std::vector<std::string> answers = {};
  std::vector<Table> tables = {};
  std::vector<Picture> pictures = {};
  /// The largest finding, for the line of a section that is not shown: "L0H0:K:L1H0 -6.6, 24 rows".
  std::string finding = {};
};

/// Returns a table of evidence: place, effect, error, suffices, predictions, accuracy and mark, as
/// far as a row has them. `place` is the heading of the first column. With `sorted`, the rows are
/// in Judgement::order. Without `marks`, the column of marks is null.
Table evidence_table(std::string_view place, const std::vector<nn::Evidence>& rows,
                     const nn::Judgement& judgement, bool marks, bool sorted);
/// Returns how well the predictions agree with the effects, as a sentence; "" if no row counts.
std::string agreement_text(const nn::Judgement& judgement);
/// Returns the largest row that counts and the number of rows: "L0H0:K:L1H0 -6.6, 24 rows".
std::string finding_of(const std::vector<nn::Evidence>& rows, const nn::Judgement& judgement);

/// Version of the JSON of studies. Since version 2, it has sections, and `suffices` has the sign of
/// the change.
inline constexpr int kStudyFormat = 2;

/// Columns of an entry of "sections" in JSON and on the page.
inline constexpr Column kNameAndUnit[] = {{"name"}, {"unit"}};
inline constexpr Column kTableKeys[] = {
    {"title"}, {"what"}, rows("columns", kNameAndUnit), {"rows"}};
inline constexpr Column kSectionKeys[] = {
    {"key"},  {"title"},  {"sentences"}, fields("tables", kTableKeys),
    {"maps"}, {"charts"}, {"network"}};
/// Returns the sections as JSON. The page contains the same JSON.
Value sections_json(const std::vector<Section>& sections);
/// Adds a section to the text of a report: the whole section, or one line that names it.
void add_section(Report& report, const Section& section, bool whole);
/// Draws pictures into `folder` in the formats of `source`, and returns their paths. Throws
/// IoError.
Files draw_pictures(ResultFolder& folder, const std::vector<Picture>& pictures,
                    const PictureSource& source);

}  // namespace heed
