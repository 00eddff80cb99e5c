// report.html: a study as one file that explains itself, opened from disk. What data it takes is in
// README.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tools/heed/report/report.h"

namespace heed {

/// One head's map for the page, {"scale", "triangle", "data"}: 16 bits a cell, 2.7 characters of
/// the page. `values` [n, n] row-major, row the query; `triangle`: only the cells with key <= query
/// are kept, the page draws the others as masked. `hidden` [n, n], or empty: cells to draw as
/// masked, as are values that are not finite. A value read back is within scale / 65534 of what it
/// was; scale is the largest magnitude kept. ShapeError for other lengths.
nn::Json encode_map(std::span<const double> values, std::int64_t n, bool triangle,
                    std::span<const std::uint8_t> hidden = {});

/// The page with this data in it. Whatever its texts hold is shown as text: none can end the
/// element it is in.
std::string study_page(const nn::Json& data);

}  // namespace heed
