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

// Moves each entry that was moved off a kink to the other side of the kink, at the same distance.
void Checker::mirror() {
  mirrored_ = true;
  for (const MovedEntry& m : report_.moved) {
    double& x = f_.x[starts_[m.entry.input] + std::size_t(m.entry.at)];
    x = 2 * m.from - m.to;
    if (f_.single) x = double(float(x));
  }
}

// Moves an entry off a kink by 3 to 6 % of the entry's scale. The distance is random, so that two
// equal entries become different.
void Checker::move(const Direction& along) {
  const std::size_t k = along.moves[0].first;
  if (++moves_[k] == 1) report_.moved.push_back({along.entry, f_.x[k], 0});
  f_.x[k] = shifted(along, (1 + random_.uniform_double()) / 32)[k];
  const auto is_same = [&](const MovedEntry& m) {
    return m.entry.input == along.entry.input && m.entry.at == along.entry.at;
  };
  std::find_if(report_.moved.rbegin(), report_.moved.rend(), is_same)->to = f_.x[k];
}

}  // namespace heed::autograd
