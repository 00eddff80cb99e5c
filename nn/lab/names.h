// Names that all files of the lab use.
#pragma once

#include <functional>

#include "nn/io/names.h"

namespace heed::lab {
using namespace heed::nn;

/// Receives the units of work done and their total. It may throw to cancel the work.
using ProgressCallback = std::function<void(Index done, Index total)>;

}  // namespace heed::lab
