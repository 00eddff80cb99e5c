#include "tools/heed/compare/compare_report.h"

#include <cmath>

#include "autograd/base/files.h"

namespace heed {
namespace {

using nn::MeanError;

constexpr Column kComparedRun[] = {{"run"},   {"seed"},     {"final"},           {"best"},
                                   {"above"}, {"accuracy"}, {"steps_to_target"}, {"seconds"}};
constexpr Column kComparedHead[] = {{"layer"}, {"head"}, {"quantity"}, {"n"}, {"mean"}, {"error"}};
constexpr Column kComparedSetting[] = {{"setting", "setting"},
                                       {"options"},
                                       {"n", "n"},
                                       {"final_mean"},
                                       {"final_error"},
                                       {"", "final"},
                                       {"best", "best", "", "{:.4f}"},
                                       {"above_mean"},
                                       {"above_error"},
                                       {.label = "above optimum", .drop = 1},
                                       {"accuracy_mean"},
                                       {"accuracy_error"},
                                       {.label = "accuracy", .drop = 2},
                                       {"reached"},
                                       {"steps_mean"},
                                       {"steps_error"},
                                       {.label = "steps to target"},
                                       {"seconds_mean"},
                                       {"seconds_error"},
                                       {.label = "seconds", .drop = 3},
                                       rows("runs", kComparedRun),
                                       rows("heads", kComparedHead)};
constexpr Column kHeadText[] = {{"", "setting"}, {"", "head"}, {"", "n"}, {"", "mean"}};
constexpr Column kLeftOut[] = {{"run"}, {"why"}};
constexpr Column kCompareKeys[] = {{"task"},
                                   {"quantity"},
                                   {"target"},
                                   rows("settings", kComparedSetting),
                                   rows("left_out", kLeftOut),
                                   {"files"}};

// "0.1234 ± 0.0012"; without the second part of one run.
Value mean_text(const MeanError& m, int digits) {
  if (m.n == 0) return {};
  if (m.n == 1) return fmt::format("{:.{}f}", m.mean, digits);
  return fmt::format("{:.{}f} ± {:.{}f}", m.mean, digits, m.error, digits);
}

Value steps_text(const ComparedGroup& g, bool asked) {
  if (!asked) return {};
  const MeanError& m = g.steps_to_target;
  if (m.n == 0) return fmt::format("never (0/{})", g.runs.size());
  const bool whole = m.mean == std::floor(m.mean) && (m.n == 1 || m.error == std::floor(m.error));
  return fmt::format("{} ({}/{})", mean_text(m, whole ? 0 : 1).text(), m.n, g.runs.size());
}

std::vector<Value> run_cells(const ComparedRun& r) {
  return {r.record->folder.string(),
          r.record->config.seed,
          r.final,
          r.best,
          r.above,
          r.accuracy,
          r.steps_to_target,
          r.seconds()};
}

// The means of the heads of a setting, where a head's score is compared: cells of kComparedHead.
std::vector<std::vector<Value>> head_rows(const RunComparison& c, const ComparedGroup& g) {
  std::vector<std::vector<Value>> list;
  for (const nn::HeadQuantity& quantity : nn::head_quantities())
    if (c.of.head)
      for (const HeadMean& h : head_means(g, quantity))
        list.push_back(
            {h.layer, h.head, std::string(quantity.name), h.value.n, h.value.mean, h.value.error});
  return list;
}

void add_setting(Table& table, const RunComparison& c, const ComparedGroup& g) {
  Value options = Value::object();
  for (const auto& [key, value] : g.group->values) options.append(key, value);
  Table runs(kComparedRun), heads(kComparedHead);
  for (const ComparedRun& r : g.runs) runs.add(run_cells(r));
  heads.rows = head_rows(c, g);
  const bool is_accuracy = c.of.name == "accuracy";
  table.add({g.group->name(),
             options,
             g.final.n,
             g.final.mean,
             g.final.error,
             mean_text(g.final, 4),
             g.best,
             g.above.mean,
             g.above.error,
             mean_text(g.above, 4),
             g.accuracy.mean,
             g.accuracy.error,
             is_accuracy ? Value() : mean_text(g.accuracy, 4),
             g.steps_to_target.n,
             g.steps_to_target.mean,
             g.steps_to_target.error,
             steps_text(g, c.target.has_value()),
             g.seconds.mean,
             g.seconds.error,
             mean_text(g.seconds, 1),
             list_of(runs),
             list_of(heads)});
}

// A CSV file whose lines begin with the options of a setting.
class SettingsCsv {
 public:
  SettingsCsv(const RunComparison& c, std::initializer_list<std::string_view> keys) {
    for (const auto& [key, value] : c.groups[0].values) columns_.push_back({key});
    for (const std::string_view key : keys) columns_.push_back({key});
  }
  void add(const RunGroup& group, const std::vector<Value>& cells) {
    std::vector<Value>& row = table_.rows.emplace_back();
    for (const auto& [key, value] : group.values) row.emplace_back(value);
    row.insert(row.end(), cells.begin(), cells.end());
  }
  std::filesystem::path write(const std::filesystem::path& file) {
    table_.columns = Columns(columns_.data(), columns_.size());
    autograd::write_file(file.string(), std::string_view(to_csv(table_)));
    return file;
  }

 private:
  std::vector<Column> columns_;
  Table table_ = Table(Columns());
};

}  // namespace

const Columns kComparisonKeys = kCompareKeys;

Report comparison_report(const RunComparison& c) {
  Report report(kCompareKeys);
  const std::string& task = c.groups[0].runs[0]->config.task;
  report.set("task", task);
  report.set("quantity", c.of.name);
  report.set("target", c.target ? Value(*c.target) : Value());
  Table& table = report.table("settings");
  std::size_t runs = 0;
  for (const ComparedGroup& g : c.settings) {
    add_setting(table, c, g);
    runs += g.runs.size();
  }
  table.title = fmt::format("{}: {} runs of {} settings, mean ± standard error\nfinal: {}{}\n",
                            task, runs, c.settings.size(), c.of.words(),
                            c.target ? fmt::format("; target: {}", *c.target) : "");
  if (!c.of.head) return report;
  Table& heads = report.text_table(kHeadText);
  heads.title = c.of.name + " of each head";
  for (const ComparedGroup& g : c.settings)
    for (const HeadMean& h : head_means(g, *c.of.head))
      heads.add({g.group->name(), fmt::format("L{}H{}", h.layer, h.head), h.value.n,
                 mean_text(h.value, 4)});
  return report;
}

std::vector<std::filesystem::path> write_comparison(const std::filesystem::path& folder,
                                                    const RunComparison& c) {
  SettingsCsv settings(c, {"quantity", "n", "final_mean", "final_error", "best", "above_mean",
                           "above_error", "accuracy_mean", "accuracy_error", "target", "reached",
                           "steps_mean", "steps_error", "seconds_mean", "seconds_error"});
  SettingsCsv runs(c, {"run", "seed", "quantity", "final", "best", "above", "accuracy",
                       "steps_to_target", "seconds"});
  SettingsCsv curves(c, {"quantity", "step", "n", "mean", "standard_error"});
  SettingsCsv heads(c, {"layer", "head", "quantity", "n", "mean", "standard_error"});
  for (const ComparedGroup& g : c.settings) {
    const Value none;
    settings.add(*g.group, {c.of.name, g.final.n, g.final.mean, g.final.error, g.best, g.above.mean,
                            g.above.error, g.accuracy.mean, g.accuracy.error,
                            c.target ? Value(*c.target) : none,
                            c.target ? Value(g.steps_to_target.n) : none, g.steps_to_target.mean,
                            g.steps_to_target.error, g.seconds.mean, g.seconds.error});
    for (const ComparedRun& r : g.runs) {
      std::vector<Value> cells = run_cells(r);
      cells.insert(cells.begin() + 2, c.of.name);
      runs.add(*g.group, cells);
    }
    for (std::size_t i = 0; i < g.curve.steps.size(); ++i) {
      const MeanError& m = g.curve.values[i];
      curves.add(*g.group, {c.of.name, std::int64_t(g.curve.steps[i]), m.n, m.mean, m.error});
    }
    for (const std::vector<Value>& cells : head_rows(c, g)) heads.add(*g.group, cells);
  }
  std::vector<std::filesystem::path> files = {settings.write(folder / "compare.csv"),
                                              runs.write(folder / "runs.csv"),
                                              curves.write(folder / "curves.csv")};
  if (c.of.head) files.push_back(heads.write(folder / "heads.csv"));
  return files;
}

}  // namespace heed
