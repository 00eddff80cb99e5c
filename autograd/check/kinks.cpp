// How Checker finds entries on a kink, where f has no derivative, and moves them off it.
#include <algorithm>

#include "autograd/check/checker.h"

namespace heed::autograd {

// Returns true if an output seems to have a kink where entry k moves. One step suffices if the kink
// is exactly at x.
bool Checker::seems_kinked(std::size_t k) const {
  const Direction along{entry_at(k), {{k, own_scale(k)}}};
  return std::ranges::any_of(differences_at(line_along(along), noise_, 0x1p-9, f_.single),
                             [](const Difference& d) { return d.kink; });
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
