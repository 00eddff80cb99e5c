// Callback that reports the progress of long work.
#pragma once

#include <functional>

#include "nn/lab/names.h"

namespace heed::lab {

/// Progress callback: receives the units of work done and their total. It may throw to cancel the
/// work.
using ProgressCallback = std::function<void(Index done, Index total)>;

}  // namespace heed::lab
