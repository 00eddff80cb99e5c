// Creation of report.html, which shows a study as one file without a server. README.md describes
// its data.
#pragma once

#include <string>

#include "nn/study/blocks.h"
#include "tools/heed/report/out.h"

namespace heed {

/// Encodes the map of one head for the page, as {"scale", "data"}. A cell takes 16 bits, which are
/// 2.7 characters in base64. Only the cells with key <= query are stored, row by row, and the page
/// draws as masked the other cells and stored cells that are hidden or not finite. The scale is the
/// largest magnitude of a cell that is not masked. A decoded value differs from the original by at
/// most scale / 65534.
nn::Json encode_map(const nn::BlockMap& map);

/// Returns the page with this data. The page shows all texts in the data as text, never as HTML. No
/// text can end the HTML element that contains the data.
std::string study_page(const nn::Json& data);

}  // namespace heed
