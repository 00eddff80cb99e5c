// Progress callback.
#pragma once

#include <cstdint>
#include <functional>

namespace heed::nn {

/// Progress callback of long work, called between its parts. It may throw to cancel the work.
using ProgressCallback = std::function<void(std::int64_t done, std::int64_t total)>;

}  // namespace heed::nn
