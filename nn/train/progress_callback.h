// Callback that reports the progress of long work.
#pragma once

#include <cstdint>
#include <functional>

namespace heed::nn {

/// Progress callback: receives the units of work done and their total. It may throw to cancel the
/// work.
using ProgressCallback = std::function<void(std::int64_t done, std::int64_t total)>;

}  // namespace heed::nn
