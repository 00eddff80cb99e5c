#include "tools/heed/gradcheck/gradcheck_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "autograd/base/files.h"
#include "nn/io/nearest.h"
#include "tools/heed/gradcheck/gradcheck_junit.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"

namespace heed {

using autograd::Check;
using autograd::CheckLayout;
using autograd::CheckResult;
using autograd::Oracle;

namespace {

// How many samples in how many layouts were not run, by stated reason.
using Reasons = std::map<std::string, std::int64_t>;

std::int64_t total(const Reasons& reasons) {
  std::int64_t n = 0;
  for (const auto& [reason, count] : reasons) n += count;
  return n;
}

// An entry and where it was met.
struct Place {
  std::string sample;
  CheckLayout layout = CheckLayout::kContiguous;
  autograd::CheckedEntry entry;
};

// One check's results, both orders.
struct Row {
  std::string name;
  std::int64_t checked = 0, failed = 0, moved = 0;
  Reasons skipped;
  std::optional<double> error[2];    // the largest, by order; NaN counts as larger
  std::optional<Place> worst[2][2];  // by order and oracle: of the fewest digits
  std::int64_t asked[2] = {},
               entries[2] = {};       // by oracle: entries asked one by one; of all inputs
  std::vector<std::string> failures;  // each some lines
  std::vector<JunitCase> cases;

  Value digits(int order, Oracle oracle) const {
    const auto& place = worst[order - 1][int(oracle)];
    return place ? Value(digits_text(place->entry.digits())) : Value();
  }
};

bool fewer(double a, double b) { return !(a >= b) && !std::isnan(b); }

void take_entries(Row& row, const CheckResult& r) {
  for (int order = 1; order <= r.report.order; ++order)
    for (const Oracle oracle : autograd::kAllOracles) {
      const autograd::OracleReport& found = r.report.by(order, oracle);
      if (found.checked == 0) continue;
      row.asked[int(oracle)] += found.checked;
      row.entries[int(oracle)] += r.report.entries[order - 1];
      std::optional<Place>& worst = row.worst[order - 1][int(oracle)];
      if (!worst || fewer(found.worst.digits(), worst->entry.digits()))
        worst = {r.sample, r.layout, found.worst};
    }
}

// The command that runs a check again.
std::string repeat(std::string_view check, int order, const GradcheckRequest& request) {
  const char* oracle = request.differences && request.dual ? ""
                       : request.dual                      ? " --oracle dual"
                                                           : " --oracle fd";
  return fmt::format("  again: heed gradcheck {} --order {} --seed {}{}", check, order,
                     request.seed, oracle);
}

std::string entry_text(const autograd::CheckedEntry& e) {
  return fmt::format(
      "{}: engine {:.10g}, oracle {:.10g}, terms {:.2g}, tolerance {:.1g}{}, {} digits", e.name(),
      e.given, e.expected, e.terms, e.tolerance,
      e.step > 0 ? fmt::format(", step {:.2g}", e.step) : "", digits_text(e.digits()));
}

bool agrees(const autograd::CheckedEntry& e) {
  return std::abs(e.given - e.expected) <= e.tolerance;
}

// What the oracles found at one order, each in a line, and how to find it again.
std::string findings(const CheckResult& r, int order, const GradcheckRequest& request) {
  std::string text;
  for (const Oracle oracle : autograd::kAllOracles) {
    const autograd::OracleReport& found = r.report.by(order, oracle);
    if (found.checked > 0)
      text += fmt::format("  {}, {} of {} entries asked, the worst: {}\n", oracle_name(oracle),
                          found.checked, r.report.entries[order - 1], entry_text(found.worst));
    if (agrees(found.worst) && !agrees(found.direction))
      text += fmt::format("  {}, {}\n", oracle_name(oracle), entry_text(found.direction));
  }
  if (const auto& moved = r.report.moved; !moved.empty())
    text += fmt::format("  kinks moved: {}, the first {}\n", moved.size(), moved[0].text());
  return text + repeat(r.check, order, request) + " --layouts " + setting_name(r.layout);
}

void take_cases(Row& row, const CheckResult& r, const GradcheckRequest& request) {
  for (int order = 1; order <= r.order; ++order) {
    JunitCase& c = row.cases.emplace_back(JunitCase{
        row.name,
        fmt::format("{}, {}, order {}", r.sample, autograd::layout_name(r.layout), order)});
    c.skipped = r.skipped;
    if (!r.skipped.empty()) continue;
    if (order > r.report.order)
      c.skipped = "order 1 failed";
    else if (order == r.report.order && !r.report.ok())
      c.failure = r.report.message;
    if (c.skipped.empty()) c.output = findings(r, order, request);
  }
}

void take(Row& row, const CheckResult& r, const GradcheckRequest& request) {
  if (!request.junit.empty()) take_cases(row, r, request);
  if (!r.skipped.empty()) {
    ++row.skipped[r.skipped];
    return;
  }
  ++row.checked;
  row.moved += std::ssize(r.report.moved);
  take_entries(row, r);
  for (int order = 1; order <= r.report.order; ++order) {
    std::optional<double>& largest = row.error[order - 1];
    const double error = r.report.error(order);
    if (!largest || !(error <= *largest)) largest = error;
  }
  if (r.report.ok()) return;
  ++row.failed;
  row.failures.push_back(fmt::format("{}, sample '{}', layout {}: {}\n{}", r.check, r.sample,
                                     autograd::layout_name(r.layout), r.report.message,
                                     findings(r, r.report.order, request)));
}

Row run(const Check& check, const GradcheckRequest& request, std::span<const CheckLayout> layouts) {
  Row row;
  row.name = std::string(check.name());
  autograd::GradcheckOptions options;
  options.order = int(request.order);
  options.seed = std::uint64_t(request.seed);
  options.use_differences = request.differences;
  options.use_dual = request.dual;
  try {
    for (const CheckResult& r : run_check(check, options, layouts)) take(row, r, request);
  } catch (const autograd::Error& e) {
    ++row.checked;
    ++row.failed;
    row.error[0] = std::nan("");
    const std::string threw = fmt::format("threw {}", e.what());
    const std::string again = repeat(row.name, options.order, request);
    row.failures.push_back(fmt::format("{}: {}\n{}", row.name, threw, again));
    row.cases.push_back({row.name, "every sample", threw, "", again});
  }
  return row;
}

struct Worst {
  std::string name;
  int order = 0;
  double error = -1;
};

Worst worst_of(const std::vector<Row>& rows) {
  Worst worst;
  for (const Row& row : rows)
    for (int order = 1; order <= 2; ++order)
      if (const auto& e = row.error[order - 1];
          e && !(*e <= worst.error) && !std::isnan(worst.error))
        worst = {row.name, order, *e};
  return worst;
}

// All rows together.
struct Totals {
  std::int64_t checked = 0, failed = 0, moved = 0;
  Reasons skipped;
  Worst worst;
  double seconds = 0;
};

Totals sum_of(const std::vector<Row>& rows) {
  Totals totals;
  for (const Row& row : rows) {
    totals.checked += row.checked;
    totals.failed += row.failed;
    totals.moved += row.moved;
    for (const auto& [reason, n] : row.skipped) totals.skipped[reason] += n;
  }
  totals.worst = worst_of(rows);
  return totals;
}

Value place_value(const Place& place) {
  const autograd::CheckedEntry& e = place.entry;
  return Value::object({{"sample", place.sample},
                        {"layout", setting_name(place.layout)},
                        {"input", e.input},
                        {"at", e.index},
                        {"engine", e.given},
                        {"oracle", e.expected},
                        {"terms", e.terms},
                        {"tolerance", e.tolerance},
                        {"step", e.step},
                        {"digits", e.digits()}});
}

Value oracle_value(const Row& row, Oracle oracle) {
  const int o = int(oracle);
  Value found = Value::object({{"entries", row.asked[o]}, {"of", row.entries[o]}});
  for (int order = 1; order <= 2; ++order)
    if (const auto& place = row.worst[order - 1][o])
      found.append(fmt::format("worst_order_{}", order), place_value(*place));
  return found;
}

// In text: the fewest digits by each oracle and order, and how many entries were asked one by one.
void add_rows(Report& report, const std::vector<Row>& rows) {
  Table& table = report.table("rows");
  for (const Row& row : rows)
    table.add({row.name, row.checked, row.failed, total(row.skipped), row.error[0], row.error[1],
               row.moved, oracle_value(row, Oracle::kDifferences), oracle_value(row, Oracle::kDual),
               row.asked[0] + row.asked[1], row.digits(1, Oracle::kDual),
               row.digits(1, Oracle::kDifferences), row.digits(2, Oracle::kDual),
               row.digits(2, Oracle::kDifferences), row.failed ? "FAILED" : ""});
}

Report report_of(const std::vector<Row>& rows, const Totals& totals,
                 const GradcheckRequest& request) {
  Report report(kGradcheckKeys);
  const Worst& worst = totals.worst;
  std::vector<std::string> failures;
  for (const Row& row : rows)
    failures.insert(failures.end(), row.failures.begin(), row.failures.end());
  report.set("checked", totals.checked);
  report.set("failed", totals.failed);
  report.set("ops", rows.size());
  if (worst.order > 0)
    report.set("worst", object_of(kWorstKeys, {worst.name, worst.order, worst.error}));
  report.set("skipped", total(totals.skipped));
  report.set("seconds", totals.seconds);
  report.set("seed", request.seed);
  add_rows(report, rows);
  report.set("failures", failures);
  for (const std::string& f : failures) report.block("FAILED " + f);
  report.line("{} checks of {} ops and layers in {}, {} failed", totals.checked, rows.size(),
              seconds_text(totals.seconds), totals.failed);
  if (worst.order > 0)
    report.line("largest error {:.1e} of its terms ({}, order {})", worst.error, worst.name,
                worst.order);
  if (totals.moved > 0) report.line("{} inputs stood at a kink and were moved", totals.moved);
  for (const auto& [reason, n] : totals.skipped) report.line("{} not run: {}", n, reason);
  if (totals.checked == 0)
    report.fail(kCheckFailed, "gradcheck: no check ran; that proves nothing");
  else if (totals.failed > 0)
    report.fail(kCheckFailed);
  return report;
}

}  // namespace

std::vector<const Check*> chosen_checks(const std::vector<std::string>& names) {
  std::vector<const Check*> all = autograd::registered_checks();
  if (names.empty()) return all;
  std::vector<std::string> known;
  known.reserve(all.size());
  for (const Check* c : all) known.emplace_back(c->name());
  std::vector<const Check*> list;
  for (const std::string& name : names) {
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end())
      usage_error(
          "gradcheck: there is no check '{}'; the nearest is '{}' (heed gradcheck alone "
          "lists all)",
          name, nn::nearest(name, known));
    const Check* check = all[std::size_t(found - known.begin())];
    if (std::find(list.begin(), list.end(), check) == list.end()) list.push_back(check);
  }
  return list;
}

std::string setting_name(CheckLayout layout) {
  std::string name(autograd::layout_name(layout));
  std::erase(name, ' ');
  return name;
}

std::string digits_text(double digits) {
  return std::isnan(digits) ? "nan" : fmt::format("{:.1f}", std::floor(digits * 10) / 10);
}

Report report_gradchecks(const GradcheckRequest& request) {
  const std::vector<const Check*> checks = chosen_checks(request.ops);
  const std::vector<CheckLayout> layouts =
      request.layouts.empty() ? std::vector<CheckLayout>(std::begin(autograd::kAllLayouts),
                                                         std::end(autograd::kAllLayouts))
                              : request.layouts;
  if (!request.junit.empty()) autograd::check_writable(request.junit);
  Progress progress(false);
  const Stopwatch clock;
  std::vector<Row> rows;
  for (const Check* check : checks) {
    progress.at_work(fmt::format("{}/{} {}", rows.size() + 1, checks.size(), check->name()));
    rows.push_back(run(*check, request, layouts));
  }
  progress.clear();
  Totals totals = sum_of(rows);
  totals.seconds = clock.seconds();
  if (!request.junit.empty()) {
    std::vector<JunitCase> cases;
    for (const Row& row : rows) cases.insert(cases.end(), row.cases.begin(), row.cases.end());
    autograd::write_file(request.junit, junit_xml("heed gradcheck", totals.seconds, cases));
  }
  return report_of(rows, totals, request);
}

}  // namespace heed
