#include "autograd/check/check_vjp.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <ostream>
#include <sstream>
#include <utility>

#include "autograd/base/error.h"
#include "autograd/check/differences.h"
#include "autograd/check/value_mutants.h"
#include "autograd/tensor/random.h"

namespace heed::autograd {
namespace {

constexpr int kCotangents = 2, kMostMoves = 3;
constexpr std::int64_t kFewestEntries = 16;

template <class T>
constexpr double kUnitRoundoff = std::numeric_limits<T>::epsilon() / 2;
template <class T>
constexpr bool kIsFloat = std::is_same_v<T, float>;
// measure_noise reads a function at points 2^-26 apart, of which float has only a few.
template <class T>
constexpr double kNoiseSpread = kIsFloat<T> ? 0x1p9 : 1;

// Of any step that difference() tries in float the error may seem small by luck: it is at least
// twice how far the derivative is from those of other steps. In double the first step is mostly
// exact enough.
template <class T>
Difference careful_difference(const Line& line, const FlatValues& v, const FlatValues& noise) {
  Difference d = difference(line, v, noise, 1);
  if (kIsFloat<T>)
    for (const double scale : {0.75, 0.625})
      d.error = std::max(d.error, 2 * std::abs(difference(line, v, noise, scale).value - d.value));
  return d;
}

template <class T>
FlatValues flatten_arrays(const Arrays<T>& arrays) {
  FlatValues flat;
  for (const std::vector<T>& array : arrays) flat.insert(flat.end(), array.begin(), array.end());
  return flat;
}

template <class T>
bool same_array_bytes(const Arrays<T>& a, const Arrays<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& p, const auto& q) {
    return p.size() == q.size() &&
           (p.empty() || std::memcmp(p.data(), q.data(), p.size() * sizeof(T)) == 0);
  });
}

// The first entry for which `bad` holds, as "0 at [3]"; empty if there is none.
template <class T, class Bad>
std::string find_array_entry(const Arrays<T>& arrays, Bad bad) {
  for (std::size_t i = 0; i < arrays.size(); ++i)
    for (std::size_t j = 0; j < arrays[i].size(); ++j)
      if (bad(arrays[i][j])) return std::to_string(i) + " at [" + std::to_string(j) + "]";
  return {};
}
template <class T>
std::string find_nonfinite_entry(const Arrays<T>& arrays) {
  return find_array_entry(arrays, [](T value) { return !std::isfinite(value); });
}

// The power of two next above |x|.
double power_of_two_above(double x) {
  int exponent;
  std::frexp(x, &exponent);
  return std::ldexp(1, exponent);
}

template <class T>
class VjpCheck {
 public:
  VjpCheck(const ForwardFunction<T>& forward, const BackwardFunction<T>& backward,
           const Arrays<T>& x, const CheckOptions& options)
      : forward_(forward), backward_(backward), x_(x), options_(options), random_(options.seed) {
    report_.seed = options.seed;
    for (const std::vector<T>& input : x_) {
      report_.entries += std::int64_t(input.size());
      double squares = 0;
      for (const T e : input) squares += double(e) * double(e);
      const double typical = std::sqrt(squares / double(input.size()));
      scales_.push_back(typical > 0 ? power_of_two_above(typical) : 1);
    }
  }

  CheckReport run() {
    if (report_.entries == 0) return fail(Verdict::kVacuous, "nothing to check: x has no entries");
    for (int moves = 0;; ++moves) {
      comparisons_.clear();
      on_kinks_.clear();
      report_.checked = 0;
      if (!prepare()) return report_;
      for (std::size_t i = 0; i < x_.size(); ++i) compare_input(i);
      if (on_kinks_.empty()) break;
      if (moves == kMostMoves)
        return fail(Verdict::kWrong, name_of(on_kinks_[0]) +
                                         ": forward has a kink here, and after " +
                                         std::to_string(kMostMoves) + " moves still");
      for (const ComparedEntry& e : on_kinks_) move(e);
    }
    judge();
    if (report_.verdict == Verdict::kRight) replay_mutants(comparisons_, gradients_, report_);
    return report_;
  }

 private:
  CheckReport& fail(Verdict verdict, const std::string& message) {
    report_.verdict = verdict;
    report_.message = message;
    return report_;
  }

  // What can be said without differences; draws the cotangents and runs backward. False: failed.
  bool prepare() {
    report_.verdict = Verdict::kRight;
    const auto wrong = [this](const std::string& text) {
      if (report_.ok()) fail(Verdict::kWrong, text);
    };
    if (const std::string at = find_nonfinite_entry(x_); !at.empty())
      wrong("not finite: input " + at);
    const Arrays<T> y = forward_(x_);
    outputs_ = flatten_arrays(y).size();
    if (const std::string at = find_nonfinite_entry(y); !at.empty())
      wrong("not finite: output " + at);
    if (!same_array_bytes(y, forward_(x_))) wrong("a second run of forward gives other bits");
    if (outputs_ == 0) fail(Verdict::kVacuous, "nothing to check: forward gives no values");
    cotangents_.clear();
    gradients_.clear();
    gradient_noise_.clear();
    largest_change_.clear();
    for (int c = 0; report_.ok() && c < kCotangents; ++c) run_backward(y);
    if (!report_.ok()) return false;
    Arrays<T> zero = y;
    for (std::vector<T>& output : zero) std::fill(output.begin(), output.end(), T(0));
    const std::string at = find_array_entry(backward_(x_, zero), [](T g) { return g != 0; });
    if (!at.empty()) wrong("zero cotangents give a gradient other than zero: input " + at);
    return report_.ok();
  }

  void run_backward(Arrays<T> v) {
    // Sizes in [0.5, 1.5), exact in float. The second has the first's signs turned.
    std::size_t o = 0;
    for (std::vector<T>& output : v)
      for (T& e : output) {
        const double size = 0.5 + double(random_.next_u32() % 1024) / 1024;
        const double sign = cotangents_.empty() ? random_sign() : -cotangents_[0][o++];
        e = T(std::copysign(size, sign));
      }
    cotangents_.push_back(flatten_arrays(v));
    const Arrays<T> g = backward_(x_, v);
    if (const std::string text = find_wrong_length(g); !text.empty()) {
      fail(Verdict::kWrong, text);
      return;
    }
    if (const std::string at = find_nonfinite_entry(g); !at.empty())
      fail(Verdict::kWrong, "not finite: the gradient of input " + at);
    if (!same_array_bytes(g, backward_(x_, v)))
      fail(Verdict::kWrong, "a second run of backward gives other bits");
    gradients_.emplace_back(g.size());
    for (std::size_t i = 0; i < g.size(); ++i)
      gradients_.back()[i] = FlatValues(g[i].begin(), g[i].end());
    if (report_.ok()) measure_gradient_noise(v);
  }

  std::string find_wrong_length(const Arrays<T>& g) const {
    if (g.size() != x_.size())
      return "backward gives " + std::to_string(g.size()) + " gradients for " +
             std::to_string(x_.size()) + " inputs";
    for (std::size_t i = 0; i < g.size(); ++i)
      if (g[i].size() != x_[i].size())
        return "backward gives " + std::to_string(g[i].size()) + " values for input " +
               std::to_string(i) + ", which has " + std::to_string(x_[i].size());
    return {};
  }

  void measure_gradient_noise(const Arrays<T>& v) {
    Arrays<double> u = x_like();
    double& largest = largest_change_.emplace_back(0);
    for (std::size_t i = 0; i < x_.size(); ++i)
      for (std::size_t j = 0; j < x_[i].size(); ++j) {
        u[i][j] = random_sign() * own_scale(i, j);
        largest = std::max(largest, std::abs(gradients_.back()[i][j] * u[i][j]));
      }
    const Line along = [&](double t) { return flatten_arrays(backward_(shifted(u, t), v)); };
    const FlatValues all = measure_noise(along, kNoiseSpread<T>, kUnitRoundoff<T>);
    gradient_noise_.push_back(x_like());
    std::size_t next = 0;
    for (std::vector<double>& input : gradient_noise_.back())
      for (double& e : input) e = all[next++];
  }

  Arrays<double> x_like() const {
    Arrays<double> zeros;
    for (const std::vector<T>& input : x_) zeros.emplace_back(input.size(), 0.0);
    return zeros;
  }
  double random_sign() { return random_.next_u32() % 2 == 0 ? -1 : 1; }
  double own_scale(std::size_t i, std::size_t j) const {
    return x_[i][j] == 0 ? scales_[i] : power_of_two_above(double(x_[i][j]));
  }
  Arrays<T> shifted(const Arrays<double>& u, double t) const {
    Arrays<T> moved = x_;
    for (std::size_t i = 0; i < x_.size(); ++i)
      for (std::size_t j = 0; j < x_[i].size(); ++j)
        moved[i][j] = T(double(x_[i][j]) + t * u[i][j]);
    return moved;
  }

  // Every entry of input i, or a sample that is spread evenly, jittered lest it sees one column
  // only, and a random direction.
  void compare_input(std::size_t i) {
    const auto n = std::int64_t(x_[i].size());
    const double share = double(options_.max_entries) / double(report_.entries);
    const std::int64_t some = std::max(kFewestEntries, std::int64_t(share * double(n)));
    const std::int64_t count = share >= 1 ? n : std::min(n, some);
    for (std::int64_t k = 0; k < count; ++k) {
      const double within = count == n ? 0 : random_.uniform_double();
      compare_entry(
          i, std::min(n - 1, std::int64_t((double(k) + within) * double(n) / double(count))));
    }
    if (count < n) compare_direction(i);
  }

  void compare_entry(std::size_t i, std::int64_t at) {
    const double own = own_scale(i, std::size_t(at));
    std::vector<ComparedEntry> found = compare_along(i, at, {{std::size_t(at), own}});
    // An entry far smaller than the others: over its own size f may hardly change. A wider step may
    // only narrow down what the own one says, lest it has jumped over a singularity.
    // What neither knows is moved if the wide one sees a kink.
    if (own < scales_[i]) {
      std::vector<ComparedEntry> wider = compare_along(i, at, {{std::size_t(at), scales_[i]}});
      for (std::size_t c = 0; c < found.size(); ++c)
        if (wider[c].narrows(found[c]) || (wider[c].on_kink && !found[c].resolved()))
          found[c] = wider[c];
    }
    keep(found);
    report_.checked += std::all_of(found.begin(), found.end(),
                                   [](const ComparedEntry& e) { return e.resolved(); });
  }

  void compare_direction(std::size_t i) {
    EntryMoves along;
    for (std::size_t j = 0; j < x_[i].size(); ++j)
      along.emplace_back(j, random_sign() * own_scale(i, j));
    keep(compare_along(i, CheckedEntry::kDirection, along));
  }

  void keep(const std::vector<ComparedEntry>& found) {
    const auto kinked =
        std::find_if(found.begin(), found.end(), [](const ComparedEntry& e) { return e.on_kink; });
    if (kinked != found.end()) on_kinks_.push_back(*kinked);
    comparisons_.insert(comparisons_.end(), found.begin(), found.end());
  }

  // One for each cotangent.
  std::vector<ComparedEntry> compare_along(std::size_t i, std::int64_t at,
                                           const EntryMoves& along) {
    double missed = 0;  // how far x + t u is from a number of T, of u
    std::map<double, FlatValues> seen;
    const Line line = [&](double t) {
      if (const auto known = seen.find(t); known != seen.end()) return known->second;
      Arrays<T> moved = x_;
      for (const auto& [j, u] : along) {
        moved[i][j] = T(double(x_[i][j]) + t * u);
        const double went = double(moved[i][j]) - double(x_[i][j]);
        missed = std::max(missed, std::abs(went / u - t));
      }
      FlatValues y = flatten_arrays(forward_(moved));
      check<ValueError>(y.size() == outputs_, "check_vjp", "forward gives ", y.size(),
                        " values near x and ", outputs_, " at x; it must give as many everywhere");
      return seen[t] = std::move(y);
    };
    const FlatValues noise = measure_noise(line, kNoiseSpread<T>, kUnitRoundoff<T>);
    std::vector<ComparedEntry> found;
    for (std::size_t c = 0; c < cotangents_.size(); ++c) {
      const Difference d = careful_difference<T>(line, cotangents_[c], noise);
      ComparedEntry e;
      e.input = i;
      e.at = at;
      e.cotangent = c;
      e.on_kink = d.kink;
      const double unit = at == CheckedEntry::kDirection ? 1 : along[0].second;
      for (const auto& [j, u] : along) e.along.emplace_back(j, u / unit);
      e.scale = unit;
      e.given = e.value_of(gradients_[c][i]);
      e.expected = d.value / unit;
      e.terms = d.terms / unit;
      e.step = d.step * unit;
      double noise_of_given = 0, terms_of_given = 0;
      for (const auto& [j, u] : e.along) {
        noise_of_given += std::abs(u) * gradient_noise_[c][i][j];
        terms_of_given += std::abs(u * gradients_[c][i][j]);
      }
      // A backward that is mostly noise gets no tolerance for it.
      e.rounding = std::min(8 * noise_of_given + 16 * kUnitRoundoff<T> * e.terms,
                            std::cbrt(kUnitRoundoff<T>) * largest_change_[c] / unit);
      // The stencil's weights add up to 3.4 / step.
      e.tolerance =
          2 * d.error / unit + e.rounding + 4 * missed / d.step * std::max(e.terms, terms_of_given);
      found.push_back(std::move(e));
    }
    return found;
  }

  // Away from a kink, by 1 to 2 hundredths.
  void move(const ComparedEntry& e) {
    for (std::size_t j = 0; j < x_[e.input].size(); ++j) {
      if (e.at != CheckedEntry::kDirection && std::int64_t(j) != e.at) continue;
      const double scale = e.at == CheckedEntry::kDirection ? own_scale(e.input, j) : e.scale;
      const double far = (1 + random_.uniform_double()) * 0x1p-7 * scale;
      const T from = x_[e.input][j];
      x_[e.input][j] = T(double(from) + random_sign() * far);
      report_.moved.push_back({e.input, std::int64_t(j), double(from), double(x_[e.input][j])});
    }
  }

  void judge() {
    const ComparedEntry* worst = &comparisons_[0];
    std::size_t failed = 0;
    double digits = HUGE_VAL;  // none yet
    for (const ComparedEntry& e : comparisons_) {
      failed += !e.passes(e.given);
      if (e.is_worse_than(*worst)) worst = &e;
      if (!e.passes(e.given) || e.resolved())
        if (const double d = e.digits(); !(d >= digits)) digits = d;
    }
    report_.worst = *worst;
    report_.digits = digits == HUGE_VAL ? 0 : digits;
    if (failed == 0) return;
    if (!std::isfinite(worst->tolerance)) {
      fail(Verdict::kWrong, name_of(*worst) +
                                ": forward is not finite at places near x, where "
                                "differences need it");
      return;
    }
    std::ostringstream text;
    text.precision(10);
    text << name_of(*worst) << ": backward gives " << worst->given << ", differences "
         << worst->expected;
    text.precision(3);
    text << " (tolerance " << worst->tolerance << ", step " << worst->step << ", "
         << worst->digits() << " digits); " << failed << " of " << comparisons_.size()
         << " comparisons fail";
    fail(Verdict::kWrong, text.str());
  }

  const ForwardFunction<T>& forward_;
  const BackwardFunction<T>& backward_;
  Arrays<T> x_;
  const CheckOptions& options_;
  Generator random_;
  std::vector<double> scales_;  // of each input, a typical entry's
  std::size_t outputs_ = 0;
  std::vector<FlatValues> cotangents_;
  std::vector<Arrays<double>> gradients_, gradient_noise_;  // of each cotangent
  std::vector<double> largest_change_;  // of <v, y>, by an entry of x that moves by its own size
  std::vector<ComparedEntry> comparisons_;
  std::vector<ComparedEntry> on_kinks_;
  CheckReport report_;
};

}  // namespace

template <class T>
CheckReport check_vjp(const std::type_identity_t<ForwardFunction<T>>& forward,
                      const std::type_identity_t<BackwardFunction<T>>& backward,
                      const std::vector<std::vector<T>>& x, const CheckOptions& options) {
  check<ValueError>(options.max_entries >= 1, "check_vjp", "max_entries must be at least 1, got ",
                    options.max_entries);
  return VjpCheck<T>(forward, backward, x, options).run();
}
template CheckReport check_vjp(const ForwardFunction<float>&, const BackwardFunction<float>&,
                               const std::vector<std::vector<float>>&, const CheckOptions&);
template CheckReport check_vjp(const ForwardFunction<double>&, const BackwardFunction<double>&,
                               const std::vector<std::vector<double>>&, const CheckOptions&);

}  // namespace heed::autograd
