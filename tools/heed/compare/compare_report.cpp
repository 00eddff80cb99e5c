#include "tools/heed/compare/compare_report.h"

#include <cmath>

#include "autograd/base/files.h"

namespace heed {
namespace {

using nn::MeanError;
using nn::RunGroup;

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

// The result if there are several tasks: a list with an object per task, and the columns of CSV.
constexpr Column kTask[] = {{"task"}, {"quantity"}, {"target"}, rows("settings", kComparedSetting)};
constexpr Column kSeveralKeys[] = {rows("tasks", kTask), rows("left_out", kLeftOut), {"files"}};
constexpr Column kTaskColumn[] = {{"task"}};
constexpr auto kCsvOfTasks = joined(kTaskColumn, kComparedSetting);

// Formats a mean and its standard error: "0.1234 ± 0.0012". Returns only the mean if there is one
// run.
Value mean_text(const MeanError& m, int digits) {
  if (m.n == 0) return {};
  if (m.n == 1) return fmt::format("{:.{}f}", m.mean, digits);
  return fmt::format("{:.{}f} ± {:.{}f}", m.mean, digits, m.error, digits);
}

Value steps_text(const RunGroup& g) {
  const MeanError& m = g.steps_to_target;
  if (m.n == 0) return fmt::format("never (0/{})", g.runs.size());
  const bool whole = m.mean == std::floor(m.mean) && (m.n == 1 || m.error == std::floor(m.error));
  return fmt::format("{} ({}/{})", mean_text(m, whole ? 0 : 1).text(), m.n, g.runs.size());
}

using TableRow = std::vector<Value>;

TableRow run_cells(const nn::ComparedRun& r) {
  return {r.folder.string(), r.config.seed, r.final,           r.best,
          r.above,           r.accuracy,    r.steps_to_target, r.seconds};
}

// Returns one row for each score of each head of the model, as means over the runs of a group.
// Returns no rows if the compared quantity is not measured per head.
std::vector<TableRow> head_rows(const RunComparison& c, const RunGroup& g) {
  std::vector<TableRow> list;
  if (!c.of.head) return list;
  for (const nn::HeadQuantity& quantity : nn::head_quantities())
    for (const auto& [layer, head, mean] : head_means(g, quantity))
      list.push_back({layer, head, quantity.name, mean.n, mean.mean, mean.error});
  return list;
}

TableRow setting_cells(const RunComparison& c, const RunGroup& g) {
  Value options = Value::object();
  for (const auto& [key, value] : g.options) options.append(key, value);
  Table runs(kComparedRun), heads(kComparedHead);
  for (const nn::ComparedRun& r : g.runs) runs.add(run_cells(r));
  heads.rows = head_rows(c, g);
  return {g.name(),
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
          c.of.series_name() == "eval_accuracy" ? Value() : mean_text(g.accuracy, 4),
          g.steps_to_target.n,
          g.steps_to_target.mean,
          g.steps_to_target.error,
          c.target ? steps_text(g) : Value(),
          g.seconds.mean,
          g.seconds.error,
          mean_text(g.seconds, 1),
          list_of(runs),
          list_of(heads)};
}

// Returns an empty table. Its columns are the task, if there are several, the options that differ
// between the groups of a task, and then `keys`.
Table options_table(const std::vector<RunComparison>& tasks,
                    std::initializer_list<std::string_view> keys) {
  std::vector<Column> columns;
  if (tasks.size() > 1) columns.push_back({"task"});
  for (const RunComparison& c : tasks)
    for (const auto& [key, value] : c.groups[0].options)
      if (!Columns(columns.data(), columns.size()).find(key)) columns.push_back({key});
  for (const std::string_view key : keys) columns.push_back({key});
  return Table(columns);
}

// Adds a row to an options_table(). `cells` are the cells of its `keys`.
void add_row(Table& table, const RunGroup& group, const TableRow& cells) {
  TableRow row;
  for (std::size_t i = 0; i + cells.size() < table.columns.size(); ++i) {
    const std::string_view key = table.columns[i].key;
    Value& cell = row.emplace_back(key == "task" ? Value(group.runs[0].config.task) : Value());
    for (const auto& [option, value] : group.options)
      if (option == key) cell = value;
  }
  row.insert(row.end(), cells.begin(), cells.end());
  table.add(std::move(row));
}

Report task_report(const RunComparison& c) {
  Report report(kCompareKeys);
  report.set("task", c.task());
  report.set("quantity", c.of.name);
  report.set("target", c.target);
  Table& table = report.table("settings");
  std::size_t runs = 0;
  for (const RunGroup& g : c.groups) table.add(setting_cells(c, g)), runs += g.runs.size();
  table.title =
      fmt::format("{}: {} of {}, mean ± standard error\nfinal: {}{}\n", c.task(),
                  counted(std::int64_t(runs), "run"), counted(std::ssize(c.groups), "setting"),
                  c.of.words(), c.target ? fmt::format("; target: {}", *c.target) : "");
  if (c.of.is_result())
    table.title +=
        fmt::format("on the whole evaluation set; best: {} during training\n", c.of.series_name());
  else if (!c.of.head)
    table.title += "on the first --eval-batch sequences of the evaluation set\n";
  if (!c.of.head) return report;
  Table& heads = report.text_table(kHeadText);
  heads.title = c.of.name + " of each head";
  for (const RunGroup& g : c.groups)
    for (const auto& [layer, head, mean] : head_means(g, *c.of.head))
      heads.add({g.name(), nn::head_name({layer, head}), mean.n, mean_text(mean, 4)});
  return report;
}

}  // namespace

const Columns kComparisonKeys = kCompareKeys, kTasksKeys = kSeveralKeys;

Report comparison_report(const std::vector<RunComparison>& tasks) {
  if (tasks.size() == 1) return task_report(tasks[0]);
  Report report(kTasksKeys);
  Table& list = report.table("tasks");
  Table csv(kCsvOfTasks);
  for (const RunComparison& c : tasks) {
    const Report task = task_report(c);
    for (const Report::Item& item : task.items())
      if (const Table* table = std::get_if<Table>(&item.what)) report.text_table(*table);
    const auto& settings = std::get<Table>(task.find("settings")->what);
    list.add({c.task(), c.of.name, c.target, list_of(settings)});
    for (TableRow row : settings.rows) {
      row.insert(row.begin(), c.task());
      csv.add(std::move(row));
    }
  }
  report.csv = csv;
  return report;
}

std::vector<std::filesystem::path> write_comparison(const std::filesystem::path& folder,
                                                    const std::vector<RunComparison>& tasks) {
  Table settings =
      options_table(tasks, {"quantity", "n", "final_mean", "final_error", "best", "above_mean",
                            "above_error", "accuracy_mean", "accuracy_error", "target", "reached",
                            "steps_mean", "steps_error", "seconds_mean", "seconds_error"});
  Table runs = options_table(tasks, {"run", "seed", "quantity", "final", "best", "above",
                                     "accuracy", "steps_to_target", "seconds"});
  Table curves = options_table(tasks, {"quantity", "step", "n", "mean", "standard_error"});
  Table heads = options_table(tasks, {"layer", "head", "quantity", "n", "mean", "standard_error"});
  const auto add_group = [&](const RunComparison& c, const RunGroup& g) {
    const MeanError& steps = g.steps_to_target;
    add_row(settings, g,
            {c.of.name, g.final.n, g.final.mean, g.final.error, g.best, g.above.mean, g.above.error,
             g.accuracy.mean, g.accuracy.error, c.target, c.target ? Value(steps.n) : Value(),
             steps.mean, steps.error, g.seconds.mean, g.seconds.error});
    for (const nn::ComparedRun& r : g.runs) {
      TableRow cells = run_cells(r);
      cells.insert(cells.begin() + 2, c.of.name);
      add_row(runs, g, cells);
    }
    for (std::size_t i = 0; i < g.curve.steps.size(); ++i) {
      const MeanError& m = g.curve.values[i];
      add_row(curves, g,
              {c.of.series_name(), std::int64_t(g.curve.steps[i]), m.n, m.mean, m.error});
    }
    for (const TableRow& cells : head_rows(c, g)) add_row(heads, g, cells);
  };
  for (const RunComparison& c : tasks)
    for (const RunGroup& g : c.groups) add_group(c, g);
  std::vector<std::filesystem::path> files;
  const auto write = [&](const char* name, const Table& table) {
    autograd::write_file((folder / name).string(), std::string_view(to_csv(table)));
    files.push_back(folder / name);
  };
  write("compare.csv", settings), write("runs.csv", runs), write("curves.csv", curves);
  if (tasks[0].of.head) write("heads.csv", heads);
  return files;
}

}  // namespace heed
