// How long work tells of its progress.
#pragma once

#include <cstdint>
#include <functional>

namespace heed::nn {

/// Called between the parts of long work: so many done, of how many. It may throw, which ends the
/// work.
using WorkWatch = std::function<void(std::int64_t done, std::int64_t total)>;

}  // namespace heed::nn
