// Conversion of a study to the data of report.html (page/README.md), and writing of the page.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/heed/report/out.h"
#include "tools/heed/study/context.h"
#include "tools/heed/study/section.h"
#include "tools/heed/study/subject.h"

namespace heed {

/// Returns a checkpoint of a pane: the maps and the routes of a study of the model on one sequence
/// [1, T]. The model has the weights after `step`. If `complete` is set, adds every map. Otherwise
/// adds only those for which MapQuantity::for_every_checkpoint is true.
nn::Json checkpoint_json(std::optional<std::int64_t> step, const nn::Transformer& model,
                         const nn::Study& study, bool complete);
/// Returns the keys of a pane for its sequence: the labels of the tokens or of blocks of tokens.
nn::Json sequence_json(const std::vector<std::string>& tokens);
/// Returns a pane of the page, without checkpoints and cells: one run on one sequence. Its name is
/// the name of the run and, if `label` is not empty, the label: "induction-1, clean prompt".
nn::Json make_pane(const Subject& subject, const std::string& label = "");
/// Returns a pane with one checkpoint: the complete study of the subject. `label` is used as in
/// make_pane().
nn::Json pane_of(const Subject& subject, const nn::Study& study, const std::string& label = "");
/// Returns the measured cuts of single cells for a pane.
nn::Json cells_json(const NotableCells& cuts);

/// Draws the pictures of the sections and writes report.html into the directory. `page` has further
/// data of the page (page/README.md), such as pane_data(). Returns the paths of all files of the
/// sections and of report.html. Throws IoError.
Files write_document(ResultFolder& folder, const PictureSource& source, const std::string& title,
                     const std::vector<Section>& sections, nn::Json page);
/// Returns the data of a page of panes, with the descriptions of nn::map_quantities() and
/// nn::head_quantities().
nn::Json pane_data(const std::vector<nn::Json>& panes);

}  // namespace heed
