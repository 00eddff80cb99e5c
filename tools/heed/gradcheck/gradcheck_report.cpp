// `heed gradcheck`: runs checks of ops and layers in every layout, and reports the results.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>

#include "nn/io/nearest.h"
#include "tools/heed/gradcheck/gradcheck.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"

namespace heed {

using autograd::Check;
using autograd::CheckedEntry;
using autograd::CheckResult;
using autograd::Oracle;

namespace {

// The results of all checks. The container is a deque, because pointers to its elements must stay
// valid when elements are added.
using CheckResults = std::deque<CheckResult>;

// Returns whether a < b. NaN is less than every number.
bool is_less(double a, double b) { return !(a >= b) && !std::isnan(b); }

// Totals of the results of one check, or of all checks. It contains pointers to the results.
struct Summary {
  std::int64_t checked = 0, failed = 0, moved = 0, on_kink = 0;
  std::map<std::string, std::int64_t> skipped;  // number of skipped layouts, by reason
  std::int64_t compared[2] = {};                // per oracle: entries compared one by one
  std::int64_t entries[2] = {};                 // per oracle: entries of all inputs
  const CheckResult* largest[2] = {};    // result with the largest error, by order; NaN is largest
  const CheckResult* fewest[2][2] = {};  // result with the fewest digits, by order and oracle

  void add(const CheckResult& r);
  std::int64_t skips() const {
    std::int64_t n = 0;
    for (const auto& [reason, count] : skipped) n += count;
    return n;
  }
  // Returns the largest error at an order (1 or 2), or nothing if no check of this order ran.
  std::optional<double> error(int order) const {
    const CheckResult* r = largest[order - 1];
    return r ? std::optional(r->report.error(order)) : std::nullopt;
  }
  // Returns the entry with the fewest digits, or null if the oracle checked no entry.
  const CheckedEntry* worst(int order, Oracle oracle) const {
    const CheckResult* r = fewest[order - 1][int(oracle)];
    return r ? &r->report.by(order, oracle).worst : nullptr;
  }
};

void Summary::add(const CheckResult& r) {
  if (!r.skipped.empty()) {
    ++skipped[r.skipped];
    return;
  }
  ++checked;
  failed += !r.report.ok();
  moved += std::ssize(r.report.moved);
  on_kink += r.report.on_kink;
  for (int order = 1; order <= r.report.order; ++order) {
    const std::optional<double> most = error(order);
    if (!most || is_less(-r.report.error(order), -*most)) largest[order - 1] = &r;
    for (const Oracle oracle : autograd::kAllOracles) {
      const autograd::OracleReport& found = r.report.by(order, oracle);
      if (found.checked == 0) continue;
      compared[int(oracle)] += found.checked;
      entries[int(oracle)] += r.report.entries[order - 1];
      const CheckedEntry* least = worst(order, oracle);
      if (!least || is_less(found.worst.digits(), least->digits()))
        fewest[order - 1][int(oracle)] = &r;
    }
  }
}

// One row of the table: a check and its totals.
struct Row {
  std::string name;
  Summary sum;
};

std::string entry_text(const CheckedEntry& e) {
  return fmt::format(
      "{}: engine {:.10g}, oracle {:.10g}, terms {:.2g}, tolerance {:.1g}{}, {} digits", e.name(),
      e.given, e.expected, e.terms, e.tolerance,
      e.step > 0 ? fmt::format(", step {:.2g}", e.step) : "", digits_text(e.digits()));
}

bool agrees(const CheckedEntry& e) { return std::abs(e.given - e.expected) <= e.tolerance; }

// Returns what each oracle found at the highest order that was checked, one line per finding, and
// the command that repeats the check.
std::string findings_text(const CheckResult& r, const GradcheckRequest& request) {
  const int order = r.report.order;
  std::string text;
  for (const Oracle oracle : autograd::kAllOracles) {
    const autograd::OracleReport& found = r.report.by(order, oracle);
    if (found.checked > 0)
      text += fmt::format("  {}, {} of {} entries compared; the worst: {}\n", oracle_name(oracle),
                          found.checked, r.report.entries[order - 1], entry_text(found.worst));
    if (agrees(found.worst) && !agrees(found.direction))
      text += fmt::format("  {}, {}\n", oracle_name(oracle), entry_text(found.direction));
  }
  if (const auto& moved = r.report.moved; !moved.empty())
    text += fmt::format("  entries moved off a kink: {}; the first: {}\n", moved.size(),
                        moved[0].text());
  const std::string oracle =
      request.oracle == OracleChoice::kBoth ? "" : " --oracle " + nn::enum_name(request.oracle);
  return text + fmt::format("  repeat with: heed gradcheck {} --order {} --seed {}{}", r.check,
                            order, request.seed, oracle);
}

std::vector<std::string> failures_of(const CheckResults& results, const GradcheckRequest& request) {
  std::vector<std::string> failures;
  for (const CheckResult& r : results)
    if (!r.report.ok())
      failures.push_back(fmt::format("{}, sample '{}', layout {}: {}\n{}", r.check, r.sample,
                                     layout_name(r.layout), r.report.message,
                                     findings_text(r, request)));
  return failures;
}

std::string digits_cell(const CheckedEntry* worst) {
  return worst ? digits_text(worst->digits()) : "-";
}

Value oracle_value(const Summary& sum, Oracle oracle) {
  Value found =
      Value::object({{"entries", sum.compared[int(oracle)]}, {"of", sum.entries[int(oracle)]}});
  for (int order = 1; order <= 2; ++order) {
    const CheckedEntry* e = sum.worst(order, oracle);
    if (!e) continue;
    const CheckResult& r = *sum.fewest[order - 1][int(oracle)];
    found.append(fmt::format("worst_order_{}", order),
                 Value::object({{"sample", r.sample},
                                {"layout", layout_name(r.layout)},
                                {"input", e->input},
                                {"at", e->index},
                                {"engine", e->given},
                                {"oracle", e->expected},
                                {"terms", e->terms},
                                {"tolerance", e->tolerance},
                                {"step", e->step},
                                {"digits", e->digits()}}));
  }
  return found;
}

// Sets the key "rows" and adds a table. It has, for each oracle and order, the smallest number of
// digits that agree, and the number of entries that were compared one by one.
void add_rows(Out& out, const std::vector<Row>& rows) {
  Value list = Value::array();
  std::vector<Cells> table;
  for (const auto& [name, sum] : rows) {
    list.push_back(Value::object({{"name", name},
                                  {"checked", sum.checked},
                                  {"failed", sum.failed},
                                  {"skipped", sum.skips()},
                                  {"error_order_1", sum.error(1)},
                                  {"error_order_2", sum.error(2)},
                                  {"kinks_moved", sum.moved},
                                  {"differences", oracle_value(sum, Oracle::kDifferences)},
                                  {"dual", oracle_value(sum, Oracle::kDual)}}));
    Cells& row = table.emplace_back(Cells{name, std::to_string(sum.checked),
                                          std::to_string(sum.compared[0] + sum.compared[1])});
    for (const int order : {1, 2})
      for (const Oracle oracle : {Oracle::kDual, Oracle::kDifferences})
        row.push_back(digits_cell(sum.worst(order, oracle)));
    row.emplace_back(sum.failed ? "FAILED" : "");
  }
  out.set("rows", list);
  out.table(
      {"digits that agree", "checks", "entries", "dual 1", "diff 1", "dual 2", "diff 2", "failed"},
      table);
  out.gap();
}

Out report_of(const CheckResults& results, const std::vector<Row>& rows, double seconds,
              const GradcheckRequest& request) {
  Summary total;
  for (const CheckResult& r : results) total.add(r);
  Out out;
  out.set("checked", total.checked);
  out.set("failed", total.failed);
  out.set("ops", rows.size());
  const int order = total.largest[1] && is_less(-*total.error(2), -*total.error(1)) ? 2 : 1;
  const CheckResult* worst = total.largest[order - 1];
  out.set("worst",
          worst ? Value::object(
                      {{"name", worst->check}, {"order", order}, {"error", total.error(order)}})
                : Value());
  out.set("skipped", total.skips());
  out.set("seconds", seconds);
  out.set("seed", request.seed);
  add_rows(out, rows);
  const std::vector<std::string> failures = failures_of(results, request);
  out.set("failures", failures);
  for (const std::string& f : failures) out.block("FAILED " + f + "\n");
  out.text("{} of {} in {}, {} failed", counted(total.checked, "check"),
           counted(std::ssize(rows), rows.size() == 1 ? "op or layer" : "ops and layer"),
           seconds_text(seconds), total.failed);
  if (worst)
    out.text("largest error: {:.1e}, relative to the terms of the entry ({}, order {})",
             *total.error(order), worst->check, order);
  if (total.moved > 0)
    out.text("{} input entries were on a kink and were moved off it", total.moved);
  if (total.on_kink > 0)
    out.text("{} input entries stay on a kink and were not compared", total.on_kink);
  for (const auto& [reason, n] : total.skipped) out.text("{} skipped: {}", n, reason);
  if (total.checked == 0)
    out.fail(kCheckFailed, "gradcheck: no check ran, so nothing is proven; choose other ops");
  else if (total.failed > 0)
    out.fail(kCheckFailed);
  return out;
}

// Returns the checks with these names, or all checks if `names` is empty. Throws UsageError if a
// name is not registered.
std::vector<const Check*> chosen_checks(const std::vector<std::string>& names) {
  const std::vector<const Check*> all = autograd::registered_checks();
  if (names.empty()) return all;
  std::vector<const Check*> list;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(all, name, &Check::name);
    if (found == all.end()) {
      std::vector<std::string> known;
      for (const Check* c : all) known.emplace_back(c->name());
      usage_error(
          "gradcheck: unknown op or layer '{}'; the nearest is '{}' (heed gradcheck without "
          "arguments checks and lists all)",
          name, nn::nearest(name, known));
    }
    if (std::ranges::find(list, *found) == list.end()) list.push_back(*found);
  }
  return list;
}

}  // namespace

autograd::GradcheckOptions GradcheckRequest::options() const {
  return {.order = int(order),
          .seed = std::uint64_t(seed),
          .use_differences = oracle != OracleChoice::kDual,
          .use_dual = oracle != OracleChoice::kDifferences};
}

std::string digits_text(double digits) {
  return std::isnan(digits) ? "nan" : fmt::format("{:.1f}", std::floor(digits * 10) / 10);
}

Out report_gradchecks(const GradcheckRequest& request) {
  const std::vector<const Check*> checks = chosen_checks(request.ops);
  Progress progress(false);
  const Stopwatch clock;
  CheckResults results;
  std::vector<Row> rows;
  for (const Check* check : checks) {
    progress.at_work(
        fmt::format("Checking {}/{}: {}", rows.size() + 1, checks.size(), check->name()));
    Row& row = rows.emplace_back(Row{std::string(check->name()), {}});
    for (CheckResult& r : run_check(*check, request.options()))
      row.sum.add(results.emplace_back(std::move(r)));
  }
  return report_of(results, rows, clock.seconds(), request);
}

}  // namespace heed
