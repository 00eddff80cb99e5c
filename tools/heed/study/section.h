// A study is a document: a list of sections. An analysis returns a section, and the writers of
// text, JSON, pictures and the page show any section.
#pragma once

#include <string>
#include <vector>

#include "nn/lab/study/evidence.h"
#include "tools/heed/pictures.h"
#include "tools/heed/report/out.h"
#include "tools/heed/result_folder.h"

namespace heed {

/// A column of a table of a section.
struct Column {
  std::string name;               ///< heading
  std::string unit = {};          ///< unit; text shows it
  std::string format = "{:.4g}";  ///< fmt format of a number in text; with %, of a percentage
  bool in_text = true;            ///< false: only JSON and the page have the column
};

/// Rows of cells, one cell per column. JSON and the page have all columns and rows. Text has few
/// columns, so that the table is not wider than 80 columns, and the first rows.
struct Table {
  std::vector<Column> columns;
  std::string title = {}, note = {};  ///< texts above and below the table
  std::size_t shown = SIZE_MAX;       ///< largest number of rows in text
  std::vector<std::vector<Value>> rows = {};
};

/// The result of one analysis.
struct Section {
  std::string key;    ///< name in --show and JSON: "edges"
  std::string title;  ///< "Edges: change of L in logits, ..."
  std::vector<std::string> sentences = {};
  /// Lines that the section adds to the first lines of a study: "Without L0H0, L changes by ...".
  std::vector<std::string> answers = {};
  std::vector<Table> tables = {};
  std::vector<Picture> pictures = {};
  /// How many rows were measured (measured_text()), or "".
  std::string measured = {};
};

/// Returns a table of evidence, the largest effect first: place, effect, error, deviation over
/// donors, accuracy, path gradient, gradient, and a note for an effect that is off-distribution.
/// `place` is the heading of the first column.
Table evidence_table(std::string_view place, const std::vector<lab::Evidence>& rows,
                     const lab::Judgement& judgement);
/// Returns how many effects count, and how well the predictions agree with them; "" if no row
/// counts.
std::string agreement_text(const lab::Judgement& judgement);
/// Returns how many interventions were measured: "20 of 110 measured".
std::string measured_text(std::size_t measured, std::size_t all);

/// Version of the JSON of studies. Since version 3, effects are those of replacement by donors.
inline constexpr int kStudyFormat = 3;

/// Keys of an entry of "sections" in JSON and on the page.
inline const std::string kSectionKeys =
    "key title sentences tables (title what columns (name unit) rows)";
/// Returns a cell of a table as text.
std::string cell_text(const Value& cell, const Column& column);
/// Returns the sections as JSON.
Value sections_json(const std::vector<Section>& sections);
/// Adds the whole section to the text.
void add_section(Out& out, const Section& section);
/// Adds the first columns and rows of a table that text shows.
void add_table(Out& out, const Table& table);
/// Draws pictures into `folder` in the formats of `source`, and returns their paths. Throws
/// IoError.
Files draw_pictures(ResultFolder& folder, const std::vector<Picture>& pictures,
                    const PictureSource& source);

}  // namespace heed
