// heed as one of several processes that a launcher started: the ranks of one training, over MPI.
#pragma once

#include <functional>
#include <string>

#include "nn/train/exchange.h"

namespace heed {

/// Loads libheed_mpi.so (tools/mpi/module.h) and meets the other ranks; null where no launcher
/// started several. Once in a process. `own_threads`: the number of threads becomes the cores that
/// this process was given, shared with the ranks of this machine that were given the same.
/// UsageError without the module, and for ranks that are no power of two.
nn::Exchange* join_ranks(bool own_threads);

/// From here on every rank ends by itself: each knows that no other waits for it.
void part_ranks();

/// Before a process that may be a rank ends with `code`, which it returns: waits for all ranks that
/// parted. A rank that ends before has had an error that the others do not know of: ends them.
int leave_ranks(int code);

/// f(). What is wrong with all ranks' command line rank 0 says, and the launcher then ends the
/// others; one that is still there three seconds later has an error of its own, and says it.
int as_rank(const std::function<int()>& f);

}  // namespace heed
