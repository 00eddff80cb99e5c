#include "tools/heed/compare/compare_report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "autograd/base/files.h"
#include "autograd/base/text.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

using nn::MeanError;
// A number of a run. For a setting, the mean of the number over its runs.
struct Number {
  // Keys in JSON and CSV. If `error` is "", the key `mean` has RunGroup::best instead of a mean.
  const char *run, *mean, *error;
  double ComparedRun::*value;
};
constexpr Number kNumbers[] = {
    {"final", "final_mean", "final_error", &ComparedRun::final},
    {"best", "best", "", &ComparedRun::best},
    {"above", "above_mean", "above_error", &ComparedRun::above},
    {"accuracy", "accuracy_mean", "accuracy_error", &ComparedRun::accuracy},
    {"seconds", "seconds_mean", "seconds_error", &ComparedRun::seconds}};

// Returns the path, the seed and the numbers of a run.
Value run_json(const ComparedRun& r) {
  Value entry = Value::object({{"run", r.folder.string()}, {"seed", r.config.seed}});
  for (const Number& number : kNumbers) entry.append(number.run, r.*number.value);
  return entry;
}

// Returns the numbers of a setting.
Value numbers_json(const RunGroup& g) {
  Value entry = Value::object({{"n", g.mean(&ComparedRun::final).n}});
  for (const Number& number : kNumbers) {
    const MeanError m = g.mean(number.value);
    entry.append(number.mean, *number.error ? m.mean : g.best);
    if (*number.error) entry.append(number.error, m.error);
  }
  return entry;
}

Value options_json(const RunGroup& g) {
  Value options = Value::object();
  for (const auto& [key, value] : g.options) options.append(key, value);
  return options;
}

Value settings_json(const RunComparison& c) {
  Value settings = Value::array();
  for (const RunGroup& g : c.groups) {
    Value runs = Value::array();
    for (const ComparedRun& r : g.runs) runs.push_back(run_json(r));
    Value setting = Value::object({{"setting", g.name}, {"options", options_json(g)}});
    setting.update(numbers_json(g));
    setting.append("runs", runs);
    settings.push_back(setting);
  }
  return settings;
}

// Formats a mean and its standard error.
std::string mean_text(const MeanError& m) {
  return number_text("{:.4f}", m.mean) +
         (std::isnan(m.error) ? "" : fmt::format(" ± {:.4f}", m.error));
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

// Adds a table with a row for each option that differs between groups. A row lists the groups with
// each value.
void add_differing(Out& out, const std::vector<RunGroup>& groups) {
  constexpr std::size_t kNamed = 3;
  std::vector<Cells> rows;
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
    rows.push_back({option, cell});
  }
  if (rows.empty()) return;
  out.gap();
  out.table({"option", "value: settings"}, rows);
}

void add_task(Out& out, const RunComparison& c) {
  std::size_t runs = 0;
  std::vector<Cells> rows;
  for (const RunGroup& g : c.groups) {
    runs += g.runs.size();
    const MeanError final = g.mean(&ComparedRun::final);
    rows.push_back({std::to_string(final.n), mean_text(final), number_text("{:.4f}", g.best),
                    mean_text(g.mean(&ComparedRun::above)), g.name});
  }
  out.gap();
  out.text("{}: {} of {}, mean ± standard error\nfinal: {}", c.task(),
           counted(std::int64_t(runs), "run"), counted(std::ssize(c.groups), "setting"),
           c.of.words());
  if (c.of.is_result())
    out.text("on the whole evaluation set; best: {} during training\n", c.of.series_name());
  else
    out.text("on the first --eval-batch sequences of the evaluation set\n");
  out.table({"n", "final", "best", "above optimum", "setting"}, rows);
  add_differing(out, c.groups);
}

// Returns the first entries of a row of a CSV file: the task, if there are several, and the options
// that differ between the groups of a task. The options of other tasks are null.
Value options_row(const std::vector<RunComparison>& tasks, const RunGroup& group) {
  Value row = Value::object();
  if (tasks.size() > 1) row["task"];
  for (const RunComparison& c : tasks)
    for (const auto& [key, value] : c.groups[0].options) row[key];
  for (const auto& [key, value] : group.options) row[key] = value;
  if (tasks.size() > 1) row["task"] = group.runs[0].config.task;
  return row;
}

std::string csv_quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

// Returns the line of the keys of an object.
std::string csv_keys(const Value& row) {
  std::string line;
  for (const auto& [key, value] : row.entries())
    line += (line.empty() ? "" : ",") + csv_quoted(key);
  return line + "\n";
}

// Returns the line of the values of an object. A value that is null or not finite is empty.
std::string csv_values(const Value& row) {
  std::string line;
  for (const auto& [key, value] : row.entries()) {
    const auto* text = value.as<std::string>();
    const std::string cell = text ? csv_quoted(*text) : value.dump();  // "null" also for NaN
    line += (&value == &row.entries()[0].second ? "" : ",") + (cell == "null" && !text ? "" : cell);
  }
  return line + "\n";
}

}  // namespace

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

Out comparison(const std::vector<RunComparison>& tasks) {
  Out out;
  Value list = Value::array();
  for (const RunComparison& c : tasks) {
    add_task(out, c);
    list.push_back(Value::object(
        {{"task", c.task()}, {"quantity", c.of.name}, {"settings", settings_json(c)}}));
  }
  if (tasks.size() == 1)
    out.set_all(list.items()[0]);
  else
    out.set("tasks", list);
  return out;
}

std::vector<fs::path> write_comparison(ResultFolder& folder,
                                       const std::vector<RunComparison>& tasks) {
  std::string settings, runs, curves;
  // Appends an object to a text, after the line of its keys if it is the first one.
  const auto add = [](std::string& csv, const Value& row) {
    csv += (csv.empty() ? csv_keys(row) : "") + csv_values(row);
  };
  const auto with = [&](const RunGroup& g, std::initializer_list<Value::Object::value_type> more) {
    Value row = options_row(tasks, g);
    row.update(Value::object(more));
    return row;
  };
  const auto point = [&](const RunComparison& c, const RunGroup& g, std::int64_t step,
                         const MeanError& m) {
    return with(g, {{"quantity", c.of.series_name()},
                    {"step", step},
                    {"n", m.n},
                    {"mean", m.mean},
                    {"standard_error", m.error}});
  };
  curves = csv_keys(point(tasks[0], tasks[0].groups[0], 0, {}));  // there may be no curve
  for (const RunComparison& c : tasks)
    for (const RunGroup& g : c.groups) {
      Value setting = with(g, {{"setting", g.name}, {"quantity", c.of.name}});
      setting.update(numbers_json(g));
      add(settings, setting);
      for (const ComparedRun& r : g.runs) {
        Value run = with(g, {{"quantity", c.of.name}});
        run.update(run_json(r));
        add(runs, run);
      }
      for (const auto& [step, m] : g.curve) add(curves, point(c, g, step, m));
    }
  std::vector<fs::path> files;
  const auto write = [&](const char* name, const std::string& csv) {
    files.push_back(folder.file(name));
    autograd::write_file(files.back().string(), std::string_view(csv));
  };
  write("compare.csv", settings), write("runs.csv", runs), write("curves.csv", curves);
  return files;
}

}  // namespace heed
