#include <algorithm>
#include <numeric>

#include "autograd/check/checker.h"

namespace heed::autograd {

std::vector<bool> Kinks::along(const Direction& direction) const {
  std::vector<bool> kinks;
  for (const Difference& d :
       differences(point_.line_along(direction), point_.noise, 1, point_.steps.first()))
    kinks.push_back(d.kink);
  return kinks;
}

bool Kinks::are_shared(const Direction& direction) const {
  Direction others = point_.random_direction();
  std::erase_if(others.moves, [&](const auto& m) { return m.first == direction.moves[0].first; });
  const std::vector<bool> own = along(direction), theirs = along(others);
  return std::inner_product(own.begin(), own.end(), theirs.begin(), 0) > 0;
}

bool Kinks::are_near(const Direction& direction, const Values& v) const {
  constexpr int kDirections = 4;
  const std::vector<Difference> alone = point_.differences_along(direction);
  const auto [k, by] = direction.moves[0];
  Values kinked(alone.size());  // the cotangents of outputs with a kink
  for (int i = 0; i < kDirections; ++i) {
    Direction all = point_.random_direction();
    const std::vector<Difference> first = point_.differences_along(all);
    const double scale = all.moves[k].second / by;
    all.moves[k].second *= -1;
    const std::vector<Difference> second = point_.differences_along(all);
    for (std::size_t o = 0; o < alone.size(); ++o) {
      const Difference &a = first[o], &b = second[o], &c = alone[o];
      const double distance = std::abs(a.value - b.value - 2 * scale * c.value),
                   error = a.error + b.error + 2 * std::abs(scale) * c.error,
                   size = std::abs(a.value) + std::abs(b.value);
      if (a.is_fast || b.is_fast || c.is_fast) continue;
      if (distance > 2 * error + size / 64) return true;
      if (a.is_steady || b.is_steady) kinked[o] = v[o];
    }
  }
  return std::ranges::count(kinked, 0.0) < std::ssize(kinked) && point_.f.backward &&
         direction.dot(point_.gradient_for(kinked)) != 0;
}

bool Kinks::stays(const Along& along, bool is_fast) {
  constexpr int kMostMoves = 4;
  const std::size_t k = along->moves[0].first;
  if (is_fast || (moved_.contains(k) && moved_.at(k).times == kMostMoves))
    return stuck_.emplace(k, is_fast), true;
  found_.push_back(along);
  return false;
}

bool Kinks::move_off() {
  Values& x = point_.f.x;
  if (found_.empty() && (mirrored_ || moved_.empty())) return false;
  mirrored_ |= found_.empty();
  for (const auto& [k, m] : moved_)
    if (found_.empty()) x[k] = 2 * m.from - x[k];
  for (const Along& along : std::exchange(found_, {})) {
    const std::size_t k = along->moves[0].first;
    ++moved_.try_emplace(k, Moved{x[k]}).first->second.times;
    x[k] = along->from(x, (1 + point_.random.uniform_double()) / 32)[k];
  }
  x = point_.shifted({}, 0);  // rounds to float
  return true;
}

void Kinks::add_to(CheckReport& report, const std::set<std::size_t>& compared) const {
  for (const auto& [k, m] : moved_) {
    const double x = point_.f.x[k];
    report.moved.push_back({point_.entry_at(k), m.from, mirrored_ ? 2 * m.from - x : x});
  }
  for (const auto& [k, is_fast] : stuck_) {
    ++(is_fast ? report.too_fast : report.on_kink);
    const std::size_t input = point_.entry_at(k).input;
    if (std::ranges::none_of(compared, [&](std::size_t other) {
          return point_.entry_at(other).input == input && !is_stuck(other);
        }))
      report.refuse(Verdict::kVacuous, "input ", input,
                    is_fast ? ": forward varies faster than the smallest step of differences"
                            : ": all entries that were compared stay on a kink, where the "
                              "function has no derivative",
                    "; choose other inputs");
  }
}

}  // namespace heed::autograd
