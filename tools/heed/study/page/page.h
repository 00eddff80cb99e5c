// report.html: a study as one file that a browser opens from disk. It shows the sections of a
// study: their sentences, tables and pictures.
#pragma once

#include <string>
#include <vector>

#include "tools/heed/study/section.h"

namespace heed {

/// Encodes the values of heat maps for the page: the places of the panels in the picture, labels,
/// and a code of 16 bits for each cell, in base64. A value is code / 32767 * scale, and the scale
/// is the largest magnitude of a cell that is not masked. The code of a masked cell, and of a value
/// that is not finite, is -32768.
nn::Json map_json(const plot::HeatmapGrid& grid);

/// The content of a page.
struct Page {
  std::string title;
  std::vector<std::string> summary;  ///< first lines
  std::vector<Section> sections;
};
/// Returns the page as HTML, with the pictures of the sections, which are in `folder` in the format
/// "png" or "svg". All texts are shown as text: no text can contain an element of HTML. Throws
/// IoError if a picture cannot be read.
std::string html_of(const Page& page, const std::filesystem::path& folder,
                    const std::string& format);

/// Draws the pictures of the sections and writes report.html into the directory. Returns the paths
/// of all files. Throws IoError.
Files write_page(ResultFolder& folder, const PictureSource& source, const Page& page);

}  // namespace heed
