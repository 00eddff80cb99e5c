#include "autograd/check/report.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "autograd/base/shape.h"
#include "autograd/base/text.h"

namespace heed::autograd {

std::string number_text(double x) {
  TextStream text;
  text.precision(10);
  text << x;
  return text.str();
}

double CheckedEntry::error() const {
  const double distance = std::abs(given - expected);
  if (!std::isfinite(distance)) return std::nan("");
  return distance == 0 ? 0 : distance / terms;
}

double CheckedEntry::digits() const {
  return std::isnan(error()) ? error() : std::clamp(0 - std::log10(error()), 0.0, 16.0);
}

std::string CheckedEntry::name() const {
  return "input " + std::to_string(input) +
         (at == kDirection ? " in a random direction" : " at " + to_text(Dims(index)));
}

std::string MovedEntry::text() const {
  TextStream text;
  text << entry.name() << " from " << from << " to " << to;
  return text.str();
}

double CheckReport::error(int o) const {
  double largest = 0;
  for (const Oracle oracle : kAllOracles)
    if (const double e = by(o, oracle).worst.error(); !(e <= largest)) largest = e;
  return largest;
}

std::string CheckReport::oracle_name(int o, Oracle oracle) const {
  return oracle == Oracle::kDual ? exact_names[o - 1] : "differences";
}

std::ostream& operator<<(std::ostream& out, const CheckReport& r) {
  constexpr const char* kNames[] = {"right", "wrong", "vacuous"};
  TextStream text;
  text << kNames[int(r.verdict)] << ": ";
  if (!r.ok()) text << r.message << "; ";
  if (!r.diagnosis.text.empty()) text << r.diagnosis.text << "; ";
  if (r.ok() && r.entries[0] == 0) text << "the inputs have no entries to check; ";
  for (const Oracle oracle : kAllOracles) {
    Index checked = 0, entries = 0;
    double digits = 16;
    for (int order = 1; order <= r.order; ++order) {
      const OracleReport& found = r.by(order, oracle);
      const std::string name = r.oracle_name(order, oracle);
      if (found.checked > 0) {
        checked += found.checked;
        entries += r.entries[order - 1];
        if (const double d = found.worst.digits(); !(d >= digits)) digits = d;
      }
      const bool is_last = order == r.order || r.oracle_name(order + 1, oracle) != name;
      if (checked == 0 || !is_last) continue;
      if (r.ok()) text << std::floor(digits * 10) / 10 << " digits agree with " << name << " in ";
      text << checked << " of " << entries << " entries";
      if (!r.ok()) text << " compared with " << name;
      text << "; ";
      checked = entries = 0, digits = 16;
    }
  }
  if (const LowPrecision& low = r.low_precision; low.inputs > 0)
    text << "R = " << low.ratio << " (right up to 3), factor " << low.factor << " +- "
         << low.factor_error << " of " << low.inputs << " inputs; ";
  if (r.mutants > 0 && r.equivalent == r.mutants)
    text << "all " << r.mutants << " wrong versions of the gradient equal the right one there; ";
  else if (r.mutants > 0)
    text << r.killed << " of " << r.mutants << " wrong versions of the gradient rejected, "
         << r.equivalent << " equivalent; ";
  if (!r.moved.empty())
    text << "entries moved off a kink: " << r.moved.size() << ", the first: " << r.moved[0].text()
         << "; ";
  for (const auto& [count, why] : {std::pair(r.on_kink, "not differentiable there"),
                                   {r.too_fast, "forward varies faster than the smallest step"}})
    if (count > 0)
      text << count << " of " << r.entries[0] + r.entries[1] << " entries not compared: " << why
           << "; ";
  if (r.layouts.of > 0)
    text << "layouts " << r.layouts.passed << " of " << r.layouts.of << ", ";
  else if (r.repeated.of > 0)
    text << "layouts: not applicable, ";
  if (r.repeated.of > 0)
    text << "repeated " << r.repeated.passed << " of " << r.repeated.of << "; ";
  for (const KindCounts* counts : {&r.layouts, &r.repeated})
    for (const std::string& kind : counts->not_applicable) text << kind << "; ";
  text << "order " << r.order << ", seed " << r.seed;
  return out << text.str();
}

}  // namespace heed::autograd
