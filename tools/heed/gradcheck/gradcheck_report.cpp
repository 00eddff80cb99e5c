#include "tools/heed/gradcheck/gradcheck_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "nn/io/nearest.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"

namespace heed {

using autograd::Check;
using autograd::CheckLayout;
using autograd::CheckResult;

namespace {

// How many samples in how many layouts were not run, by stated reason.
using Reasons = std::map<std::string, std::int64_t>;

std::int64_t total(const Reasons& reasons) {
  std::int64_t n = 0;
  for (const auto& [reason, count] : reasons) n += count;
  return n;
}

// One check's results, both orders.
struct Row {
  std::string name;
  std::int64_t checked = 0, failed = 0;
  Reasons skipped;
  std::optional<double> error[2];     // the largest, by order; NaN counts as larger
  std::vector<std::string> failures;  // each a line or two
};

void take(Row& row, const CheckResult& r) {
  if (!r.skipped.empty()) {
    ++row.skipped[r.skipped];
    return;
  }
  ++row.checked;
  const int order = r.report.order;  // the one that failed, if one did
  std::optional<double>& largest = row.error[order - 1];
  const double error = r.report.order_error[order - 1];
  if (!largest || !(error <= *largest)) largest = error;
  if (r.report.ok) return;
  ++row.failed;
  row.failures.push_back(fmt::format("{}, sample '{}', layout {}: {}", r.check, r.sample,
                                     autograd::layout_name(r.layout), r.report.message));
}

Row run(const Check& check, const GradcheckRequest& request, std::span<const CheckLayout> layouts) {
  Row row;
  row.name = std::string(check.name());
  for (int order = 1; order <= request.order && row.failed == 0; ++order) {
    autograd::GradcheckOptions options;
    options.order = order;
    options.use_differences = request.differences;
    options.use_dual = request.dual;
    try {
      for (const CheckResult& r : run_check(check, options, layouts)) take(row, r);
    } catch (const autograd::Error& e) {
      ++row.checked;
      ++row.failed;
      row.error[order - 1] = std::nan("");
      row.failures.push_back(fmt::format("{}, order {}: threw {}", row.name, order, e.what()));
    }
  }
  return row;
}

std::vector<const Check*> chosen(const std::vector<std::string>& names) {
  const std::vector<const Check*> all = autograd::registered_checks();
  if (names.empty()) return all;
  std::vector<std::string> known;
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

std::string error_text(const std::optional<double>& error) {
  return error ? fmt::format("{:.1e}", *error) : "-";
}

// How many digits of engine and oracle agree.
std::string digits_text(const Row& row) {
  double error = 0;
  for (const auto& e : row.error)
    if (e && !(*e <= error)) error = *e;
  if (row.checked == 0 || !std::isfinite(error)) return "-";
  return fmt::format("{:.1f}", std::clamp(-std::log10(error), 0.0, 16.0));
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

void print_table(const std::vector<Row>& rows, std::int64_t order) {
  print("{:<28} {:>7} {:>10} {:>10} {:>7}\n", "name", "checks", "order 1",
        order > 1 ? "order 2" : "", "digits");
  for (const Row& row : rows)
    print("{:<28} {:>7} {:>10} {:>10} {:>7}{}\n", row.name, row.checked, error_text(row.error[0]),
          order > 1 ? error_text(row.error[1]) : "", digits_text(row),
          row.failed ? "  FAILED" : "");
}

}  // namespace

int report_gradchecks(const GradcheckRequest& request) {
  const std::vector<const Check*> checks = chosen(request.ops);
  const std::vector<CheckLayout> layouts =
      request.layouts.empty() ? std::vector<CheckLayout>(std::begin(autograd::kAllLayouts),
                                                         std::end(autograd::kAllLayouts))
                              : request.layouts;
  Progress progress(false);
  const Stopwatch clock;
  std::vector<Row> rows;
  std::int64_t checked = 0, failed = 0;
  Reasons reasons;
  for (const Check* check : checks) {
    if (progress.wants_live())
      progress.live(fmt::format("{}/{} {}", rows.size() + 1, checks.size(), check->name()));
    rows.push_back(run(*check, request, layouts));
    checked += rows.back().checked;
    failed += rows.back().failed;
    for (const auto& [reason, n] : rows.back().skipped) reasons[reason] += n;
  }
  progress.clear();
  const Worst worst = worst_of(rows);

  if (request.json) {
    nn::Json worst_json;
    if (worst.order > 0)
      worst_json =
          nn::Json::object({{"name", worst.name}, {"order", worst.order}, {"error", worst.error}});
    nn::Json list = nn::Json::array(), failures = list;
    for (const Row& row : rows) {
      list.push_back(nn::Json::object({{"name", row.name},
                                       {"checked", row.checked},
                                       {"failed", row.failed},
                                       {"skipped", total(row.skipped)},
                                       {"error_order_1", row.error[0]},
                                       {"error_order_2", row.error[1]}}));
      for (const std::string& f : row.failures) failures.push_back(f);
    }
    print_json(nn::Json::object({{"checked", checked},
                                 {"failed", failed},
                                 {"ops", rows.size()},
                                 {"worst", worst_json},
                                 {"skipped", total(reasons)},
                                 {"seconds", clock.seconds()},
                                 {"rows", list},
                                 {"failures", failures}}));
  } else {
    print_table(rows, request.order);
    print("\n");
    for (const Row& row : rows)
      for (const std::string& f : row.failures) print("FAILED {}\n", f);
    print("{} checks of {} ops and layers in {}, {} failed", checked, rows.size(),
          seconds_text(clock.seconds()), failed);
    if (worst.order > 0)
      print("; largest error {:.1e} ({}, order {})", worst.error, worst.name, worst.order);
    print("\n");
    for (const auto& [reason, n] : reasons) print("{} not run: {}\n", n, reason);
  }
  if (checked == 0) print_error("gradcheck: no check ran; that proves nothing");
  return checked > 0 && failed == 0 ? kOk : kCheckFailed;
}

}  // namespace heed
