#include "autograd/check/checker.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

namespace heed::autograd {
namespace {

// Factors of the second and the third cotangent. They detect a backward pass that clips large
// cotangents or ignores small ones.
constexpr double kLarger = 64, kSmaller = 0x1p-10;
// If the rounding noise of an output is below this fraction of the noise of another, a further
// cotangent is used that is zero for the noisier output; at most kMostQuiet of them.
constexpr double kQuiet = 0x1p-12;
constexpr int kMostQuiet = 4;

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

Values times(Values a, double factor) {
  for (double& e : a) e *= factor;
  return a;
}

bool is_not_finite(double x) { return !std::isfinite(x); }
bool is_not_zero(double x) { return x != 0; }

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
  while (prepare()) {
    for (const Oracle oracle : kAllOracles)
      if (report_.ok() && kinks_.empty()) check_by(oracle);
    if (!report_.ok()) break;
    if (kinks_.empty()) {
      if (mirrored_ || moves_.empty()) break;
      mirror();
    }
    for (const Direction& along : kinks_) move(along);
  }
  report_.on_kink += std::ssize(stuck_);
  for (const std::size_t k : stuck_) {
    const std::size_t input = entry_at(k).input;
    const auto is_moved_off = [&](std::size_t other) {
      return entry_at(other).input == input && !stuck_.contains(other);
    };
    if (std::ranges::none_of(compared_[0], is_moved_off) &&
        std::ranges::none_of(compared_[1], is_moved_off))
      report_.refuse(Verdict::kVacuous,
                     "input " + std::to_string(input) +
                         ": all entries that were compared stay on a kink, where the function has "
                         "no derivative; choose other inputs");
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

// Returns the derivatives of all outputs along a direction.
OutputSlopes Checker::slopes(Oracle oracle, const Direction& along) {
  const std::size_t n = cotangents_[0].size();
  ExactDerivative truth;
  if (f_.exact) truth = f_.exact(f_.x, along.from(Values(f_.x.size(), 0.0), 1));
  if (oracle == Oracle::kDual)
    return {truth.derivative, Values(n), truth.terms, std::vector<bool>(n),
            std::vector<bool>(n, true)};
  OutputSlopes s;
  double largest = -1;
  for (const Difference& d : differences(line_along(along), noise_, 1, f_.single)) {
    s.value.push_back(d.value), s.error.push_back(d.error), s.terms.push_back(std::abs(d.value));
    s.kink.push_back(d.kink), s.moves.push_back(d.moves);
    if (std::abs(d.value) > largest) largest = std::abs(d.value), s.step = d.step;
  }
  if (f_.exact) s.terms = truth.terms;
  return s;
}

// Returns the error that rounding inside backward causes in each entry of `gradient`, the gradient
// for cotangent v. Each error times the entry's step in a random direction is limited to a fraction
// of the largest |gradient entry * step|: without a limit, a backward of mostly noise would pass.
Values Checker::noise_of_backward(const Values& v, const Values& gradient) {
  const Direction all = random_direction(0, f_.x.size());
  const Line line = [&](double t) { return f_.backward(shifted(all, t), v); };
  Values noise = measure_noise(line, noise_spread(f_), f_.roundoff());
  double largest = 0;
  for (const auto& [k, by] : all.moves) largest = std::max(largest, std::abs(gradient[k] * by));
  for (const auto& [k, by] : all.moves)
    noise[k] = std::min(8 * noise[k], std::cbrt(f_.roundoff()) * largest / std::abs(by));
  return noise;
}

// Draws the cotangents, runs backward and makes the checks that need no oracle. Returns false if
// one of these checks failed.
bool Checker::prepare() {
  for (const Oracle oracle : kAllOracles) by(oracle) = {};
  comparisons_.clear(), kinks_.clear(), directions_.clear(), kinked_.clear();
  cotangents_.clear(), gradients_.clear(), gradient_noise_.clear();
  hides_.assign(f_.inputs.size(), false);
  for (auto& entries : compared_) entries.clear();
  by(Oracle::kDual).worst.expected = std::nan("");  // replaced by 0 below if no check fails
  const Values y = f_.forward(f_.x);
  const auto bad = std::find_if(y.begin(), y.end(), is_not_finite);
  if (bad != y.end())
    fail("not finite: " + output_name(std::size_t(bad - y.begin())) + "; choose other inputs");
  if (y != f_.forward(f_.x))
    fail("a second run of forward returns different bits; fix its random seed");
  if (report_.ok()) add_cotangents(y.size());
  if (!report_.ok()) return false;
  const Values zeros(y.size(), 0.0);
  if (const auto at = find_in_inputs(f_.backward(f_.x, zeros), is_not_zero); !at.empty())
    fail("backward does not return zeros for an output gradient of zeros: " + at);
  by(Oracle::kDual).worst.expected = 0;
  const Direction all = random_direction(0, f_.x.size());
  if (effort_.entries[int(Oracle::kDifferences)] > 0) {
    noise_ = measure_noise(line_along(all), noise_spread(f_), f_.roundoff());
    for (double& n : noise_) n = std::max(n, smallest(f_));
    add_quiet_cotangents();
  }
  for (std::size_t i = 0; i < f_.inputs.size(); ++i)
    if (starts_[i] < starts_[i + 1]) {
      directions_.push_back(random_direction(starts_[i], starts_[i + 1]));
      directions_.back().entry.input = i;
    }
  kinked_.assign(directions_.size(), std::vector<bool>(y.size()));
  return report_.ok();
}

// Adds four random cotangents. The second is larger and has the opposite signs of the first; the
// third is the first, made smaller; the fourth is the first with every second number set to 0,
// which detects a backward pass that is wrong only where the cotangent is 0. A factor is left out
// if the gradient would become too large or too small for the type. Factors are powers of two,
// which do not change rounding errors.
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
  Values half = first;
  for (std::size_t o = 1; o < outputs; o += 2) half[o] = 0;
  run_backward(half);
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
    fail("not finite: the gradient of " + at + "; correct backward, or choose other inputs");
  if (g != f_.backward(f_.x, v))
    fail("a second run of backward returns different bits; fix its random seed");
  cotangents_.push_back(v);
  gradients_.push_back(g);
}

void Checker::check_by(Oracle oracle) {
  const std::int64_t count = effort_.entries[int(oracle)];
  if (count == 0 || f_.x.empty()) return;
  const std::size_t first = comparisons_.size();
  bool right = compare_entries(oracle, count);
  for (std::size_t i = 0; i < directions_.size(); ++i) {
    const std::size_t input = directions_[i].entry.input;
    const bool sampled = sample_size(input, count) < std::ssize(directions_[i].moves);
    if (right && (sampled || hides_[input])) right = compare_direction(oracle, i);
  }
  judge(oracle, first);
}

// Returns the number of entries of one input that are compared one by one, if about `count` entries
// of all inputs together are compared.
std::int64_t Checker::sample_size(std::size_t input, std::int64_t count) const {
  const auto n = std::int64_t(starts_[input + 1] - starts_[input]);
  const double share = double(count) / double(f_.x.size());
  return std::min(n, std::max(effort_.fewest, std::int64_t(std::min(share, 1.0) * double(n))));
}

// Returns a sample of the entries of one input: a random one of each of `taken` pieces, because
// evenly spaced entries could all be in one column. The sample for one number `draw` is the same
// each time, so that the check ends after its entries were moved off their kinks.
std::vector<std::size_t> Checker::sample(std::size_t input, std::int64_t taken, int draw) const {
  const auto n = std::int64_t(starts_[input + 1] - starts_[input]);
  taken = std::min(n, taken);
  Generator random(report_.seed + input + std::uint64_t(draw) * f_.inputs.size());
  std::vector<std::size_t> entries;
  for (std::int64_t s = 0; s < taken; ++s) {
    const std::int64_t begin = s * n / taken, size = (s + 1) * n / taken - begin;
    const auto within = std::int64_t(random.uniform_double() * double(size));
    entries.push_back(starts_[input] + std::size_t(begin + within));
  }
  return entries;
}

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
