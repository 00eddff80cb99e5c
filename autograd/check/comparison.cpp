// The comparisons of Checker: of entries, of random directions and of groups of outputs, and the
// error text for the worst one.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "autograd/base/text.h"
#include "autograd/check/checker.h"

namespace heed::autograd {
namespace {

constexpr int kCotangents = 4, kMostMoves = 4;
// If a comparison in a random direction finds a kink, about this many entries are tested to find
// the entry on the kink.
constexpr std::int64_t kMostEntries = 4096;
// Entries on a kink are searched at most this many times. If an input has at most kMostEntries
// entries, one search finds all of them.
constexpr int kMostSearches = 32;
// In a random direction, the outputs are compared in at most this many groups.
constexpr std::size_t kMostGroups = 10000;
// If a function has more outputs than this, the error text does not name the wrong output.
constexpr std::size_t kMostOutputs = 4096;
// If a tolerance is at most this fraction of the terms, the entry needs no second comparison with a
// wider step.
constexpr double kSharp = 0x1p-16;
// An output that moves is rounded like far larger numbers if its jumps are this many times as large
// as its noise.
constexpr double kRough = 64;

// Orders comparisons: a failed entry is worse than a failed direction, which is worse than a passed
// comparison. Within a group, the larger error is worse.
bool is_worse(const Comparison& a, const Comparison& b) {
  const auto rank = [](const Comparison& e) {
    return e.passes() ? 0 : e.at == CheckedEntry::kDirection ? 1 : 2;
  };
  if (rank(a) != rank(b)) return rank(a) > rank(b);
  return !(a.error() <= b.error()) && !std::isnan(b.error());
}

// Returns true if e agrees with `other` and has a smaller tolerance, or if only e has a finite
// tolerance.
bool narrows(const Comparison& e, const Comparison& other) {
  if (!std::isfinite(other.tolerance)) return std::isfinite(e.tolerance);
  return !e.on_kink && e.tolerance < other.tolerance && other.passes(e.expected);
}

}  // namespace

bool Comparison::passes(double value) const {
  return std::isfinite(tolerance) && std::abs(value - expected) <= tolerance;
}

// Returns the rounding noise of each output.
Values Checker::noise_of_forward() {
  const Direction all = random_direction(0, f_.x.size());
  return measure_noise(line_along(all), f_.noise_spread(), f_.roundoff());
}

// Returns the rounding noise of values of f that are differences of far larger numbers, as log(1 +
// q) is if q is 1e-20, and 0 for the others. Such a value has the same bits at all points near x,
// or moves in jumps. Its noise is at most that of the largest value at a distance of the inputs'
// own sizes.
Values Checker::noise_of_still(const std::function<Values(const Values& x)>& f) {
  constexpr int kDirections = 8;
  const Values y = f(f_.x);
  Values largest(y.size());
  std::vector<bool> is_moving(y.size());
  for (int i = 0; i < kDirections; ++i) {
    const Direction all = random_direction(0, f_.x.size());
    for (const double t : {-1.0, 1.0}) {
      const Values near = f(shifted(all, t * f_.noise_spread() * 0x1p-23)),
                   far = f(shifted(all, t));
      for (std::size_t o = 0; o < y.size(); ++o) {
        if (near[o] != y[o]) is_moving[o] = true;
        if (std::isfinite(far[o])) largest[o] = std::max(largest[o], std::abs(far[o]));
      }
    }
  }
  const Direction all = random_direction(0, f_.x.size());
  const Values jumps = measure_jumps([&](double t) { return f(shifted(all, t)); });
  for (std::size_t o = 0; o < y.size(); ++o) {
    const double most = f_.roundoff() * largest[o];
    largest[o] = !is_moving[o] ? most : jumps[o] <= 16 * most ? jumps[o] : 0;
  }
  return largest;
}

// Returns the error that rounding inside backward causes in each entry of `gradient`, the gradient
// for cotangent v. If it is limited, the error times the step of a random direction is at most a
// fraction of the largest |gradient entry * step|. Otherwise a backward whose result is mostly
// noise would pass.
Values Checker::noise_of_backward(const Values& v, const Values& gradient, bool limited) {
  const Direction all = random_direction(0, f_.x.size());
  const Line line = [&](double t) { return f_.backward(shifted(all, t), v); };
  Values noise = measure_noise(line, f_.noise_spread(), f_.roundoff());
  double largest = limited ? 0 : HUGE_VAL;
  for (const auto& [k, by] : all.moves) largest = std::max(largest, std::abs(gradient[k] * by));
  for (const auto& [k, by] : all.moves)
    noise[k] = std::min(8 * noise[k], std::cbrt(f_.roundoff()) * largest / std::abs(by));
  return noise;
}

Values Checker::gradient_for(const Values& v) const {
  return f_.backward ? f_.backward(f_.x, v) : Values();
}

double Checker::given(const OutputSlopes& slopes, const Values& v, const Values& gradient) const {
  if (f_.backward) return slopes.along->dot(gradient);
  return std::inner_product(v.begin(), v.end(), slopes.exact.begin(), 0.0) / slopes.along->unit();
}

// Compares entry k, unless this was done before or the entry stays on a kink. Returns false if the
// entry fails or must be moved off a kink.
bool Checker::compare_entry(Oracle oracle, std::size_t k) {
  const auto is_sharp = [](const Comparison& e) { return e.tolerance <= kSharp * e.terms; };
  const auto is_right = [](const Comparison& e) { return e.on_kink || e.passes(); };
  const auto is_resolved = [](const Comparison& e) { return e.resolved; };
  const auto is_seen = [](const Comparison& e) { return e.resolved && e.terms > 0; };
  if (!compared_[int(oracle)].insert(k).second) return true;
  if (stuck_.contains(k)) return oracle == Oracle::kDual || compare_smooth_outputs(k);
  const double own = own_scale(k), typical = typical_[entry_at(k).input];
  const auto compare_at = [&](double scale, bool repeated) {
    return compare_all(slopes(oracle, along_entry(k, scale), repeated));
  };
  // If an entry is far smaller than the rest of its input, f may hardly change over a step of the
  // entry's own size. Then a wider step is tried too. The result of the wider step is used if it
  // agrees with the result of the first step and is more precise. If they disagree, the wider step
  // may have jumped over a singularity. If the first step is not precise enough and the wider step
  // finds a kink, the entry counts as being on a kink.
  const auto compare_both = [&](bool repeated) {
    std::vector<Comparison> found = compare_at(own, repeated);
    if (oracle == Oracle::kDual || own >= typical || std::ranges::all_of(found, is_sharp))
      return found;
    const auto wider = compare_at(typical, repeated);
    for (std::size_t c = 0; c < found.size(); ++c)
      if (narrows(wider[c], found[c]) || (wider[c].on_kink && !found[c].resolved))
        found[c] = wider[c];
    return found;
  };
  std::vector<Comparison> found = compare_both(false);
  // Only differences at several steps refute a gradient. They are repeated until one is refuted.
  if (oracle == Oracle::kDifferences && !refuted_ && !std::ranges::all_of(found, is_right)) {
    if (!f_.single) found = compare_both(true);
    refuted_ = !std::ranges::all_of(found, is_right) && !contradicts_others(found[0].along);
    for (Comparison& e : found)
      if (!refuted_ && !e.passes()) e.on_kink = true, e.reach = HUGE_VAL;
  }
  const bool right = keep(found);
  if (stuck_.contains(k)) return oracle == Oracle::kDual || compare_smooth_outputs(k);
  // One cotangent of add_quiet_cotangents() suffices, unless no output depends on the entry.
  by(oracle).checked += std::all_of(found.begin(), found.begin() + kCotangents, is_resolved) ||
                        std::any_of(found.begin() + kCotangents, found.end(), is_seen);
  return right;
}

// Returns true if the derivatives along other directions contradict that along the direction of one
// entry, because f has no derivative at x, or if backward has a derivative of an output with a kink
// along another direction. The median of equal numbers has no kink where only one of them moves.
bool Checker::contradicts_others(const Along& along) {
  constexpr int kDirections = 4;
  const std::vector<Difference> alone = slopes(Oracle::kDifferences, along).of;
  const auto [k, by] = along->moves[0];
  Values kinked(alone.size());  // the cotangents of outputs with a kink
  for (int i = 0; i < kDirections; ++i) {
    Direction all = random_direction(0, f_.x.size());
    const std::vector<Difference> first =
        differences(line_along(all), noise_, 1, steps_, f_.single);
    const double scale = all.moves[k].second / by;
    all.moves[k].second *= -1;
    const std::vector<Difference> second =
        differences(line_along(all), noise_, 1, steps_, f_.single);
    for (std::size_t o = 0; o < alone.size(); ++o) {
      const Difference &a = first[o], &b = second[o], &c = alone[o];
      const double distance = std::abs(a.value - b.value - 2 * scale * c.value),
                   error = a.error + b.error + 2 * std::abs(scale) * c.error,
                   size = std::abs(a.value) + std::abs(b.value);
      if (a.is_fast || b.is_fast || c.is_fast) continue;
      if (distance > 2 * error + size / 64) return true;
      if (a.is_steady || b.is_steady) kinked[o] = cotangents_[0][o];
    }
  }
  return std::ranges::count(kinked, 0.0) < std::ssize(kinked) && f_.backward &&
         along->dot(gradient_for(kinked)) != 0;
}

// Compares entry k, which stays on a kink, only for the outputs that have no kink there. Returns
// false if the comparison fails.
bool Checker::compare_smooth_outputs(std::size_t k) {
  const OutputSlopes found = slopes(Oracle::kDifferences, along_entry(k), true);
  Values v = cotangents_[0], noise;
  for (std::size_t o = 0; o < v.size(); ++o)
    if (found.of[o].kink) v[o] = 0;
  if (std::ranges::count(v, 0.0) == std::ssize(v)) return true;
  comparisons_.push_back(compare(found, 0, v, gradient_for(v), noise));
  return comparisons_.back().passes();
}

// Compares a sample of the entries of each input. Returns false if an entry fails or is on a kink.
bool Checker::compare_entries(Oracle oracle, std::int64_t count) {
  bool right = true;
  for (std::size_t i = 0; i < f_.inputs.size(); ++i)
    for (const std::size_t k : sample(i, sample_size(i, count)))
      right = compare_entry(oracle, k) && right;
  return right;
}

// Compares the gradient of one input along a random direction with the oracle: for all outputs
// together, and for each group of outputs, because in a sum over all outputs the error of one entry
// could be smaller than the tolerance. Returns false if a comparison fails or an entry is on a
// kink.
bool Checker::compare_direction(Oracle oracle, std::size_t i, bool repeated) {
  const Along& along = directions_[i];
  OutputSlopes found = slopes(oracle, along, repeated);
  const bool can_repeat = oracle == Oracle::kDifferences && !repeated && !f_.single;
  const std::size_t n = found.of.size();
  for (std::size_t o = 0; o < n; ++o)  // each side of a kink has a derivative, and each is right
    if (bool& kink = found.of[o].kink; oracle == Oracle::kDual)
      kink = kinked_[i][o];
    else
      kinked_[i][o] = std::exchange(kink, found.of[o].is_fast);
  if (oracle == Oracle::kDifferences) {
    if (std::ranges::count(kinked_[i], true) > 0 && ++searches_ <= kMostSearches)
      for (const std::size_t k : sample(along->entry.input, kMostEntries, searches_))
        if (std::ranges::count(kinks_along(*along_entry(k)), true) > 0) compare_entry(oracle, k);
    if (!kinks_.empty()) return false;
    // A kink that is left is compared, too: the error of the difference is larger than its jump.
  }
  std::vector<std::size_t> outputs;
  for (std::size_t o = 0; o < n; ++o)
    if (!found.of[o].kink) outputs.push_back(o);
  bool right = true;
  std::optional<std::size_t> failed;  // index of a cotangent
  if (outputs.size() == n) {
    const std::vector<Comparison> all = compare_all(found);
    if (can_repeat && !std::ranges::all_of(all, [](const auto& e) { return e.passes(); }))
      return compare_direction(oracle, i, true);
    by(oracle).direction = all[0];
    right = keep(all);
    for (const Comparison& e : all)
      if (!e.passes()) failed = e.cotangent;
  }
  const std::size_t size = n == 1 ? n : (outputs.size() + kMostGroups - 1) / kMostGroups;
  Values v(n);
  for (std::size_t first = 0; n > 1 && first < outputs.size(); first += size) {
    const auto group = std::span(outputs).subspan(first, std::min(size, outputs.size() - first));
    for (const std::size_t o : group) v[o] = cotangents_[0][o];
    const Values g = gradient_for(v);
    Values noise;
    const Comparison e = compare(found, 0, v, g, noise);
    if (!e.passes()) {
      if (can_repeat) return compare_direction(oracle, i, true);
      comparisons_.push_back(e);
      find_wrong_entry(oracle, *along, 0, v, g);
      return false;
    }
    for (const std::size_t o : group) v[o] = 0;
  }
  if (failed) find_wrong_entry(oracle, *along, *failed, cotangents_[*failed], gradients_[*failed]);
  return right;
}

// Searches the entry that makes the comparison along `along` fail, where g is the gradient for
// cotangent v: continues with a half of the direction along which the comparison fails, too. Stores
// the comparison of the entry, unless errors of several entries cancel in each half.
void Checker::find_wrong_entry(Oracle oracle, const Direction& along, std::size_t cotangent,
                               const Values& v, const Values& g) {
  if (along.moves.size() < 2) return;
  const auto begin = along.moves.begin(), end = along.moves.end(),
             middle = begin + (end - begin) / 2;
  for (const auto& pairs : {std::span(begin, middle), std::span(middle, end)}) {
    Direction half{along.entry, std::vector(pairs.begin(), pairs.end())};
    if (half.moves.size() == 1) half.entry = entry_at(half.moves[0].first);
    Values noise;
    const Comparison e =
        compare(slopes(oracle, std::make_shared<const Direction>(half)), cotangent, v, g, noise);
    if (e.passes()) continue;
    if (half.moves.size() > 1) return find_wrong_entry(oracle, half, cotangent, v, g);
    return comparisons_.push_back(e);
  }
}

// Compares `gradient`, the gradient for cotangent v, with slopes. `noise` is empty or the
// result of noise_of_backward(), which is stored there if it is needed. The signs of v are random,
// so the errors of different outputs add up like independent errors: as the root of the sum of
// their squares.
Comparison Checker::compare(const OutputSlopes& slopes, std::size_t cotangent, const Values& v,
                            const Values& gradient, Values& noise) {
  const Direction& along = *slopes.along;
  Comparison e;
  static_cast<CheckedEntry&>(e) = along.entry;
  e.cotangent = cotangent, e.along = slopes.along;
  e.given = given(slopes, v, gradient);
  const double unit = along.unit();
  double terms = 0, seen = 0, largest = 0;
  for (std::size_t o = 0; o < v.size(); ++o) {
    if (v[o] == 0) continue;
    const double weight = std::abs(v[o]) / unit;
    const Difference& d = slopes.of[o];
    e.expected += v[o] / unit * d.value;
    e.terms += weight * slopes.terms[o];
    e.on_kink |= d.kink, e.is_fast |= d.is_fast;
    if (d.kink) e.reach += weight * d.reach;
    if (std::abs(d.value) >= largest) largest = std::abs(d.value), e.step = d.step * unit;
    terms = std::hypot(terms, weight * slopes.terms[o]);
    if (d.moves) seen = std::hypot(seen, weight * d.error);
  }
  e.rounding = kRoundings * f_.roundoff() * terms;
  e.tolerance = 2 * seen + e.rounding;
  const auto fails = [&] { return !e.passes() && std::isfinite(e.tolerance); };
  if (fails() && f_.backward) {
    if (noise.empty()) {
      noise = noise_of_backward(v, gradient);
      const Values still = noise_of_still([&](const Values& x) { return f_.backward(x, v); });
      for (std::size_t k = 0; k < noise.size(); ++k) noise[k] = std::max(noise[k], still[k]);
    }
    double total = 0;
    for (const auto& [k, by] : along.moves) total = std::hypot(total, by / unit * noise[k]);
    e.rounding += total, e.tolerance += total;
  }
  // The rounding of an output that does not move, or moves in jumps, can hide its derivative. Its
  // error is allowed only if the gradient of the other outputs is right.
  if (e.step != 0 && fails()) {  // not by the exact oracle
    Values moving = v;
    double hidden = 0, expected = e.expected;
    if (still_noise_.empty()) still_noise_ = noise_of_still(f_.forward);
    for (std::size_t o = 0; o < v.size(); ++o) {
      const Difference& d = slopes.of[o];
      if ((d.moves && still_noise_[o] <= kRough * noise_[o]) || v[o] == 0) continue;
      const double error = least_error(std::max(noise_[o], still_noise_[o]), d.step);
      hidden = std::hypot(hidden, v[o] / unit * error);
      expected -= v[o] / unit * d.value, moving[o] = 0;
    }
    const double of_moving = hidden > 0 ? given(slopes, moving, gradient_for(moving)) : e.given;
    if (std::abs(of_moving - expected) <= e.tolerance)
      e.tolerance += 2 * hidden, hides_[along.entry.input] = true;
  }
  e.resolved = e.tolerance <= effort_.resolved * e.terms || (e.terms == 0 && e.given == e.expected);
  return e;
}

ComparedGradient Checker::compared_gradient() {
  if (comparisons_.empty()) return {};
  ComparedGradient g{f_.inputs, f_.outputs, y_, cotangents_, gradients_, {}, {}};
  g.right.resize(f_.inputs.size());
  // Other comparisons of one entry are for parts of a cotangent.
  for (const Comparison& e : comparisons_)
    if (const auto at = std::size_t(e.at); e.at != CheckedEntry::kDirection)
      if (auto& right = g.right[e.input][at];
          right.size() == e.cotangent && std::isfinite(e.tolerance) &&
          e.given == gradients_[e.cotangent][starts_[e.input] + at])
        right.push_back({e.expected, e.tolerance});
  const auto is_incomplete = [&](const auto& r) { return r.second.size() < cotangents_.size(); };
  for (Estimates& right : g.right) std::erase_if(right, is_incomplete);
  g.right_for = [this](std::size_t k, const std::vector<Values>& dys) {
    const OutputSlopes found = slopes(Oracle::kDifferences, along_entry(k));
    Values none(f_.x.size());  // gradient and noise of backward, which are not used
    std::vector<Estimate> right;
    for (const Values& dy : dys) {
      const Comparison e = compare(found, 0, dy, none, none);
      right.push_back({e.expected, e.tolerance});
    }
    return right;
  };
  return g;
}

std::vector<Comparison> Checker::compare_all(const OutputSlopes& slopes) {
  std::vector<Comparison> found;
  gradient_noise_.resize(cotangents_.size());
  for (std::size_t c = 0; c < cotangents_.size(); ++c)
    found.push_back(compare(slopes, c, cotangents_[c], gradients_[c], gradient_noise_[c]));
  return found;
}

// Stores the comparisons of one direction. If one of them is on a kink, stores only the direction,
// in kinks_, or the entry in stuck_ if it was moved before and stays on a kink. Returns false if a
// comparison fails or if an entry must be moved. On a kink, each gradient between the derivatives
// on its two sides is right, and all others are wrong.
bool Checker::keep(const std::vector<Comparison>& found) {
  const auto kinked =
      std::find_if(found.begin(), found.end(), [](const Comparison& e) { return e.on_kink; });
  if (kinked != found.end()) {
    for (const Comparison& e : found)
      if (e.is_beyond_kink() && !shares_kink(*e.along))
        report_.refuse(Verdict::kWrong, e.name(), " is on a kink: backward returns ", e.given,
                       " for a random dy, the gradient of the output; right are the numbers from ",
                       e.expected - e.reach, " to ", e.expected + e.reach,
                       ", the derivatives on its two sides");
    const std::size_t k = kinked->along->moves[0].first;
    if (kinked->is_fast || (moved_.contains(k) && moved_.at(k).times == kMostMoves))
      return stuck_.emplace(k, kinked->is_fast), true;
    kinks_.push_back(kinked->along);
    return false;
  }
  comparisons_.insert(comparisons_.end(), found.begin(), found.end());
  return std::all_of(found.begin(), found.end(), [](const Comparison& e) { return e.passes(); });
}

// Reports the worst comparison of an oracle. If a comparison failed, reports the failure too. The
// comparisons of the oracle start at index `first`.
void Checker::judge(Oracle oracle, std::size_t first) {
  const Comparison* worst = nullptr;
  std::size_t failed = 0;
  for (std::size_t k = first; k < comparisons_.size(); ++k) {
    const Comparison& e = comparisons_[k];
    failed += !e.passes();
    const bool counts = !e.passes() || (e.resolved && e.at != CheckedEntry::kDirection);
    if (counts && (!worst || is_worse(e, *worst))) worst = &e;
  }
  if (!worst) return;
  by(oracle).worst = *worst;
  if (failed > 0 && kinks_.empty())
    fail(reason(oracle, *worst) + "; " + std::to_string(failed) + " of " +
         std::to_string(comparisons_.size() - first) + " comparisons fail");
}

// Returns a text with the entry, its value by backward and its value by the oracle. The values are
// derivatives of one output, the output for which they differ most. If the derivatives of each
// single output are right (backward is then not linear), the values are those for the random
// cotangent.
std::string Checker::reason(Oracle oracle, const Comparison& worst) {
  if (!std::isfinite(worst.tolerance))
    return worst.name() + ": " + f_.names.forward +
           " is not finite at points near x that differences evaluate";
  CheckedEntry shown = worst;
  double largest = 0;
  const Values& v = cotangents_[worst.cotangent];
  std::string of_output;
  const OutputSlopes by_oracles = slopes(oracle, worst.along);
  const std::size_t outputs = cotangents_[0].size();
  for (std::size_t o = 0; o < outputs && outputs <= kMostOutputs; ++o) {
    Values one(outputs, 0.0);
    one[o] = 1;
    const double by_backward = given(by_oracles, one, gradient_for(one));
    const double by_oracle = by_oracles.of[o].value / worst.along->unit();
    const double differs = std::abs(by_backward - by_oracle);
    if (std::abs(v[o]) * differs <= worst.tolerance || differs <= largest) continue;
    shown.given = by_backward, shown.expected = by_oracle, largest = differs;
    shown.terms = by_oracles.terms[o] / std::abs(worst.along->unit());
    of_output = " for " + output_name(o);
    if (!std::isfinite(differs)) break;
  }
  TextStream text;
  const bool is_near = std::abs(shown.given - shown.expected) <= 1e-8 * std::abs(shown.given);
  text.precision(is_near ? 16 : 10);
  text << shown.name() << ": " << f_.names.backward << " returns " << shown.given << ", "
       << report_.oracle_name(order_, oracle) << " give " << shown.expected << of_output;
  text.precision(3);
  text << " (" << std::floor(10 * shown.digits()) / 10 << " digits agree)";
  return text.str();
}

}  // namespace heed::autograd
