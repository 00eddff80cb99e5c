// Counts calls of operator new in this program, for heed bench. Under sanitizers it stays 0.
#pragma once

#include <cstdint>

namespace heed {

/// Calls of operator new so far, all threads.
std::uint64_t allocations();

}  // namespace heed
