// Which problems of a finite number are kept for testing.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "nn/tasks/task.h"

namespace heed::nn {

/// `count` of the numbers 0 .. all - 1, drawn with a fixed seed: the same in every run. Needs
/// 0 <= count < all.
class HeldOut {
 public:
  HeldOut(std::int64_t all, std::int64_t count) : all_(all) {
    constexpr std::uint32_t kSplitSeed = 0x5EED11E5;
    Generator g(kSplitSeed);
    while (std::ssize(list_) < count)
      if (const std::int64_t n = draw_below(all_, g); set_.insert(n).second) list_.push_back(n);
  }

  /// In the order of drawing: the first of them are a sample of all.
  const std::vector<std::int64_t>& list() const { return list_; }
  bool contains(std::int64_t n) const { return set_.contains(n); }
  /// One of the others, each as likely.
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
