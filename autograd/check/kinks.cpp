// How Checker finds entries on a kink, where f has no derivative, and moves them off it.
#include <algorithm>
#include <numeric>

#include "autograd/check/checker.h"

namespace heed::autograd {

// Returns for each output whether it seems to have a kink along a direction.
std::vector<bool> Checker::kinks_along(const Direction& along) const {
  std::vector<bool> kinks;
  for (const Difference& d : differences(line_along(along), noise_, 1, steps_.first()))
    kinks.push_back(d.kink);
  return kinks;
}

// Returns true if an output with a kink along the direction of one entry also has a kink where the
// other entries move. If three numbers are equal, as in a sort, then the derivatives on the two
// sides of a kink need not enclose the derivatives near it.
bool Checker::shares_kink(const Direction& along) {
  Direction others = random_direction(0, f_.x.size());
  std::erase_if(others.moves, [&](const auto& m) { return m.first == along.moves[0].first; });
  const std::vector<bool> own = kinks_along(along), theirs = kinks_along(others);
  return std::inner_product(own.begin(), own.end(), theirs.begin(), 0) > 0;
}

// Moves entries off their kinks by 3 to 6 % of their scale. The distance is random, so that two
// equal entries become different. If no entry is on a kink, moves all of them to the other sides of
// their kinks, at the same distance. Returns false if this was done before, or no entry was moved.
bool Checker::move_off_kinks() {
  if (kinks_.empty() && (mirrored_ || moved_.empty())) return false;
  mirrored_ |= kinks_.empty();
  for (auto& [k, m] : moved_)
    if (kinks_.empty()) f_.x[k] = 2 * m.from - f_.x[k];
  for (const Along& along : kinks_) {
    const std::size_t k = along->moves[0].first;
    ++moved_.try_emplace(k, Moved{f_.x[k]}).first->second.times;
    f_.x[k] = along->from(f_.x, (1 + random_.uniform_double()) / 32)[k];
  }
  if (f_.single) f_.x = shifted({}, 0);
  return true;
}

}  // namespace heed::autograd
