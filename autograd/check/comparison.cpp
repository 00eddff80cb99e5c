#include <algorithm>
#include <span>

#include "autograd/base/text.h"
#include "autograd/check/checker.h"

namespace heed::autograd {
namespace {

constexpr int kCotangents = 4;
// If a comparison in a random direction finds a kink, about this many entries are tested to find
// the entry on the kink.
constexpr Index kMostEntries = 4096;
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

bool passes(const Comparison& e) { return e.passes(); }

}  // namespace

bool Comparison::passes(double value) const {
  return std::isfinite(tolerance) && std::abs(value - expected) <= tolerance;
}

void Comparisons::run() {
  for (std::size_t i = 0; i < point_.f.inputs.size(); ++i)
    if (point_.f.inputs[i].numel() > 0)
      directions_.push_back({std::make_shared<const Direction>(point_.random_direction(i)),
                             std::vector<bool>(point_.y.size())});
  if (!report_.ok() && !point_.noise.empty()) compare_entries(Oracle::kDifferences);
  for (const Oracle oracle : kAllOracles)
    if (report_.ok() && !kinks_.any()) compare_by(oracle);
}

void Comparisons::compare_by(Oracle oracle) {
  if (effort_.entries[int(oracle)] == 0 || point_.f.x.empty()) return;
  const std::size_t first = all_.size();
  bool right = compare_entries(oracle);
  for (InputDirection& d : directions_) {
    const std::size_t input = d.along->entry.input;
    const bool sampled = sample_size(oracle, input) < std::ssize(d.along->moves);
    if (right && (sampled || hides_.contains(input))) right = compare_direction(oracle, d);
  }
  judge(oracle, first);
}

// Returns the number of entries of one input that are compared one by one.
Index Comparisons::sample_size(Oracle oracle, std::size_t input) const {
  const Index n = point_.f.inputs[input].numel();
  const double share = double(effort_.entries[int(oracle)]) / double(point_.f.x.size());
  return std::min(n, std::max(effort_.fewest, Index(std::min(share, 1.0) * double(n))));
}

// Returns a sample of the entries of one input: a random one of each of `taken` pieces, because
// evenly spaced entries could all be in one column. The sample for one number `draw` is the same
// each time, so that the check ends after its entries were moved off their kinks.
std::vector<std::size_t> Comparisons::sample(std::size_t input, Index taken, int draw) const {
  const Index n = point_.f.inputs[input].numel();
  taken = std::min(n, taken);
  Generator random(report_.seed + input + std::uint64_t(draw) * point_.f.inputs.size());
  std::vector<std::size_t> entries;
  for (Index s = 0; s < taken; ++s) {
    const Index begin = s * n / taken, size = (s + 1) * n / taken - begin;
    const auto within = Index(random.uniform_double() * double(size));
    entries.push_back(point_.starts[input] + std::size_t(begin + within));
  }
  return entries;
}

// Compares a sample of the entries of each input. Returns false if an entry fails or is on a kink.
bool Comparisons::compare_entries(Oracle oracle) {
  bool right = true;
  for (std::size_t i = 0; i < point_.f.inputs.size(); ++i)
    for (const std::size_t k : sample(i, sample_size(oracle, i)))
      right = compare_entry(oracle, k) && right;
  return right;
}

// Compares entry k, unless a search for kinks did this before. Returns false if the entry fails or
// must be moved off a kink.
bool Comparisons::compare_entry(Oracle oracle, std::size_t k) {
  const auto is_right = [](const Comparison& e) { return e.on_kink || e.passes(); };
  const auto is_seen = [](const Comparison& e) { return e.resolved && e.terms > 0; };
  const bool by_differences = oracle == Oracle::kDifferences;
  if (!compared_.insert(k).second && by_differences) return true;
  if (!kinks_.is_stuck(k)) {
    std::vector<Comparison> found = compare_at_scales(oracle, k, false);
    // Only differences at several steps refute a gradient. They are repeated until one is refuted.
    if (by_differences && !refuted_ && !std::ranges::all_of(found, is_right)) {
      if (!point_.f.single()) found = compare_at_scales(oracle, k, true);
      refuted_ = !std::ranges::all_of(found, is_right) &&
                 !kinks_.are_near(*found[0].along, gradients[0].v);
      for (Comparison& e : found)
        if (!refuted_ && !e.passes()) e.on_kink = true, e.reach = HUGE_VAL;
    }
    const bool right = keep(found);
    // One cotangent that is zero for noisy outputs suffices, unless no output depends on the entry.
    const auto random = std::span(found).first(kCotangents),
               quiet = std::span(found).subspan(kCotangents);
    if (!kinks_.is_stuck(k)) {
      report_.by(oracle).checked +=
          std::ranges::all_of(random, &Comparison::resolved) || std::ranges::any_of(quiet, is_seen);
      return right;
    }
  }
  return !by_differences || compare_smooth_outputs(k);
}

// Compares entry k. If it is far smaller than the rest of its input, f may hardly change over a
// step of the entry's own size. Then a wider step is tried too. The result of the wider step is
// used if it agrees with the result of the first step and is more precise. If they disagree, the
// wider step may have jumped over a singularity. If the first step is not precise enough and the
// wider step finds a kink, the entry counts as being on a kink.
std::vector<Comparison> Comparisons::compare_at_scales(Oracle oracle, std::size_t k,
                                                       bool repeated) {
  const auto is_sharp = [](const Comparison& e) { return e.tolerance <= kSharp * e.terms; };
  const auto compare_at = [&](double scale) {
    return compare_all(point_.slopes(oracle, point_.along_entry(k, scale), repeated));
  };
  const double own = point_.own_scale(k), typical = point_.typical[point_.entry_at(k).input];
  std::vector<Comparison> found = compare_at(own);
  if (oracle == Oracle::kDual || own >= typical || std::ranges::all_of(found, is_sharp))
    return found;
  const std::vector<Comparison> wider = compare_at(typical);
  for (std::size_t c = 0; c < found.size(); ++c)
    if (narrows(wider[c], found[c]) || (wider[c].on_kink && !found[c].resolved))
      found[c] = wider[c];
  return found;
}

// Compares entry k, which stays on a kink, only for the outputs that have no kink there. Returns
// false if the comparison fails.
bool Comparisons::compare_smooth_outputs(std::size_t k) {
  const OutputSlopes found = point_.slopes(Oracle::kDifferences, point_.along_entry(k), true);
  Values v = gradients[0].v;
  for (std::size_t o = 0; o < v.size(); ++o)
    if (found.of[o].kink) v[o] = 0;
  if (std::ranges::count(v, 0.0) == std::ssize(v)) return true;
  Gradient smooth{v, point_.gradient_for(v)};
  all_.push_back(compare(found, smooth));
  return all_.back().passes();
}

// Compares the gradient of one input along a random direction with the oracle: for all outputs
// together, and for each group of outputs, because in a sum over all outputs the error of one entry
// could be smaller than the tolerance. Returns false if a comparison fails or an entry is on a
// kink.
bool Comparisons::compare_direction(Oracle oracle, InputDirection& input, bool repeated) {
  const Direction& along = *input.along;
  const bool by_differences = oracle == Oracle::kDifferences,
             can_repeat = by_differences && !repeated && !point_.f.single();
  OutputSlopes found = point_.slopes(oracle, input.along, repeated);
  std::vector<std::size_t> outputs;  // that are compared
  for (std::size_t o = 0; o < found.of.size(); ++o) {
    Difference& d = found.of[o];
    if (by_differences) input.kinked[o] = d.kink;
    // Each side of a kink has a derivative, and each is right. A kink is compared, too: the error
    // of the difference is larger than its jump.
    d.kink = by_differences ? d.is_fast : input.kinked[o];
    if (!d.kink) outputs.push_back(o);
  }
  if (by_differences && std::ranges::count(input.kinked, true) > 0 &&
      ++kinks_.searches <= kMostSearches)
    for (const std::size_t k : sample(along.entry.input, kMostEntries, kinks_.searches))
      if (std::ranges::count(kinks_.along(*point_.along_entry(k)), true) > 0)
        compare_entry(oracle, k);
  if (kinks_.any()) return false;
  bool right = true;
  Gradient* failed = nullptr;
  if (outputs.size() == found.of.size()) {
    const std::vector<Comparison> all = compare_all(found);
    if (can_repeat && !std::ranges::all_of(all, passes))
      return compare_direction(oracle, input, true);
    report_.by(oracle).direction = all[0];
    right = keep(all);
    for (const Comparison& e : all)
      if (!e.passes()) failed = &gradients[e.cotangent];
  }
  const std::size_t size = (outputs.size() + kMostGroups - 1) / kMostGroups;
  for (std::size_t first = 0; found.of.size() > 1 && first < outputs.size(); first += size) {
    Values v(found.of.size());
    for (const std::size_t o :
         std::span(outputs).subspan(first, std::min(size, outputs.size() - first)))
      v[o] = gradients[0].v[o];
    Gradient group{v, point_.gradient_for(v)};
    const Comparison e = compare(found, group);
    if (e.passes()) continue;
    if (can_repeat) return compare_direction(oracle, input, true);
    all_.push_back(e);
    find_wrong_entry(oracle, along, group);
    return false;
  }
  if (failed) find_wrong_entry(oracle, along, *failed);
  return right;
}

// Searches the entry that makes the comparison of a gradient along `along` fail: continues with a
// half of the direction along which the comparison fails, too. Stores the comparison of the entry,
// unless errors of several entries cancel in each half.
void Comparisons::find_wrong_entry(Oracle oracle, const Direction& along, Gradient& gradient) {
  if (along.moves.size() < 2) return;
  const auto begin = along.moves.begin(), end = along.moves.end(),
             middle = begin + (end - begin) / 2;
  for (const auto& pairs : {std::span(begin, middle), std::span(middle, end)}) {
    Direction half{along.entry, std::vector(pairs.begin(), pairs.end())};
    if (half.moves.size() == 1) half.entry = point_.entry_at(half.moves[0].first);
    const Comparison e =
        compare(point_.slopes(oracle, std::make_shared<const Direction>(half)), gradient);
    if (e.passes()) continue;
    if (half.moves.size() > 1) return find_wrong_entry(oracle, half, gradient);
    return all_.push_back(e);
  }
}

// Compares a gradient with slopes. The noise of the gradient is measured if it is needed. The signs
// of the cotangent are random, so the errors of different outputs add up like independent errors:
// as the root of the sum of their squares.
Comparison Comparisons::compare(const OutputSlopes& slopes, Gradient& gradient) {
  const CheckedFunction& f = point_.f;
  const Values& v = gradient.v;
  const Direction& along = *slopes.along;
  Comparison e{along.entry, gradient.cotangent, slopes.along};
  e.given = point_.given(slopes, v, gradient.g);
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
  e.rounding = kRoundings * f.roundoff * terms;
  e.tolerance = 2 * seen + e.rounding;
  const auto fails = [&] { return !e.passes() && std::isfinite(e.tolerance); };
  if (fails() && f.backward) {
    if (gradient.noise.empty()) gradient.noise = noise_of(gradient);
    double total = 0;
    for (const auto& [k, by] : along.moves)
      total = std::hypot(total, by / unit * gradient.noise[k]);
    e.rounding += total, e.tolerance += total;
  }
  // The rounding of an output that does not move, or moves in jumps, can hide its derivative. Its
  // error is allowed only if the gradient of the other outputs is right.
  if (e.step != 0 && fails()) {  // not by the exact oracle
    Values moving = v;
    double hidden = 0, expected = e.expected;
    if (still_noise_.empty()) still_noise_ = point_.noise_of_still(f.forward);
    for (std::size_t o = 0; o < v.size(); ++o) {
      const Difference& d = slopes.of[o];
      const double noise = point_.noise[o], still = still_noise_[o];
      if ((d.moves && still <= kRough * noise) || v[o] == 0) continue;
      hidden = std::hypot(hidden, v[o] / unit * least_error(std::max(noise, still), d.step));
      expected -= v[o] / unit * d.value, moving[o] = 0;
    }
    if (hidden > 0 && std::abs(point_.given(slopes, moving, point_.gradient_for(moving)) -
                               expected) <= e.tolerance)
      e.tolerance += 2 * hidden, hides_.insert(e.input);
  }
  e.resolved = e.tolerance <= effort_.resolved * e.terms || (e.terms == 0 && e.given == e.expected);
  return e;
}

// Returns the error of each entry of a gradient that rounding inside backward causes. Times the
// step of a random direction, noise between near points is at most a fraction of the largest
// |gradient entry * step|. Otherwise a backward whose result is mostly noise would pass.
Values Comparisons::noise_of(const Gradient& gradient) const {
  Values noise = point_.noise_of_backward(gradient.v);
  const Values still =
      point_.noise_of_still([&](const Values& x) { return point_.f.backward(x, gradient.v); });
  double largest = 0;
  for (std::size_t k = 0; k < noise.size(); ++k)
    largest = std::max(largest, std::abs(gradient.g[k] * point_.own_scale(k)));
  for (std::size_t k = 0; k < noise.size(); ++k)
    noise[k] = std::max(
        still[k], std::min(noise[k], std::cbrt(point_.f.roundoff) * largest / point_.own_scale(k)));
  return noise;
}

ComparedGradient Comparisons::compared_gradient() {
  if (all_.empty()) return {};
  ComparedGradient compared{point_.f.inputs, point_.f.outputs, point_.y, {}, {}, {}, {}};
  for (const Gradient& e : gradients)
    compared.dys.push_back(e.v), compared.gradients.push_back(e.g);
  compared.right.resize(point_.f.inputs.size());
  // Other comparisons of one entry are for parts of a cotangent.
  for (const Comparison& e : all_)
    if (const auto at = std::size_t(e.at); e.at != CheckedEntry::kDirection)
      if (auto& right = compared.right[e.input][at];
          right.size() == e.cotangent && std::isfinite(e.tolerance) &&
          e.given == gradients[e.cotangent].g[point_.starts[e.input] + at])
        right.push_back({e.expected, e.tolerance});
  const auto is_incomplete = [&](const auto& r) { return r.second.size() < gradients.size(); };
  for (Estimates& right : compared.right) std::erase_if(right, is_incomplete);
  compared.right_for = [this](std::size_t k, const std::vector<Values>& dys) {
    const OutputSlopes found = point_.slopes(Oracle::kDifferences, point_.along_entry(k));
    const Values unused(point_.f.x.size());  // for the gradient and its noise
    std::vector<Estimate> right;
    for (const Values& dy : dys) {
      Gradient of_dy{dy, unused, 0, unused};
      const Comparison e = compare(found, of_dy);
      right.push_back({e.expected, e.tolerance});
    }
    return right;
  };
  return compared;
}

// Returns one comparison for each cotangent.
std::vector<Comparison> Comparisons::compare_all(const OutputSlopes& slopes) {
  std::vector<Comparison> found;
  for (Gradient& gradient : gradients) found.push_back(compare(slopes, gradient));
  return found;
}

// Stores the comparisons of one direction. If one of them is on a kink, adds its entry to the kinks
// instead. Returns false if a comparison fails or if an entry must be moved. On a kink, each
// gradient between the derivatives on its two sides is right, and all others are wrong.
bool Comparisons::keep(const std::vector<Comparison>& found) {
  const auto kinked = std::ranges::find_if(found, &Comparison::on_kink);
  if (kinked == found.end()) {
    all_.insert(all_.end(), found.begin(), found.end());
    return std::ranges::all_of(found, passes);
  }
  for (const Comparison& e : found)
    if (e.on_kink && std::abs(e.given - e.expected) > e.reach + e.rounding &&
        !kinks_.are_shared(*e.along))
      report_.refuse(Verdict::kWrong, e.name(), " is on a kink: backward returns ", e.given,
                     " for a random dy, the gradient of the output; right are the numbers from ",
                     e.expected - e.reach, " to ", e.expected + e.reach,
                     ", the derivatives on its two sides");
  return kinks_.stays(kinked->along, kinked->is_fast);
}

// Reports the worst comparison of an oracle. If a comparison failed, reports the failure too. The
// comparisons of the oracle start at index `first`.
void Comparisons::judge(Oracle oracle, std::size_t first) {
  const Comparison* worst = nullptr;
  std::size_t failed = 0;
  for (const Comparison& e : std::span(all_).subspan(first)) {
    failed += !e.passes();
    const bool counts = !e.passes() || (e.resolved && e.at != CheckedEntry::kDirection);
    if (counts && (!worst || is_worse(e, *worst))) worst = &e;
  }
  if (!worst) return;
  report_.by(oracle).worst = *worst;
  if (failed > 0 && !kinks_.any())
    report_.refuse(Verdict::kWrong, reason(oracle, *worst), "; ", failed, " of ",
                   all_.size() - first, " comparisons fail");
}

// Returns a text with the entry, its value by backward and its value by the oracle. The values are
// derivatives of one output, the output for which they differ most. If the derivatives of each
// single output are right (backward is then not linear), the values are those for the random
// cotangent.
std::string Comparisons::reason(Oracle oracle, const Comparison& worst) const {
  const FunctionNames& names = point_.f.names;
  if (!std::isfinite(worst.tolerance))
    return worst.name() + ": " + names.forward +
           " is not finite at points near x that differences evaluate";
  CheckedEntry shown = worst;
  double largest = 0;
  const Values& v = gradients[worst.cotangent].v;
  std::string of_output;
  const OutputSlopes slopes = point_.slopes(oracle, worst.along);
  for (std::size_t o = 0; o < v.size() && v.size() <= kMostOutputs; ++o) {
    Values one(v.size());
    one[o] = 1;
    const double unit = worst.along->unit(),
                 by_backward = point_.given(slopes, one, point_.gradient_for(one)),
                 by_oracle = slopes.of[o].value / unit, differs = std::abs(by_backward - by_oracle);
    if (std::abs(v[o]) * differs <= worst.tolerance || differs <= largest) continue;
    shown.given = by_backward, shown.expected = by_oracle, largest = differs;
    shown.terms = slopes.terms[o] / std::abs(unit);
    of_output = " for " + point_.output_name(o);
    if (!std::isfinite(differs)) break;
  }
  TextStream text;
  const bool is_near = std::abs(shown.given - shown.expected) <= 1e-8 * std::abs(shown.given);
  text.precision(is_near ? 16 : 10);
  text << shown.name() << ": " << names.backward << " returns " << shown.given << ", "
       << report_.oracle_name(report_.order, oracle) << " give " << shown.expected << of_output;
  text.precision(3);
  text << " (" << std::floor(10 * shown.digits()) / 10 << " digits agree)";
  return text.str();
}

}  // namespace heed::autograd
