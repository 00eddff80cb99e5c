#include "tools/heed/compare/compare_report.h"

#include <algorithm>
#include <map>

#include "autograd/base/files.h"
#include "autograd/base/text.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

using nn::ComparedRun;
using nn::MeanError;
using nn::RunGroup;
using Cells = std::vector<Value>;

// A number of a run. For a setting, the tables show the mean of the number over its runs.
struct Number {
  std::string_view label;  // heading in text
  // Keys in JSON. If `error` is "", the key `mean` has RunGroup::best instead of a mean.
  std::string_view run, n, mean, error;
  double ComparedRun::*value;
  std::string_view format;
  int drop;  // Column::drop
};
constexpr Number kNumbers[] = {
    {"final", "final", "n", "final_mean", "final_error", &ComparedRun::final, "{:.4f}", 0},
    {"best", "best", "", "best", "", &ComparedRun::best, "{:.4f}", 0},
    {"above optimum", "above", "", "above_mean", "above_error", &ComparedRun::above, "{:.4f}", 1},
    {"accuracy", "accuracy", "", "accuracy_mean", "accuracy_error", &ComparedRun::accuracy,
     "{:.4f}", 2},
    {"seconds", "seconds", "", "seconds_mean", "seconds_error", &ComparedRun::seconds, "{:.1f}",
     3}};

std::vector<Column> run_columns(std::vector<Column> columns) {
  for (const Number& number : kNumbers) columns.push_back({number.run});
  return columns;
}
Cells run_cells(Cells cells, const ComparedRun& r) {
  cells.insert(cells.end(), {r.folder.string(), r.config.seed});
  for (const Number& number : kNumbers) cells.emplace_back(r.*number.value);
  return cells;
}

// Appends the columns of the numbers of a setting.
std::vector<Column> setting_columns(std::vector<Column> columns) {
  for (const Number& number : kNumbers) {
    if (!number.n.empty()) columns.push_back({number.n, number.n});
    columns.push_back({.key = number.mean,
                       .label = number.label,
                       .format = number.format,
                       .drop = number.drop,
                       .has_error = !number.error.empty()});
    if (!number.error.empty()) columns.push_back({number.error});
  }
  return columns;
}
// Appends the cells of setting_columns().
Cells setting_cells(Cells cells, const RunGroup& g) {
  for (const Number& number : kNumbers) {
    const MeanError m = g.mean(number.value);
    if (!number.n.empty()) cells.emplace_back(m.n);
    cells.emplace_back(number.error.empty() ? g.best : m.mean);
    if (!number.error.empty()) cells.emplace_back(m.error);
  }
  return cells;
}

const std::vector<Column> kRun = run_columns({{"run"}, {"seed"}});
const std::vector<Column> kSetting = [] {
  std::vector<Column> columns = setting_columns({{"setting", "setting"}, {"options"}});
  columns.push_back(rows("runs", kRun));
  return columns;
}();
constexpr Column kDifferingText[] = {{"", "option"}, {"", "value: settings", "", "text"}};
const Column kCompareKeys[] = {
    {"task"}, {"quantity"}, rows("settings", kSetting), rows("left_out", kLeftOut), {"files"}};

// The result if there are several tasks: a list with an object per task.
const Column kTask[] = {{"task"}, {"quantity"}, rows("settings", kSetting)};
const Column kSeveralKeys[] = {rows("tasks", kTask), rows("left_out", kLeftOut), {"files"}};

Value options_of(const RunGroup& g) {
  Value options = Value::object();
  for (const auto& [key, value] : g.options) options.append(key, value);
  return options;
}

Cells all_setting_cells(const RunGroup& g) {
  Table runs(kRun);
  for (const ComparedRun& r : g.runs) runs.add(run_cells({}, r));
  Cells cells = setting_cells({g.name, options_of(g)}, g);
  cells.push_back(list_of(runs));
  return cells;
}

// Shortens each absolute path to its last parts that no other path ends with.
std::vector<std::string> short_names(std::vector<std::string> texts) {
  std::map<std::string, std::size_t> count;  // number of paths with each end
  for (const std::string& text : texts)
    for (std::size_t at = text.starts_with('/') ? text.size() : 0; at > 0;)
      at = text.rfind('/', at - 1), ++count[text.substr(at + 1)];
  for (std::string& text : texts) {
    if (!text.starts_with('/')) continue;
    std::size_t at = text.rfind('/');
    while (at > 0 && count[text.substr(at + 1)] > 1) at = text.rfind('/', at - 1);
    text.erase(0, at + 1);
  }
  return texts;
}

// Returns a table with a row for each option that differs between groups. A row lists the groups
// with each value.
Table differing_table(const std::vector<RunGroup>& groups) {
  constexpr std::size_t kNamed = 3;
  Table table(kDifferingText);
  for (const auto& [option, first] : groups[0].options) {
    std::vector<std::string> values;
    std::map<std::string, std::vector<std::string>> names;  // of the groups that have each value
    for (const RunGroup& g : groups) {
      const std::string& value = g.value(option);
      if (!names.contains(value)) values.push_back(value);
      names[value].push_back(g.name);
    }
    const std::vector<std::string> shown = short_names(values);
    std::string cell;
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::vector<std::string>& list = names[values[i]];
      const std::size_t more = list.size() - std::min(list.size(), kNamed);
      if (more > 0) list.resize(kNamed), list.push_back(fmt::format("{} more", more));
      cell += fmt::format("{}{}: {}", i > 0 ? "; " : "", shown[i].empty() ? "none" : shown[i],
                          heed::join(list));
    }
    table.add({option, cell});
  }
  return table;
}

// Returns an empty table. Its columns are the task, if there are several, the options that differ
// between the groups of a task, and then `more`.
Table options_table(const std::vector<RunComparison>& tasks, const std::vector<Column>& more) {
  std::vector<Column> columns;
  if (tasks.size() > 1) columns.push_back({"task"});
  for (const RunComparison& c : tasks)
    for (const auto& [key, value] : c.groups[0].options)
      if (!Columns(columns).find(key)) columns.push_back({key});
  columns.insert(columns.end(), more.begin(), more.end());
  return Table(columns);
}

// Adds a row to an options_table(). `cells` are the cells of its columns `more`.
void add_row(Table& table, const RunGroup& group, const Cells& cells) {
  Value known = options_of(group);
  known.append("task", group.runs[0].config.task);
  Cells row;
  while (row.size() + cells.size() < table.columns.size()) {
    const Value* value = known.find(table.columns[row.size()].key);
    row.push_back(value ? *value : Value());
  }
  row.insert(row.end(), cells.begin(), cells.end());
  table.add(std::move(row));
}

Report task_report(const RunComparison& c) {
  Report report(kCompareKeys);
  report.set("task", c.task());
  report.set("quantity", c.of.name);
  Table& table = report.table("settings");
  std::size_t runs = 0;
  for (const RunGroup& g : c.groups) table.add(all_setting_cells(g)), runs += g.runs.size();
  table.title = fmt::format("{}: {} of {}, mean ± standard error\nfinal: {}\n", c.task(),
                            counted(std::int64_t(runs), "run"),
                            counted(std::ssize(c.groups), "setting"), c.of.words());
  if (c.of.is_result())
    table.title +=
        fmt::format("on the whole evaluation set; best: {} during training\n", c.of.series_name());
  else
    table.title += "on the first --eval-batch sequences of the evaluation set\n";
  report.text_table(differing_table(c.groups));
  return report;
}

}  // namespace

const Columns kComparisonKeys = kCompareKeys, kTasksKeys = kSeveralKeys;

void name_groups(std::vector<RunGroup>& groups) {
  std::vector<std::string> first;  // the first run of each group
  for (const RunGroup& g : groups) {
    const auto folder = fs::absolute(g.runs[0].folder / "").lexically_normal().parent_path();
    first.push_back(folder.string());
  }
  if (groups.size() == 1 && groups[0].runs.size() > 1) return;
  first = short_names(std::move(first));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::size_t more = groups[i].runs.size() - 1;
    groups[i].name = first[i] + (more > 0 ? fmt::format(" and {} more", more) : "");
  }
}

Report comparison_report(const std::vector<RunComparison>& tasks) {
  if (tasks.size() == 1) return task_report(tasks[0]);
  Report report(kTasksKeys);
  Table& list = report.table("tasks");
  for (const RunComparison& c : tasks) {
    const Report task = task_report(c);
    for (const Report::Item& item : task.items())
      if (const Table* table = std::get_if<Table>(&item.what)) report.text_table(*table);
    const auto& settings = std::get<Table>(task.find("settings")->what);
    list.add({c.task(), c.of.name, list_of(settings)});
  }
  return report;
}

std::vector<fs::path> write_comparison(ResultFolder& folder,
                                       const std::vector<RunComparison>& tasks) {
  Table settings = options_table(tasks, setting_columns({{"setting"}, {"quantity"}}));
  Table runs = options_table(tasks, run_columns({{"quantity"}, {"run"}, {"seed"}}));
  Table curves =
      options_table(tasks, {{"quantity"}, {"step"}, {"n"}, {"mean"}, {"standard_error"}});
  for (const RunComparison& c : tasks)
    for (const RunGroup& g : c.groups) {
      add_row(settings, g, setting_cells({g.name, c.of.name}, g));
      for (const ComparedRun& r : g.runs) add_row(runs, g, run_cells({c.of.name}, r));
      for (const auto& [step, m] : g.curve)
        add_row(curves, g, {c.of.series_name(), step, m.n, m.mean, m.error});
    }
  std::vector<fs::path> files;
  const auto write = [&](const char* name, const Table& table) {
    files.push_back(folder.file(name));
    autograd::write_file(files.back().string(), std::string_view(to_csv(table)));
  };
  write("compare.csv", settings), write("runs.csv", runs), write("curves.csv", curves);
  return files;
}

}  // namespace heed
