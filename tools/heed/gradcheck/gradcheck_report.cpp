// `heed gradcheck`: runs checks of ops and layers in every layout, and reports the results.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "nn/io/nearest.h"
#include "tools/heed/gradcheck/gradcheck.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"

namespace heed {

using autograd::Check;
using autograd::CheckedEntry;
using autograd::CheckResult;
using autograd::kAllOracles;
using autograd::Oracle;

namespace {

// Returns whether a < b. NaN is less than every number.
bool is_less(double a, double b) { return !(a >= b) && !std::isnan(b); }

void keep_least(std::optional<double>& least, double x) {
  if (!least || is_less(x, *least)) least = x;
}

// One row of the table: a check and the totals of its results.
struct Row {
  std::string name;
  Index checked = 0, failed = 0, entries = 0, moved = 0, on_kink = 0;
  std::map<std::string, Index> skipped = {};  // number of skipped layouts, by reason
  std::optional<double> digits[2][2] = {};    // the fewest, by order and oracle
  std::optional<double> minus_error[2] = {};  // the largest error, by order, times -1

  void add(const CheckResult& r) {
    if (!r.skipped.empty()) {
      ++skipped[r.skipped];
      return;
    }
    ++checked, failed += !r.report.ok();
    moved += std::ssize(r.report.moved), on_kink += r.report.on_kink;
    for (int order = 1; order <= r.report.order; ++order) {
      keep_least(minus_error[order - 1], -r.report.error(order));
      for (const Oracle oracle : kAllOracles) {
        const autograd::OracleReport& found = r.report.by(order, oracle);
        entries += found.checked;
        if (found.checked > 0) keep_least(digits[order - 1][int(oracle)], found.worst.digits());
      }
    }
  }
  Index skips() const {
    Index n = 0;
    for (const auto& [reason, count] : skipped) n += count;
    return n;
  }
  std::optional<double> error(int order) const {
    const std::optional<double>& e = minus_error[order - 1];
    return e ? std::optional(-*e) : std::nullopt;
  }
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
  for (const Oracle oracle : kAllOracles) {
    const autograd::OracleReport& found = r.report.by(order, oracle);
    const std::string name = r.report.oracle_name(order, oracle);
    if (found.checked > 0)
      text += fmt::format("  {}, {} of {} entries compared; the worst: {}\n", name, found.checked,
                          r.report.entries[order - 1], entry_text(found.worst));
    if (agrees(found.worst) && !agrees(found.direction))
      text += fmt::format("  {}, {}\n", name, entry_text(found.direction));
  }
  if (const auto& moved = r.report.moved; !moved.empty())
    text += fmt::format("  entries moved off a kink: {}; the first: {}\n", moved.size(),
                        moved[0].text());
  const std::string oracle =
      request.oracle == OracleChoice::kBoth ? "" : " --oracle " + nn::enum_name(request.oracle);
  return text + fmt::format("  repeat with: heed gradcheck {} --order {} --seed {}{}", r.check,
                            order, request.seed, oracle);
}

std::string failure_text(const CheckResult& r, const GradcheckRequest& request) {
  return fmt::format("{}, sample '{}', layout {}: {}\n{}", r.check, r.sample, layout_name(r.layout),
                     r.report.message, findings_text(r, request));
}

// Sets the key "rows" and adds a table. It has, for each oracle and order, the smallest number of
// digits that agree, and the number of entries that were compared one by one.
void add_rows(Out& out, const std::vector<Row>& rows) {
  Value list = Value::array();
  std::vector<Cells> table;
  for (const Row& row : rows) {
    Value entry = Value::object({{"name", row.name},
                                 {"checked", row.checked},
                                 {"failed", row.failed},
                                 {"skipped", row.skips()},
                                 {"entries", row.entries}});
    Cells& cells = table.emplace_back(
        Cells{row.name, std::to_string(row.checked), std::to_string(row.entries)});
    for (const int order : {1, 2}) {
      entry.append(fmt::format("error_order_{}", order), row.error(order));
      for (const Oracle oracle : {Oracle::kDual, Oracle::kDifferences}) {
        const std::optional<double>& digits = row.digits[order - 1][int(oracle)];
        entry.append(
            fmt::format("digits_{}_{}", oracle == Oracle::kDual ? "dual" : "differences", order),
            digits);
        cells.push_back(digits ? digits_text(*digits) : "-");
      }
    }
    cells.emplace_back(row.failed ? "FAILED" : "");
    list.push_back(entry);
  }
  out.set("rows", list);
  out.table(
      {"digits that agree", "checks", "entries", "dual 1", "diff 1", "dual 2", "diff 2", "failed"},
      table);
  out.gap();
}

Out report_of(const std::vector<Row>& rows, const std::vector<std::string>& failures,
              double seconds, std::int64_t seed) {
  Index checked = 0, failed = 0, skips = 0, moved = 0, on_kink = 0;
  std::map<std::string, Index> skipped;
  const Row* worst = nullptr;
  int order = 1;  // of the worst
  for (const Row& row : rows) {
    checked += row.checked, failed += row.failed, skips += row.skips();
    moved += row.moved, on_kink += row.on_kink;
    for (const auto& [reason, n] : row.skipped) skipped[reason] += n;
    for (const int k : {1, 2})
      if (row.error(k) && (!worst || is_less(-*row.error(k), -*worst->error(order))))
        worst = &row, order = k;
  }
  Out out;
  out.set("checked", checked);
  out.set("failed", failed);
  out.set("ops", rows.size());
  out.set("worst",
          worst ? Value::object(
                      {{"name", worst->name}, {"order", order}, {"error", worst->error(order)}})
                : Value());
  out.set("skipped", skips);
  out.set("seconds", seconds);
  out.set("seed", seed);
  add_rows(out, rows);
  out.set("failures", failures);
  for (const std::string& f : failures) out.block("FAILED " + f + "\n");
  out.text("{} of {} in {}, {} failed", counted(checked, "check"),
           counted(std::ssize(rows), rows.size() == 1 ? "op or layer" : "ops and layer"),
           seconds_text(seconds), failed);
  if (worst)
    out.text("largest error: {:.1e}, relative to the terms of the entry ({}, order {})",
             *worst->error(order), worst->name, order);
  if (moved > 0) out.text("{} input entries were on a kink and were moved off it", moved);
  if (on_kink > 0) out.text("{} input entries stay on a kink and were not compared", on_kink);
  for (const auto& [reason, n] : skipped) out.text("{} skipped: {}", n, reason);
  if (checked == 0)
    out.fail(kCheckFailed, "gradcheck: no check ran, so nothing is proven; choose other ops");
  else if (failed > 0)
    out.fail(kCheckFailed);
  return out;
}

// Returns the checks with these names, or all checks if `names` is empty. Throws UsageError if a
// name is not registered.
std::vector<const Check*> chosen_checks(const std::vector<std::string>& names) {
  std::vector<const Check*> all = autograd::registered_checks();
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
  autograd::GradcheckOptions how{.order = int(order), .seed = std::uint64_t(seed)};
  if (oracle == OracleChoice::kDual) how.difference_entries = 0;
  if (oracle == OracleChoice::kDifferences) how.dual_entries = 0;
  return how;
}

std::string digits_text(double digits) {
  return std::isnan(digits) ? "nan" : fmt::format("{:.1f}", std::floor(digits * 10) / 10);
}

Out report_gradchecks(const GradcheckRequest& request) {
  const std::vector<const Check*> checks = chosen_checks(request.ops);
  Progress progress(false);
  const Stopwatch clock;
  std::vector<Row> rows;
  std::vector<std::string> failures;
  for (const Check* check : checks) {
    progress.at_work(
        fmt::format("Checking {}/{}: {}", rows.size() + 1, checks.size(), check->name()));
    Row& row = rows.emplace_back(Row{std::string(check->name())});
    for (const CheckResult& r : run_check(*check, request.options())) {
      row.add(r);
      if (!r.report.ok()) failures.push_back(failure_text(r, request));
    }
  }
  return report_of(rows, failures, clock.seconds(), request.seed);
}

}  // namespace heed
