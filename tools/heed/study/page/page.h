// Creation of report.html, which shows a study as one file without a server. README.md describes
// its data.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tools/heed/report/report.h"

namespace heed {

/// Encodes the map of one head for the page, as {"scale", "triangle", "data"}. A cell takes 16
/// bits, which are 2.7 characters in base64. `values` is [n, n], row-major, with a row for each
/// query. If `triangle` is set, only the cells with key <= query are stored, and the page draws the
/// other cells as masked. `hidden` is [n, n] or empty. The page draws a cell as masked if its entry
/// of `hidden` is nonzero or its value is not finite. The scale is the largest magnitude of a cell
/// that is not masked. A decoded value differs from the original by at most scale / 65534. Throws
/// ShapeError if the lengths are not n * n.
nn::Json encode_map(std::span<const double> values, std::int64_t n, bool triangle,
                    std::span<const std::uint8_t> hidden = {});

/// Returns the page with this data. The page shows all texts in the data as text, never as HTML. No
/// text can end the HTML element that contains the data.
std::string study_page(const nn::Json& data);

}  // namespace heed
