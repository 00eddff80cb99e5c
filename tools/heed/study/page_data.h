// Conversion of a study to the data of report.html (page/README.md), and writing of the page.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/heed/report/report.h"
#include "tools/heed/study/context.h"
#include "tools/heed/study/section.h"
#include "tools/heed/study/subject.h"

namespace heed {

/// A pane of the page: one run on one sequence [1, T], at one or several checkpoints.
struct PagePane {
  std::string name;                          ///< title of the pane
  std::string hash;                          ///< nn::hash_of_tensors() of the weights
  std::string objective;                     ///< description of L
  std::vector<std::string> tokens;           ///< labels of the tokens, [T]
  std::int64_t layers, heads;                ///< size of the model
  nn::Json checkpoints = nn::Json::array();  ///< see add_checkpoint()
  nn::Json cells = {};                       ///< measured cuts of cells; see add_cells()
  /// Number of checkpoints that the run saved, if `checkpoints` is a selection of them.
  std::optional<std::int64_t> saved_checkpoints = {};

  /// Adds a checkpoint: the maps and the routes of a study of the model, which has the weights
  /// after `step`. If `complete` is set, adds every map. Otherwise adds only those for which
  /// MapQuantity::for_every_checkpoint is true.
  void add_checkpoint(std::optional<std::int64_t> step, const nn::Transformer& model,
                      const nn::Study& study, bool complete);
  /// Adds the measured cuts of single cells.
  void add_cells(const NotableCells& cuts);
  /// Returns the pane as JSON.
  nn::Json json() const;
};
/// Returns a pane without checkpoints. Its name is the name of the run and, if `label` is not
/// empty, the label: "induction-1, clean prompt".
PagePane make_pane(const Subject& subject, const std::string& label = "");
/// Returns a pane with one checkpoint: the complete study of the subject. `label` is used as in
/// make_pane().
PagePane pane_of(const Subject& subject, const nn::Study& study, const std::string& label = "");

/// Draws the pictures of the sections and writes report.html into the directory. `page` has further
/// data of the page (page/README.md), such as pane_data(). Returns the paths of all files of the
/// sections. Throws IoError.
Files write_document(const std::filesystem::path& folder, const PictureSource& source,
                     const std::string& title, const std::vector<Section>& sections,
                     nn::Json page = nn::Json::object());
/// Returns the data of a page of panes, with the descriptions of nn::map_quantities() and
/// nn::head_quantities().
nn::Json pane_data(const std::vector<PagePane>& panes);

}  // namespace heed
