#include "autograd/check/value_mutants.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <sstream>

#include "autograd/check/differences.h"

namespace heed::autograd {
namespace {

// `at`: the entry that the comparison sees best.
struct ValueMutant {
  const char* name;
  void (*apply)(FlatValues& g, std::size_t at);
};
void scale_values(FlatValues& g, double factor) {
  for (double& e : g) e *= factor;
}
constexpr ValueMutant kValueMutants[] = {
    {"negated", [](FlatValues& g, std::size_t) { scale_values(g, -1); }},
    {"doubled", [](FlatValues& g, std::size_t) { scale_values(g, 2); }},
    {"set to zero", [](FlatValues& g, std::size_t) { scale_values(g, 0); }},
    {"without one entry", [](FlatValues& g, std::size_t at) { g[at] = 0; }},
    {"shifted by one",
     [](FlatValues& g, std::size_t) { std::rotate(g.begin(), g.begin() + 1, g.end()); }},
    {"reversed", [](FlatValues& g, std::size_t) { std::reverse(g.begin(), g.end()); }},
};

// The entry of input i whose value is the largest part of its tolerance; none if it has none.
const ComparedEntry* find_clearest(const std::vector<ComparedEntry>& comparisons, std::size_t i) {
  const ComparedEntry* clearest = nullptr;
  for (const ComparedEntry& e : comparisons) {
    if (e.input != i || e.at == CheckedEntry::kDirection) continue;
    if (!clearest ||
        std::abs(e.given) * clearest->tolerance > std::abs(clearest->given) * e.tolerance)
      clearest = &e;
  }
  return clearest;
}

struct Replayed {
  bool differs = false, passes = true;
};
Replayed replay_values(const ValueMutant& mutant, const std::vector<ComparedEntry>& comparisons,
                       const std::vector<Arrays<double>>& gradients,
                       const ComparedEntry& clearest) {
  std::vector<FlatValues> wrong;
  for (const Arrays<double>& g : gradients) {
    wrong.push_back(g[clearest.input]);
    mutant.apply(wrong.back(), std::size_t(clearest.at));
  }
  Replayed result;
  for (const ComparedEntry& e : comparisons) {
    if (e.input != clearest.input) continue;
    const double value = e.value_of(wrong[e.cotangent]);
    result.differs |= !(std::abs(value - e.given) <= e.rounding);
    result.passes &= e.passes(value);
  }
  return result;
}

}  // namespace

double ComparedEntry::value_of(const FlatValues& gradient) const {
  double total = 0;
  for (const auto& [j, u] : along) total += gradient[j] * u;
  return total;
}

bool ComparedEntry::passes(double value) const {
  return std::isfinite(tolerance) && std::abs(value - expected) <= tolerance;
}

double ComparedEntry::severity() const {
  const double error = std::abs(given - expected);
  if (error == 0) return 0;
  return std::isfinite(error) && std::isfinite(tolerance) ? error / tolerance : HUGE_VAL;
}

bool ComparedEntry::narrows(const ComparedEntry& other) const {
  if (!std::isfinite(other.tolerance)) return std::isfinite(tolerance);
  return !on_kink && tolerance < other.tolerance && other.passes(expected);
}

bool ComparedEntry::is_worse_than(const ComparedEntry& other) const {
  const bool named = at != kDirection && !passes(given),
             other_named = other.at != kDirection && !other.passes(other.given);
  return named != other_named ? named : severity() > other.severity();
}

void replay_mutants(const std::vector<ComparedEntry>& comparisons,
                    const std::vector<Arrays<double>>& gradients, CheckReport& report) {
  for (std::size_t i = 0; i < gradients[0].size(); ++i) {
    const ComparedEntry* clearest = find_clearest(comparisons, i);
    if (!clearest) continue;
    const bool resolved =
        std::any_of(comparisons.begin(), comparisons.end(),
                    [i](const ComparedEntry& e) { return e.input == i && e.resolved(); });
    if (!resolved && report.ok()) {
      report.verdict = Verdict::kVacuous;
      report.message =
          "input " + std::to_string(i) + ": forward's rounding hides its gradient at this x";
    }
    for (const ValueMutant& mutant : kValueMutants) {
      const auto [differs, passes] = replay_values(mutant, comparisons, gradients, *clearest);
      ++report.mutants;
      report.equivalent += !differs;
      report.killed += differs && !passes;
      if (!differs || !passes || !report.ok()) continue;
      report.verdict = Verdict::kVacuous;
      report.message = "input " + std::to_string(i) + ": its gradient " + mutant.name +
                       " passes, too: forward's rounding hides it at this x";
    }
  }
}

std::string name_of(const CheckedEntry& e) {
  return "input " + std::to_string(e.input) +
         (e.at == CheckedEntry::kDirection ? " along a random direction"
                                           : " at [" + std::to_string(e.at) + "]");
}

double CheckedEntry::digits() const {
  return agreeing_digits(relative_error(given, expected, terms));
}

std::ostream& operator<<(std::ostream& out, const CheckReport& r) {
  constexpr const char* kNames[] = {"right", "wrong", "vacuous"};
  std::ostringstream text;
  text.precision(3);
  text << kNames[int(r.verdict)] << ": ";
  if (!r.ok()) text << r.message << "; ";
  if (r.ok())
    text << r.digits << " digits; worst " << name_of(r.worst) << ", " << r.worst.given
         << " given and " << r.worst.expected << " by differences, tolerance " << r.worst.tolerance
         << ", step " << r.worst.step << "; ";
  text << r.checked << " of " << r.entries << " entries";
  if (r.mutants > 0)
    text << ", " << r.killed << " of " << r.mutants << " wrong versions told apart, "
         << r.equivalent << " are no different";
  if (!r.moved.empty())
    text << "; " << r.moved.size() << " moved off a kink, the first of input " << r.moved[0].input
         << " at [" << r.moved[0].at << "] from " << r.moved[0].from << " to " << r.moved[0].to;
  return out << text.str() << " (seed " << r.seed << ")";
}

}  // namespace heed::autograd
