#include "autograd/check/checker.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "autograd/check/call_checks.h"
#include "autograd/check/narrow_float.h"

namespace heed::autograd {
namespace {

// Factors of the second and the third cotangent. They detect a backward pass that clips large
// cotangents or ignores small ones.
constexpr double kLarger = 64, kSmaller = 0x1p-10;
// If the rounding noise of an output is below this fraction of the noise of another, a further
// cotangent is used that is zero for the noisier output. At most kMostQuiet cotangents are added.
constexpr double kQuiet = 0x1p-12;
constexpr int kMostQuiet = 4;
// Assumed rounding error of a given derivative (jvp, or by backward2) along a direction, as a
// multiple of the noise of forward.
constexpr double kGivenNoise = 0x1p11;
// Limit of the noise with which the results of two equal calls are compared, in roundings of the
// largest element. Results may differ by 4 times the noise (find_difference()), because additions
// may run in another order.
constexpr double kUnequal = 0x1p16;
// A change of an output is a jump if, after its distance was halved kHalvings times, it still is at
// least this fraction of a change far away. The fraction for float is 2^9 times as large.
constexpr double kJump = 0x1p-20;
constexpr int kHalvings = 45, kDistances = 20;

// Returns the smallest power of two above |x|, or a power of two if x is infinite. x is not 0.
double power_of_two_above(double x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1, exponent);
}

double largest_of(const Values& values) {
  double largest = 0;
  for (const double e : values) largest = std::max(largest, std::abs(e));
  return largest;
}

// Returns the noise, or `share` of the largest value if that is less. The noise of random numbers
// is as large as they are.
Values limited(Values noise, const Values& values, double share) {
  const double most = share * largest_of(values);
  for (double& n : noise) n = std::min(n, most);
  return noise;
}

bool is_not_finite(double x) { return !std::isfinite(x); }
bool is_not_zero(double x) { return x != 0; }

}  // namespace

Values times(Values a, double factor) {
  for (double& e : a) e *= factor;
  return a;
}

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
    : f_(std::move(f)),
      effort_(effort),
      order_(order),
      random_(seed),
      steps_(seed, f_.single),
      report_(report) {
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
    if (!report_.ok() || !move_off_kinks()) break;
  }
  for (const auto& [k, m] : moved_)
    report_.moved.push_back({entry_at(k), m.from, mirrored_ ? 2 * m.from - f_.x[k] : f_.x[k]});
  for (const auto& [k, is_fast] : stuck_) {
    ++(is_fast ? report_.too_fast : report_.on_kink);
    const std::size_t input = entry_at(k).input;
    const auto is_moved_off = [&](std::size_t other) {
      return entry_at(other).input == input && !stuck_.contains(other);
    };
    if (std::ranges::none_of(compared_[0], is_moved_off) &&
        std::ranges::none_of(compared_[1], is_moved_off))
      report_.refuse(Verdict::kVacuous, "input ", input,
                     is_fast ? ": forward varies faster than the smallest step of differences"
                             : ": all entries that were compared stay on a kink, where the "
                               "function has no derivative",
                     "; choose other inputs");
  }
}

CheckedEntry Checker::entry_at(std::size_t k) const {
  const auto input =
      std::size_t(std::upper_bound(starts_.begin(), starts_.end(), k) - starts_.begin()) - 1;
  const auto at = std::int64_t(k - starts_[input]);
  const Dims index = unravel(at, f_.inputs[input]);
  return {.input = input, .at = at, .index = {index.begin(), index.end()}};
}

std::string Checker::output_name(std::size_t o) const {
  const std::string& kind = f_.names.output;
  return f_.outputs.size() == 1 ? kind + " " + to_text(unravel(std::int64_t(o), f_.outputs[0]))
                                : element_name(kind.c_str(), f_.outputs, o);
}

double Checker::own_scale(std::size_t k) const {
  return f_.x[k] == 0 ? typical_[entry_at(k).input] : power_of_two_above(f_.x[k]);
}

Along Checker::along_entry(std::size_t k, double by) const {
  return std::make_shared<const Direction>(
      Direction{entry_at(k), {{k, by == 0 ? own_scale(k) : by}}});
}

Direction Checker::random_direction(std::size_t begin, std::size_t end) {
  Direction all;
  all.moves.reserve(end - begin);
  for (std::size_t k = begin; k < end; ++k)
    all.moves.emplace_back(k, random_.next_u32() % 2 == 0 ? -own_scale(k) : own_scale(k));
  return all;
}

Values Checker::shifted(const Direction& along, double t) const {
  Values moved = along.from(f_.x, t);
  if (f_.single)
    for (double& e : moved) e = double(float(e));
  return moved;
}

// Returns f on a line through x. The value at x is kept, because each step of differences uses it.
Line Checker::line_along(const Direction& along) const {
  return [this, &along, at_x = std::make_shared<Values>()](double t) {
    if (t != 0) return f_.forward(shifted(along, t));
    if (at_x->empty()) *at_x = f_.forward(f_.x);
    return *at_x;
  };
}

// Returns the derivatives of all outputs along a direction.
OutputSlopes Checker::slopes(Oracle oracle, const Along& along, bool repeated) {
  ExactDerivative truth;
  if (f_.exact) truth = f_.exact(f_.x, along->from(Values(f_.x.size(), 0.0), 1));
  OutputSlopes s = {along, {}, truth.terms, truth.derivative};
  if (oracle == Oracle::kDual) {
    for (std::size_t o = 0; o < s.exact.size(); ++o)
      s.of.push_back({.value = s.exact[o],
                      .error = f_.exact_is_given ? kGivenNoise * noise_[o] : 0,
                      .moves = true});
    return s;
  }
  s.of = differences(line_along(*along), noise_, 1, steps_, repeated || f_.single);
  if (f_.exact && !f_.exact_is_given) return s;
  s.terms.clear();
  for (const Difference& d : s.of) s.terms.push_back(std::abs(d.value));
  return s;
}

// Draws the cotangents, runs backward and makes the checks that need no oracle. Returns false if
// one of these checks failed.
bool Checker::prepare() {
  for (const Oracle oracle : kAllOracles) by(oracle) = {};
  comparisons_.clear(), kinks_.clear(), directions_.clear(), kinked_.clear();
  still_noise_.clear(), refuted_ = false;
  cotangents_.clear(), gradients_.clear(), gradient_noise_.clear();
  hides_.assign(f_.inputs.size(), false);
  for (auto& entries : compared_) entries.clear();
  by(Oracle::kDual).worst.expected = std::nan("");  // replaced below unless a check fails first
  y_ = f_.forward(f_.x);
  if (const auto bad = std::ranges::find_if(y_, is_not_finite); bad != y_.end())
    fail("not finite: " + output_name(std::size_t(bad - y_.begin())) + "; choose other inputs");
  if (const Values again = f_.forward(f_.x);
      report_.ok() && again != y_ && find_difference(again, y_, f_.outputs, f_, [&] {
        return limited(noise_of_forward(), y_, kUnequal * f_.roundoff());
      }))
    fail("a second run of " + f_.names.forward + " returns different bits; fix its random seed");
  if (report_.ok()) add_cotangents(y_.size());
  if (!report_.ok()) return false;
  check_linearity();
  by(Oracle::kDual).worst.expected = 0;
  if (effort_.entries[int(Oracle::kDifferences)] > 0) {
    noise_ = noise_of_forward();
    for (double& n : noise_) n = std::max({n, f_.smallest(), f_.forward_error});
    for (std::size_t o = 0; o < f_.least_noise.size(); ++o)
      noise_[o] = std::max(noise_[o], f_.least_noise[o]);
    add_quiet_cotangents();
  }
  for (std::size_t i = 0; i < f_.inputs.size(); ++i)
    if (starts_[i] < starts_[i + 1]) {
      Direction all = random_direction(starts_[i], starts_[i + 1]);
      all.entry.input = i;
      directions_.push_back(std::make_shared<const Direction>(std::move(all)));
    }
  kinked_.assign(directions_.size(), std::vector<bool>(y_.size()));
  // The gradient is wrong. The comparisons show which mistake explains it.
  if (!report_.ok() && !noise_.empty())
    compare_entries(Oracle::kDifferences, effort_.entries[int(Oracle::kDifferences)]);
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
  const Values larger = times(second, kLarger), g = gradient_for(larger);
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
  const Values g = gradient_for(v);
  if (const auto bad = std::ranges::find_if(g, is_not_finite); bad != g.end())
    fail("not finite: the gradient of " + entry_at(std::size_t(bad - g.begin())).name() +
         "; correct " + f_.names.backward + ", or choose other inputs");
  if (const Values again = gradient_for(v); report_.ok() && again != g) {
    if (const auto k = find_difference(again, g, f_.inputs, f_, [&] {
          return limited(noise_of_backward(v, g), g, kUnequal * f_.roundoff());
        }))
      fail("the second " + f_.names.backward + " after one " + f_.names.forward + " returns " +
           number_text(again[*k]) + " for " + entry_at(*k).name() + ", the first one " +
           number_text(g[*k]) + "; " + f_.names.backward +
           " must not change what it uses; if it is random, fix its seed");
  }
  cotangents_.push_back(v);
  gradients_.push_back(g);
}

// Returns the unit roundoff of float16 or bfloat16 if forward rounds its outputs to this type,
// otherwise 0.
double Checker::roundoff_of_outputs() {
  const Values y = f_.forward(shifted(random_direction(0, f_.x.size()), 0.3));
  if (std::ranges::all_of(y, [](double e) { return double(Float16(e)) == e; })) return 0x1p-11;
  return std::ranges::all_of(y, [](double e) { return double(BFloat16(e)) == e; }) ? 0x1p-8 : 0;
}

// Checks that backward is linear in the cotangent. The factor is a power of two, and the terms of
// the sum have equal signs, so that no digits are lost.
void Checker::check_linearity() {
  const std::string text =
      f_.names.backward + " is not linear in dy, the gradient of the output: for dy = ";
  const Values &u = cotangents_[0], &w = cotangents_[1];
  if (u.empty() || !f_.backward) return;
  const Values zeros = f_.backward(f_.x, times(u, 0));
  if (const auto bad = std::ranges::find_if(zeros, is_not_zero); bad != zeros.end())
    return fail(text + "0 it returns " + number_text(*bad) + " for " +
                entry_at(std::size_t(bad - zeros.begin())).name());
  if (f_.exact) return;  // the exact oracle suffices
  const double factor = std::abs(w[0]) > kLarger / 4 ? -1 / kLarger : -1;
  Values sum = u, expected = gradients_[0];
  for (std::size_t o = 0; o < u.size(); ++o) sum[o] += factor * w[o];
  for (std::size_t k = 0; k < expected.size(); ++k) expected[k] += factor * gradients_[1][k];
  const Values g = f_.backward(f_.x, sum);
  if (std::ranges::any_of(g, [](double e) { return std::isinf(e); })) return;  // overflow
  const auto noise = [&] {
    double largest = 0;
    for (std::size_t o = 0; o < sum.size(); ++o)
      largest = std::max(largest, std::abs(y_[o] * sum[o]));
    Values all = noise_of_backward(sum, g, false);
    // If forward rounds to fewer digits, backward may, too. The comparisons of entries judge it.
    const double rounded = roundoff_of_outputs() * largest_of(expected);
    // Terms of the size of dy * y / x may cancel, as those of a softmax with a single large output.
    for (std::size_t k = 0; k < all.size(); ++k)
      all[k] += kRoundings * f_.roundoff() * largest / own_scale(k) + rounded;
    return all;
  };
  if (const auto k = find_difference(g, expected, f_.inputs, f_, noise)) {
    by(Oracle::kDifferences).worst = entry_at(*k);  // is_staircase() may explain it
    fail(text + "u + w it returns " + number_text(g[*k]) + " for " + entry_at(*k).name() +
         ", for u and w alone " + number_text(gradients_[0][*k]) + " and " +
         number_text(factor * gradients_[1][*k]));
  }
}

void Checker::check_calls() {
  gradients_.resize(1), comparisons_.clear(), directions_.clear();  // frees memory
  const auto noise = [this](const Values& v, const Values& g) {
    return noise_of_backward(v, g, false);
  };
  autograd::check_calls(f_, {cotangents_[0], y_, gradients_[0], noise_, noise}, report_);
}

void Checker::check_elsewhere() {
  const Values x = std::exchange(f_.x, reversed_inputs(f_, false));
  if (x == f_.x) return;
  const OutputSlopes found =
      slopes(Oracle::kDifferences, std::make_shared<Direction>(random_direction(0, x.size())));
  Values v = cotangents_[0], noise;
  // The mistake is large. Outputs whose derivatives are not clear are left out.
  double size = 0, by_differences = 0;
  for (std::size_t o = 0; o < v.size(); ++o) {
    const Difference& d = found.of[o];
    if (d.kink || !(d.error <= std::abs(d.value) / 16)) v[o] = 0;
    if (v[o] != 0) size = std::hypot(size, v[o] * d.value), by_differences += v[o] * d.value;
  }
  const double by_backward = found.along->dot(gradient_for(v));
  f_.x = x;
  if (std::abs(by_backward - by_differences) > size / 4)
    fail("at another point, with each input in reversed order, backward returns " +
         number_text(by_backward) + " in a random direction, differences give " +
         number_text(by_differences) + "; does backward use what an earlier forward has stored?");
}

bool Checker::is_staircase(std::size_t input) {
  bool is_still = false;
  for (const Comparison& e : comparisons_) {
    if (e.input != input) continue;
    is_still = true;
    if ((e.terms > 0 && e.resolved) || !std::isfinite(e.tolerance)) return false;
  }
  if (!is_still) return false;
  const Direction along = random_direction(starts_[input], starts_[input + 1]);
  const auto change = [&](double t) {  // the largest change of an output
    const Values moved = f_.forward(shifted(along, t));
    double largest = 0;
    for (std::size_t o = 0; o < moved.size(); ++o)
      if (const double e = std::abs(moved[o] - y_[o]); !(e <= largest)) largest = e;
    return largest;
  };
  double far = 0.5;
  for (int d = 0; d < kDistances; ++d, far *= -1.5) {
    const double most = change(far);
    if (!(most > 0 && std::isfinite(most))) continue;
    double still = 0, first = most;  // f does not change up to `still`, and by `first` at `far`
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (still + far) / 2, e = change(middle);
      if (e == 0)
        still = middle;
      else
        far = middle, first = e;
    }
    return first >= f_.noise_spread() * kJump * most;
  }
  return false;
}

void Checker::check_by(Oracle oracle) {
  const std::int64_t count = effort_.entries[int(oracle)];
  if (count == 0 || f_.x.empty()) return;
  const std::size_t first = comparisons_.size();
  bool right = compare_entries(oracle, count);
  for (std::size_t i = 0; i < directions_.size(); ++i) {
    const std::size_t input = directions_[i]->entry.input;
    const bool sampled = sample_size(input, count) < std::ssize(directions_[i]->moves);
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

}  // namespace heed::autograd
