#include "autograd/check/report.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <sstream>

#include "autograd/base/shape.h"

namespace heed::autograd {

std::string_view oracle_name(Oracle oracle) {
  return oracle == Oracle::kDual ? "dual numbers" : "differences";
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
  std::ostringstream text;
  text << entry.name() << " from " << from << " to " << to;
  return text.str();
}

void CheckReport::refuse(Verdict why_not, const std::string& why) {
  if (ok()) verdict = why_not, message = why;
}

double CheckReport::error(int o) const {
  double largest = 0;
  for (const Oracle oracle : kAllOracles)
    if (const double e = by(o, oracle).worst.error(); !(e <= largest)) largest = e;
  return largest;
}

std::ostream& operator<<(std::ostream& out, const CheckReport& r) {
  constexpr const char* kNames[] = {"right", "wrong", "vacuous"};
  std::ostringstream text;
  text << kNames[int(r.verdict)] << ": ";
  if (!r.ok()) text << r.message << "; ";
  if (!r.diagnosis.text.empty()) text << r.diagnosis.text << "; ";
  if (r.ok() && r.entries[0] == 0) text << "the inputs have no entries to check; ";
  for (const Oracle oracle : kAllOracles) {
    std::int64_t checked = 0, entries = 0;
    double digits = 16;
    for (int order = 1; order <= r.order; ++order) {
      const OracleReport& found = r.by(order, oracle);
      if (found.checked == 0) continue;
      checked += found.checked;
      entries += r.entries[order - 1];
      if (const double d = found.worst.digits(); !(d >= digits)) digits = d;
    }
    if (checked == 0) continue;
    if (r.ok())
      text << std::floor(digits * 10) / 10 << " digits agree with " << oracle_name(oracle)
           << " in ";
    text << checked << " of " << entries << " entries";
    if (!r.ok()) text << " compared with " << oracle_name(oracle);
    text << "; ";
  }
  if (r.mutants > 0)
    text << r.killed << " of " << r.mutants << " wrong versions of the gradient rejected, "
         << r.equivalent << " equivalent; ";
  if (!r.moved.empty())
    text << "entries moved off a kink: " << r.moved.size() << ", the first: " << r.moved[0].text()
         << "; ";
  if (r.on_kink > 0)
    text << r.on_kink << " of " << r.entries[0] + r.entries[1]
         << " entries not compared: not differentiable there; ";
  return out << text.str() << "order " << r.order << ", seed " << r.seed;
}

}  // namespace heed::autograd
