#include "autograd/check/checker.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <sstream>

namespace heed::autograd {
namespace {

constexpr int kCotangents = 3, kMostMoves = 4;
// Factors of the second and the third cotangent. They detect a backward pass that clips large
// cotangents or ignores small ones.
constexpr double kLarger = 64, kSmaller = 0x1p-10;
// If the rounding noise of an output is below this fraction of the noise of another, a further
// cotangent is used that is zero for the noisier output; at most kMostQuiet of them.
constexpr double kQuiet = 0x1p-12;
constexpr int kMostQuiet = 4;
// If a comparison in a random direction fails, about this many entries are compared to find the
// wrong entry.
constexpr std::int64_t kMostEntries = 2000;
// If a function has more outputs than this, the error text does not name the wrong output.
constexpr std::size_t kMostOutputs = 4096;
// Number of rounding errors allowed in a sum of terms, because backward and the oracle may add the
// terms in different orders.
constexpr double kRoundings = 0x1p10;
// If a tolerance is at most this fraction of the terms, the entry needs no second comparison with a
// wider step.
constexpr double kSharp = 0x1p-16;

// Returns the unit roundoff of the function's type.
double roundoff(const CheckedFunction& f) { return f.single ? 0x1p-24 : 0x1p-53; }
// Returns the smallest positive number of the function's type. Numbers near it have fewer digits.
double smallest(const CheckedFunction& f) {
  return f.single ? double(std::numeric_limits<float>::denorm_min())
                  : std::numeric_limits<double>::denorm_min();
}
// Returns the argument `scale` of measure_noise(), which evaluates points that are 2^-26 * scale
// apart. In float, more distant points are needed, because float has 24 bits.
double noise_spread(const CheckedFunction& f) { return f.single ? 0x1p9 : 1; }

// Returns the smallest power of two above |x|, or 1 if x is 0.
double power_of_two_above(double x) {
  int exponent;
  std::frexp(x, &exponent);
  return std::ldexp(1, exponent);
}

double dot(const Values& a, const Values& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}

Values times(Values a, double factor) {
  for (double& e : a) e *= factor;
  return a;
}

// Returns the sum of |a_i b_i|.
double absolute_dot(const Values& a, const Values& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += std::abs(a[i] * b[i]);
  return total;
}

bool is_not_finite(double x) { return !std::isfinite(x); }
bool is_not_zero(double x) { return x != 0; }

// Returns difference(), with a more careful error estimate if the function computes in float. In
// float, the estimated error of a single step can be small by accident. So the error is raised to
// at least twice the distance to the results of two other step sizes. In double, the first step is
// usually exact enough.
Difference careful_difference(const Line& line, const Values& v, const Values& noise, bool single) {
  Difference d = difference(line, v, noise, 1, single);
  if (single)
    for (const double scale : {0.75, 0.625})
      d.error = std::max(d.error,
                         2 * std::abs(difference(line, v, noise, scale, single).value - d.value));
  return d;
}

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

double Direction::dot(const Values& gradient) const {
  double total = 0;
  for (const auto& [k, by] : moves) total += gradient[k] * (by / unit());
  return total;
}

Values Direction::from(Values x, double t) const {
  for (const auto& [k, by] : moves) x[k] += t * by;
  return x;
}

bool Comparison::passes(double value) const {
  return std::isfinite(tolerance) && std::abs(value - expected) <= tolerance;
}

Values random_cotangent(std::size_t n, Generator& random) {
  Values v;
  for (std::size_t o = 0; o < n; ++o) {
    const double size = 0.5 + double(random.next_u32() % 1024) / 1024;
    v.push_back(random.next_u32() % 2 == 0 ? -size : size);
  }
  return v;
}

Checker::Checker(CheckedFunction f, const CheckEffort& effort, std::uint64_t seed, int order,
                 CheckReport& report)
    : f_(std::move(f)), effort_(effort), order_(order), random_(seed), report_(report) {
  report_.order = order;
  report_.seed = seed;
  report_.entries[order - 1] = std::ssize(f_.x);
  starts_.push_back(0);
  for (const Shape& shape : f_.inputs) {
    const std::size_t begin = starts_.back(), end = begin + std::size_t(shape.numel());
    double squares = 0;
    for (std::size_t k = begin; k < end; ++k) squares += f_.x[k] * f_.x[k];
    const double typical = std::sqrt(squares / double(end - begin));
    typical_.push_back(typical > 0 ? power_of_two_above(typical) : 1);
    starts_.push_back(end);
  }
}

void Checker::run() {
  for (int moves = 0; prepare(); ++moves) {
    for (const Oracle oracle : kAllOracles)
      if (report_.ok() && kinks_.empty()) check_by(oracle);
    if (kinks_.empty() || !report_.ok()) return;
    if (moves == kMostMoves)
      return fail(kinks_[0].entry.name() + ": still on a kink after it was moved " +
                  std::to_string(kMostMoves) + " times");
    for (const Direction& along : kinks_) move(along);
  }
}

CheckedEntry Checker::entry_at(std::size_t k) const {
  const auto input =
      std::size_t(std::upper_bound(starts_.begin(), starts_.end(), k) - starts_.begin()) - 1;
  const auto at = std::int64_t(k - starts_[input]);
  const Dims index = unravel(at, f_.inputs[input]);
  return {.input = input, .at = at, .index = {index.begin(), index.end()}};
}

std::string Checker::find_in_inputs(const Values& values, bool (*bad)(double)) const {
  const auto found = std::find_if(values.begin(), values.end(), bad);
  return found == values.end() ? "" : entry_at(std::size_t(found - values.begin())).name();
}

std::string Checker::output_name(std::size_t o) const {
  auto at = std::int64_t(o);
  std::size_t i = 0;
  while (at >= f_.outputs[i].numel()) at -= f_.outputs[i++].numel();
  const std::string index = to_text(unravel(at, f_.outputs[i]));
  return f_.outputs.size() == 1 ? "output " + index
                                : "output " + std::to_string(i) + " at " + index;
}

double Checker::own_scale(std::size_t k) const {
  return f_.x[k] == 0 ? typical_[entry_at(k).input] : power_of_two_above(f_.x[k]);
}

Direction Checker::random_direction(std::size_t begin, std::size_t end) {
  Direction d;
  for (std::size_t k = begin; k < end; ++k)
    d.moves.emplace_back(k, random_.next_u32() % 2 == 0 ? -own_scale(k) : own_scale(k));
  return d;
}

Values Checker::shifted(const Direction& along, double t) const {
  Values moved = along.from(f_.x, t);
  if (f_.single)
    for (double& e : moved) e = double(float(e));
  return moved;
}

// Returns f on a line through x. The values are cached, because several differences use the same
// points.
Line Checker::line_along(const Direction& along) const {
  const auto seen = std::make_shared<std::map<double, Values>>();
  return [this, &along, seen](double t) {
    const auto [place, is_new] = seen->try_emplace(t);
    if (is_new) place->second = f_.forward(shifted(along, t));
    return place->second;
  };
}

const ExactDerivative& Checker::exact(const Direction& along) {
  const auto& [k, by] = along.moves[0];
  const auto [place, is_new] = exact_.try_emplace({along.entry.at, k, by});
  if (is_new) place->second = f_.exact(f_.x, along.from(Values(f_.x.size(), 0.0), 1));
  return place->second;
}

// Returns the error that rounding inside backward causes along a direction, for cotangent c. The
// returned error is at most a fraction of the largest |gradient entry * step of this entry along
// the direction|. Otherwise a backward whose result is mostly noise would pass.
double Checker::noise_along(std::size_t c, const Direction& along) {
  Values& noise = gradient_noise_[c];
  if (noise.empty()) {
    const Direction all = random_direction(0, f_.x.size());
    const Line line = [&](double t) { return f_.backward(shifted(all, t), cotangents_[c]); };
    noise = measure_noise(line, noise_spread(f_), roundoff(f_));
    double largest = 0;
    for (const auto& [k, by] : all.moves)
      largest = std::max(largest, std::abs(gradients_[c][k] * by));
    for (const auto& [k, by] : all.moves)
      noise[k] = std::min(8 * noise[k], std::cbrt(roundoff(f_)) * largest / std::abs(by));
  }
  double total = 0;
  for (const auto& [k, by] : along.moves) total += std::abs(by / along.unit()) * noise[k];
  return total;
}

// Draws the cotangents, runs backward and makes the checks that need no oracle. Returns false if
// one of these checks failed.
bool Checker::prepare() {
  for (const Oracle oracle : kAllOracles) by(oracle) = {};
  comparisons_.clear(), kinks_.clear(), exact_.clear(), directions_.clear();
  cotangents_.clear(), gradients_.clear(), gradient_noise_.clear();
  by(Oracle::kDual).worst.expected = std::nan("");  // replaced by 0 below if no check fails
  const Values y = f_.forward(f_.x);
  const auto bad = std::find_if(y.begin(), y.end(), is_not_finite);
  if (bad != y.end()) fail("not finite: " + output_name(std::size_t(bad - y.begin())));
  if (y != f_.forward(f_.x)) fail("a second run of forward returns different bits");
  if (report_.ok()) add_cotangents(y.size());
  if (!report_.ok()) return false;
  const Values zeros(y.size(), 0.0);
  if (const auto at = find_in_inputs(f_.backward(f_.x, zeros), is_not_zero); !at.empty())
    fail("the gradient of zero cotangents is not zero: " + at);
  by(Oracle::kDual).worst.expected = 0;
  const Direction all = random_direction(0, f_.x.size());
  if (effort_.entries[int(Oracle::kDifferences)] > 0) {
    noise_ = measure_noise(line_along(all), noise_spread(f_), roundoff(f_));
    for (double& n : noise_) n = std::max(n, smallest(f_));
    add_quiet_cotangents();
  }
  for (std::size_t i = 0; i < f_.inputs.size(); ++i)
    if (starts_[i] < starts_[i + 1]) {
      directions_.push_back(random_direction(starts_[i], starts_[i + 1]));
      directions_.back().entry.input = i;
    }
  return report_.ok();
}

// Adds three random cotangents. The second is larger and has the opposite signs of the first; the
// third is the first, made smaller. A factor is left out if the gradient would become too large or
// too small for the type. Factors are powers of two, which do not change rounding errors.
void Checker::add_cotangents(std::size_t outputs) {
  const Values first = random_cotangent(outputs, random_);
  run_backward(first);
  if (!report_.ok()) return;
  Values second = random_cotangent(outputs, random_);
  for (std::size_t o = 0; o < outputs; ++o) second[o] = std::copysign(second[o], -first[o]);
  const Values larger = times(second, kLarger), g = f_.backward(f_.x, larger);
  run_backward(std::any_of(g.begin(), g.end(), is_not_finite) ? second : larger);
  if (!report_.ok()) return;
  // Entries that become subnormal would lose digits.
  const double least =
      f_.single ? double(std::numeric_limits<float>::min()) : std::numeric_limits<double>::min();
  const auto is_too_small = [&](double e) { return e != 0 && std::abs(e) * kSmaller < least; };
  const bool fits = std::none_of(gradients_[0].begin(), gradients_[0].end(), is_too_small);
  run_backward(fits ? times(first, kSmaller) : first);
}

// Adds cotangents that are zero for the noisiest outputs, whose rounding errors hide the
// derivatives of other outputs.
void Checker::add_quiet_cotangents() {
  if (noise_.empty()) return;
  double largest = *std::max_element(noise_.begin(), noise_.end());
  std::size_t before = noise_.size();  // number of outputs that the last cotangent covers
  for (int c = 0; c < kMostQuiet && std::isfinite(largest); ++c) {
    const double limit = kQuiet * largest;
    Values v = cotangents_[0];
    std::size_t left = 0;
    largest = 0;
    for (std::size_t o = 0; o < v.size(); ++o) {
      if (noise_[o] > limit) {
        v[o] = 0;
      } else {
        ++left;
        largest = std::max(largest, noise_[o]);
      }
    }
    if (left == 0 || left == before) return;
    run_backward(v);
    before = left;
  }
}

void Checker::run_backward(const Values& v) {
  const Values g = f_.backward(f_.x, v);
  if (const auto at = find_in_inputs(g, is_not_finite); !at.empty())
    fail("not finite: the gradient of " + at);
  if (g != f_.backward(f_.x, v)) fail("a second run of backward returns different bits");
  cotangents_.push_back(v);
  gradients_.push_back(g);
}

void Checker::check_by(Oracle oracle) {
  const std::int64_t count = effort_.entries[int(oracle)];
  if (count == 0 || f_.x.empty()) return;
  const std::size_t first = comparisons_.size();
  bool right = compare_entries(oracle, count);
  for (const Direction& along : directions_) {
    const std::int64_t n = std::ssize(along.moves);
    if (right && sample_size(n, count) < n) right = compare_direction(oracle, along);
  }
  judge(oracle, first);
}

// Returns the number of entries of one input that are compared one by one. The input has n entries,
// and about `count` entries of all inputs together are compared.
std::int64_t Checker::sample_size(std::int64_t n, std::int64_t count) const {
  const double share = double(count) / double(f_.x.size());
  return std::min(n, std::max(effort_.fewest, std::int64_t(std::min(share, 1.0) * double(n))));
}

// Compares a sample of the entries of each input. The positions are evenly spaced and then shifted
// by random amounts, because otherwise they could all be in one column. Returns false if an entry
// fails or is on a kink.
bool Checker::compare_entries(Oracle oracle, std::int64_t count) {
  const auto is_sharp = [](const Comparison& e) { return e.tolerance <= kSharp * e.terms; };
  const auto is_resolved = [](const Comparison& e) { return e.resolved; };
  const auto is_seen = [](const Comparison& e) { return e.resolved && e.terms > 0; };
  bool right = true;
  for (std::size_t i = 0; i < f_.inputs.size(); ++i) {
    const auto n = std::int64_t(starts_[i + 1] - starts_[i]);
    const std::int64_t taken = sample_size(n, count);
    for (std::int64_t s = 0; s < taken; ++s) {
      const double within = taken == n ? 0 : random_.uniform_double();
      const double place = (double(s) + within) * double(n) / double(taken);
      const std::size_t k = starts_[i] + std::size_t(std::min(n - 1, std::int64_t(place)));
      const double own = own_scale(k);
      std::vector<Comparison> found = compare(oracle, {entry_at(k), {{k, own}}});
      // If an entry is far smaller than the rest of its input, f may hardly change over a step of
      // the entry's own size. Then a wider step is tried too. The result of the wider step is used
      // if it agrees with the result of the first step and is more precise. If they disagree, the
      // wider step may have jumped over a singularity. If the first step is not precise enough and
      // the wider step finds a kink, the entry counts as being on a kink.
      if (oracle == Oracle::kDifferences && own < typical_[i] &&
          !std::all_of(found.begin(), found.end(), is_sharp)) {
        const auto wider = compare(oracle, {entry_at(k), {{k, typical_[i]}}});
        for (std::size_t c = 0; c < found.size(); ++c)
          if (narrows(wider[c], found[c]) || (wider[c].on_kink && !found[c].resolved))
            found[c] = wider[c];
      }
      // A quiet cotangent suffices, unless no output depends on the entry.
      by(oracle).checked += std::all_of(found.begin(), found.begin() + kCotangents, is_resolved) ||
                            std::any_of(found.begin() + kCotangents, found.end(), is_seen);
      right = keep(found) && right;
    }
  }
  return right;
}

// Compares the gradient along a random direction of one input with the oracle. Returns false if it
// fails or is on a kink.
bool Checker::compare_direction(Oracle oracle, const Direction& along) {
  const std::vector<Comparison> found = compare(oracle, along);
  by(oracle).direction = found[0];
  const bool on_kink =
      std::any_of(found.begin(), found.end(), [](const Comparison& e) { return e.on_kink; });
  if (!on_kink && keep(found)) return true;
  // An entry outside the sample is wrong or on a kink. More entries are compared to find it.
  return compare_entries(oracle, kMostEntries) && on_kink;
}

std::vector<Comparison> Checker::compare(Oracle oracle, const Direction& along) {
  const ExactDerivative* truth = f_.exact ? &exact(along) : nullptr;
  const Line line = line_along(along);
  const double unit = along.unit();
  std::vector<Comparison> found;
  for (std::size_t c = 0; c < cotangents_.size(); ++c) {
    const Values& v = cotangents_[c];
    Comparison e;
    static_cast<CheckedEntry&>(e) = along.entry;
    e.along = along, e.cotangent = c;
    e.given = along.dot(gradients_[c]);
    if (oracle == Oracle::kDual) {
      e.expected = dot(v, truth->derivative) / unit;
    } else {
      const Difference d = careful_difference(line, v, noise_, f_.single);
      e.expected = d.value / unit;
      e.terms = d.terms / unit;
      e.step = d.step * unit;
      e.on_kink = d.kink;
      e.tolerance = 2 * d.error / unit;
    }
    if (truth) e.terms = absolute_dot(v, truth->terms) / unit;
    e.rounding = kRoundings * roundoff(f_) * e.terms;
    e.tolerance += e.rounding;
    if (!e.passes() && std::isfinite(e.tolerance)) {
      const double noise = noise_along(c, along);
      e.rounding += noise, e.tolerance += noise;
    }
    e.resolved =
        e.tolerance <= effort_.resolved * e.terms || (e.terms == 0 && e.given == e.expected);
    found.push_back(std::move(e));
  }
  return found;
}

// Stores the comparisons of one direction. If one of them is on a kink, stores only the direction,
// in kinks_. Returns false if a comparison fails or is on a kink.
bool Checker::keep(const std::vector<Comparison>& found) {
  const auto kinked =
      std::find_if(found.begin(), found.end(), [](const Comparison& e) { return e.on_kink; });
  if (kinked != found.end()) return kinks_.push_back(kinked->along), false;
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
  if (worst) by(oracle).worst = *worst;
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
    return worst.name() + ": forward is not finite at points near x that differences evaluate";
  double given = worst.given, expected = worst.expected, largest = 0;
  const Values& v = cotangents_[worst.cotangent];
  std::string of_output;
  const Line line = line_along(worst.along);
  const std::size_t outputs = cotangents_[0].size();
  for (std::size_t o = 0; o < outputs && outputs <= kMostOutputs; ++o) {
    Values one(outputs, 0.0);
    one[o] = 1;
    const double by_backward = worst.along.dot(f_.backward(f_.x, one));
    const Line output = [&](double t) { return Values{line(t)[o]}; };
    const double by_oracle =
        (oracle == Oracle::kDual
             ? exact(worst.along).derivative[o]
             : difference(output, Values{1}, Values{noise_[o]}, 1, f_.single).value) /
        worst.along.unit();
    const double differs = std::abs(by_backward - by_oracle);
    if (std::abs(v[o]) * differs <= worst.tolerance || differs <= largest) continue;
    given = by_backward, expected = by_oracle, largest = differs;
    of_output = " for " + output_name(o);
    if (!std::isfinite(differs)) break;
  }
  std::ostringstream text;
  text.precision(std::abs(given - expected) <= 1e-8 * std::abs(given) ? 16 : 10);
  text << worst.name() << ": backward returns " << given << ", " << oracle_name(oracle) << " give "
       << expected << of_output;
  text.precision(3);
  text << " (" << worst.digits() << " digits agree)";
  return text.str();
}

// Moves an entry off a kink by 3 to 6 % of the entry's scale. The distance is random, so that two
// equal entries become different.
void Checker::move(const Direction& along) {
  const auto& [k, by] = along.moves[0];
  MovedEntry moved{along.entry, f_.x[k], 0};
  f_.x[k] = shifted(along, (1 + random_.uniform_double()) / 32)[k];
  moved.to = f_.x[k];
  report_.moved.push_back(moved);
}

}  // namespace heed::autograd
