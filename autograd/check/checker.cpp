#include "autograd/check/checker.h"

#include <algorithm>
#include <limits>

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
// Limit of the noise with which the results of two equal calls are compared, in roundings of the
// largest element. Results may differ by 4 times the noise (find_difference()), because additions
// may run in another order.
constexpr double kUnequal = 0x1p16;
// A change of an output is a jump if, after its distance was halved kHalvings times, it still is at
// least this fraction of a change far away. The fraction for float is 2^9 times as large.
constexpr double kJump = 0x1p-20;
constexpr int kHalvings = 45, kDistances = 20;

// Returns the position of an element where a second run differs by more than rounding explains. The
// noise of random numbers is as large as they are, and therefore limited.
std::optional<std::size_t> find_unequal(const Values& again, const Values& first,
                                        const std::vector<Shape>& shapes, const CheckedFunction& f,
                                        const std::function<Values()>& noise) {
  if (again == first) return {};
  return find_difference(again, first, shapes, f, [&] {
    Values limited = noise();
    const double most = kUnequal * f.roundoff * largest_of(first);
    for (double& n : limited) n = std::min(n, most);
    return limited;
  });
}

// Returns the unit roundoff of float16 or bfloat16 if all outputs are rounded to this type,
// otherwise 0.
double roundoff_of(const Values& outputs) {
  if (std::ranges::all_of(outputs, [](double e) { return double(Float16(e)) == e; }))
    return 0x1p-11;
  return std::ranges::all_of(outputs, [](double e) { return double(BFloat16(e)) == e; }) ? 0x1p-8
                                                                                         : 0;
}

bool is_not_zero(double x) { return x != 0; }

}  // namespace

Checker::Checker(CheckedFunction f, const CheckEffort& effort, std::uint64_t seed, int order,
                 CheckReport& report)
    : point_(std::move(f), seed), effort_(effort), report_(report) {
  report_.order = order;
  report_.seed = seed;
  report_.entries[order - 1] = std::ssize(point_.f.x);
}

void Checker::run() {
  do {
    comparisons_.emplace(point_, kinks_, effort_, report_);
    if (prepare()) comparisons_->run();
  } while (report_.ok() && kinks_.move_off());
  kinks_.add_to(report_, comparisons_->compared());
}

// Draws the cotangents, runs backward and makes the checks that need no oracle. Returns false if
// nothing can be compared.
bool Checker::prepare() {
  const CheckedFunction& f = point_.f;
  Values &y = point_.y, &noise = point_.noise;
  for (const Oracle oracle : kAllOracles) report_.by(oracle) = {};
  double& exact = report_.by(Oracle::kDual).worst.expected;
  exact = std::nan("");  // replaced below unless a check fails first
  y = f.forward(f.x);
  if (const auto bad = std::ranges::find_if(y, is_not_finite); bad != y.end())
    report_.refuse(Verdict::kWrong,
                   "not finite: ", point_.output_name(std::size_t(bad - y.begin())),
                   "; choose other inputs");
  if (const Values again = f.forward(f.x);
      report_.ok() &&
      find_unequal(again, y, f.outputs, f, [&] { return point_.noise_of_forward(); }))
    report_.refuse(Verdict::kWrong, "a second run of ", f.names.forward,
                   " returns different bits; fix its random seed");
  if (report_.ok()) add_random_cotangents();
  if (!report_.ok()) return false;
  check_linearity();
  exact = 0;
  if (effort_.entries[int(Oracle::kDifferences)] == 0) return report_.ok();
  noise = point_.noise_of_forward();
  for (double& n : noise) n = std::max({n, f.smallest(), f.forward_error});
  for (std::size_t o = 0; o < f.least_noise.size(); ++o)
    noise[o] = std::max(noise[o], f.least_noise[o]);
  add_quiet_cotangents();
  return true;
}

// Adds four random cotangents. The second is larger and has the opposite signs of the first; the
// third is the first, made smaller; the fourth is the first with every second number set to 0,
// which detects a backward pass that is wrong only where the cotangent is 0. A factor is left out
// if the gradient would become too large or too small for the type. Factors are powers of two,
// which do not change rounding errors.
void Checker::add_random_cotangents() {
  const std::size_t outputs = point_.y.size();
  const Values first = random_cotangent(outputs, point_.random);
  run_backward(first);
  if (!report_.ok()) return;
  Values second = random_cotangent(outputs, point_.random);
  for (std::size_t o = 0; o < outputs; ++o) second[o] = std::copysign(second[o], -first[o]);
  const Values larger = times(second, kLarger);
  run_backward(std::ranges::any_of(point_.gradient_for(larger), is_not_finite) ? second : larger);
  if (!report_.ok()) return;
  // Entries that become subnormal would lose digits.
  const double least = point_.f.single() ? double(std::numeric_limits<float>::min())
                                         : std::numeric_limits<double>::min();
  const auto is_too_small = [&](double e) { return e != 0 && std::abs(e) * kSmaller < least; };
  const bool fits = std::ranges::none_of(comparisons_->gradients[0].g, is_too_small);
  run_backward(fits ? times(first, kSmaller) : first);
  Values half = first;
  for (std::size_t o = 1; o < outputs; o += 2) half[o] = 0;
  run_backward(half);
}

// Adds cotangents that are zero for the noisiest outputs, whose rounding errors hide the
// derivatives of other outputs.
void Checker::add_quiet_cotangents() {
  const Values& noise = point_.noise;
  double largest = largest_of(noise);
  std::size_t before = noise.size();  // number of outputs that the last cotangent covers
  for (int c = 0; c < kMostQuiet && std::isfinite(largest); ++c) {
    const double limit = kQuiet * largest;
    Values v = comparisons_->gradients[0].v;
    std::size_t left = 0;
    largest = 0;
    for (std::size_t o = 0; o < v.size(); ++o)
      if (noise[o] > limit)
        v[o] = 0;
      else
        ++left, largest = std::max(largest, noise[o]);
    if (left == 0 || left == before) return;
    run_backward(v);
    before = left;
  }
}

void Checker::run_backward(const Values& v) {
  const std::string& backward = point_.f.names.backward;
  const Values g = point_.gradient_for(v);
  if (const auto bad = std::ranges::find_if(g, is_not_finite); bad != g.end())
    report_.refuse(Verdict::kWrong, "not finite: the gradient of ",
                   point_.entry_at(std::size_t(bad - g.begin())).name(), "; correct ", backward,
                   ", or choose other inputs");
  const Values again = point_.gradient_for(v);
  const auto noise = [&] { return point_.noise_of_backward(v); };
  if (const auto k = find_unequal(again, g, point_.f.inputs, point_.f, noise))
    report_.refuse(Verdict::kWrong, "the second ", backward, " after one ", point_.f.names.forward,
                   " returns ", number_text(again[*k]), " for ", point_.entry_at(*k).name(),
                   ", the first one ", number_text(g[*k]), "; ", backward,
                   " must not change what it uses; if it is random, fix its seed");
  comparisons_->gradients.push_back({v, g, comparisons_->gradients.size()});
}

// Checks that backward is linear in the cotangent. The factor is a power of two, and the terms of
// the sum have equal signs, so that no digits are lost.
void Checker::check_linearity() {
  const CheckedFunction& f = point_.f;
  const Gradient &u = comparisons_->gradients[0], &w = comparisons_->gradients[1];
  if (u.v.empty() || !f.backward) return;
  const auto refuse_for = [&](const char* dy, double returned, std::size_t k,
                              const std::string& rest) {
    report_.refuse(Verdict::kWrong, f.names.backward,
                   " is not linear in dy, the gradient of the output: for dy = ", dy,
                   " it returns ", number_text(returned), " for ", point_.entry_at(k).name(), rest);
  };
  const Values zeros = f.backward(f.x, times(u.v, 0));
  if (const auto bad = std::ranges::find_if(zeros, is_not_zero); bad != zeros.end())
    return refuse_for("0", *bad, std::size_t(bad - zeros.begin()), "");
  if (f.exact) return;  // the exact oracle suffices
  const double factor = std::abs(w.v[0]) > kLarger / 4 ? -1 / kLarger : -1;
  Values sum = u.v, expected = u.g;
  for (std::size_t o = 0; o < sum.size(); ++o) sum[o] += factor * w.v[o];
  for (std::size_t k = 0; k < expected.size(); ++k) expected[k] += factor * w.g[k];
  const Values g = f.backward(f.x, sum);
  if (std::ranges::any_of(g, [](double e) { return std::isinf(e); })) return;  // overflow
  const auto noise = [&] {
    double largest = 0;
    for (std::size_t o = 0; o < sum.size(); ++o)
      largest = std::max(largest, std::abs(point_.y[o] * sum[o]));
    Values all = point_.noise_of_backward(sum);
    // If forward rounds to fewer digits, backward may, too. The comparisons of entries judge it.
    const double rounded = roundoff_of(f.forward(point_.shifted(point_.random_direction(), 0.3))) *
                           largest_of(expected);
    // Terms of the size of dy * y / x may cancel, as those of a softmax with a single large output.
    for (std::size_t k = 0; k < all.size(); ++k)
      all[k] += kRoundings * f.roundoff * largest / point_.own_scale(k) + rounded;
    return all;
  };
  if (const auto k = find_difference(g, expected, f.inputs, f, noise)) {
    report_.by(Oracle::kDifferences).worst = point_.entry_at(*k);  // is_staircase() may explain it
    refuse_for(
        "u + w", g[*k], *k,
        ", for u and w alone " + number_text(u.g[*k]) + " and " + number_text(factor * w.g[*k]));
  }
}

void Checker::check_calls() {
  const Gradient first = comparisons_->gradients[0];
  comparisons_.reset();  // frees memory
  const auto noise = [this](const Values& v, const Values&) { return point_.noise_of_backward(v); };
  autograd::check_calls(point_.f, {first.v, point_.y, first.g, point_.noise, noise}, report_);
}

void Checker::check_elsewhere() {
  CheckedFunction& f = point_.f;
  const Values x = std::exchange(f.x, reversed_inputs(f, false));
  if (x == f.x) return;
  const OutputSlopes found =
      point_.slopes(Oracle::kDifferences, std::make_shared<Direction>(point_.random_direction()));
  Values v = comparisons_->gradients[0].v;
  // The mistake is large. Outputs whose derivatives are not clear are left out.
  double size = 0, by_differences = 0;
  bool all = true;
  for (std::size_t o = 0; o < v.size(); ++o) {
    const Difference& d = found.of[o];
    if (d.kink || !(d.error <= std::abs(d.value) / 16)) v[o] = 0, all = false;
    if (v[o] != 0) size = std::hypot(size, v[o] * d.value), by_differences += v[o] * d.value;
  }
  const double by_backward = found.along->dot(point_.gradient_for(v));
  f.x = x;
  // NaN may be a right gradient times 0 for an output that is left out.
  if (std::isnan(by_backward) ? all : std::abs(by_backward - by_differences) > size / 4)
    report_.refuse(
        Verdict::kWrong, "at another point, with each input in reversed order, backward returns ",
        number_text(by_backward), " in a random direction, differences give ",
        number_text(by_differences), "; does backward use what an earlier forward has stored?");
}

bool Checker::is_staircase(std::size_t input) {
  bool is_still = false;
  for (const Comparison& e : comparisons_->all()) {
    if (e.input != input) continue;
    is_still = true;
    if ((e.terms > 0 && e.resolved) || !std::isfinite(e.tolerance)) return false;
  }
  if (!is_still) return false;
  const Direction along = point_.random_direction(input);
  const auto change = [&](double t) {  // the largest change of an output
    const Values moved = point_.f.forward(point_.shifted(along, t));
    double largest = 0;
    for (std::size_t o = 0; o < moved.size(); ++o)
      if (const double e = std::abs(moved[o] - point_.y[o]); !(e <= largest)) largest = e;
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
    return first >= point_.f.noise_spread() * kJump * most;
  }
  return false;
}

}  // namespace heed::autograd
