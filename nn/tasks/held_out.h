// The split of a finite number of problems into training problems and held-out problems.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "nn/tasks/task.h"

namespace heed::nn {

/// A random set of `count` numbers from 0 to all - 1. It is drawn with a fixed seed, so that equal
/// arguments give equal sets in all runs. Requires 0 <= count < all.
class HeldOut {
 public:
  HeldOut(std::int64_t all, std::int64_t count) : all_(all) {
    constexpr std::uint32_t kSplitSeed = 0x5EED11E5;
    Generator g(kSplitSeed);
    while (std::ssize(list_) < count)
      if (const std::int64_t n = draw_below(all_, g); set_.insert(n).second) list_.push_back(n);
  }

  /// Returns the held-out numbers in the order in which they were drawn. The first n numbers of the
  /// list are a uniform sample of 0 to all - 1, for every n.
  const std::vector<std::int64_t>& list() const { return list_; }
  /// Returns true if n is held out.
  bool contains(std::int64_t n) const { return set_.contains(n); }
  /// Returns a uniform random number that is not held out.
  std::int64_t draw_other(Generator& g) const {
    for (;;)
      if (const std::int64_t n = draw_below(all_, g); !contains(n)) return n;
  }

 private:
  std::int64_t all_;
  std::vector<std::int64_t> list_;
  std::unordered_set<std::int64_t> set_;
};

}  // namespace heed::nn
