// The type of sizes, axes and indices.
#pragma once

#include <cstdint>

namespace heed {
using Index = std::int64_t;  ///< a size, an axis or an index
namespace autograd {
using heed::Index;
}
}  // namespace heed
