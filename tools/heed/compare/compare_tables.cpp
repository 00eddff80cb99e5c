#include "tools/heed/compare/compare_tables.h"

#include <algorithm>
#include <cmath>

#include "autograd/base/files.h"
#include "tools/heed/report/output.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

using RowOfCells = std::vector<std::string>;

// "0.1234 ± 0.0012"; without the second part of one run.
std::string mean_text(const MeanError& m, int digits) {
  if (m.n == 0) return "-";
  if (m.n == 1) return fmt::format("{:.{}f}", m.mean, digits);
  return fmt::format("{:.{}f} ± {:.{}f}", m.mean, digits, m.error, digits);
}

std::size_t columns_of_text(const std::string& text) {  // of a terminal
  return std::size_t(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// The first column to the left, the others to the right. A column that says nothing is left out.
std::string aligned(const std::vector<RowOfCells>& rows) {
  std::string text;
  std::vector<std::size_t> widths(rows[0].size(), 0);
  for (std::size_t k = 0; k < widths.size(); ++k) {
    const bool says = std::any_of(rows.begin() + 1, rows.end(),
                                  [&](const RowOfCells& row) { return row[k] != "-"; });
    for (const RowOfCells& row : rows)
      if (says) widths[k] = std::max(widths[k], columns_of_text(row[k]));
  }
  for (const RowOfCells& row : rows) {
    for (std::size_t k = 0; k < row.size(); ++k) {
      if (widths[k] == 0) continue;
      const std::string space(widths[k] - columns_of_text(row[k]), ' ');
      text += k == 0 ? row[k] + space : "  " + space + row[k];
    }
    text += "\n";
  }
  return text;
}

std::string steps_text(const ComparedGroup& g, bool asked) {
  if (!asked) return "-";
  if (g.steps_to_target.n == 0) return fmt::format("never (0/{})", g.runs.size());
  const MeanError& m = g.steps_to_target;
  const bool whole = m.mean == std::floor(m.mean) && (m.n == 1 || m.error == std::floor(m.error));
  return fmt::format("{} ({}/{})", mean_text(m, whole ? 0 : 1), m.n, g.runs.size());
}

std::string csv_number(double x) { return std::isfinite(x) ? fmt::format("{:.17g}", x) : ""; }

std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

// A CSV file whose lines begin with the options of a setting.
class SettingsCsv {
 public:
  SettingsCsv(const RunComparison& c, const std::string& columns) {
    for (const auto& [key, value] : c.groups[0].values) text_ += csv_text(key) + ",";
    text_ += columns + "\n";
  }
  void line(const RunGroup& group, const std::vector<std::string>& texts,
            const std::vector<double>& numbers) {
    std::vector<std::string> cells;
    for (const auto& [key, value] : group.values) cells.push_back(csv_text(value));
    for (const std::string& text : texts) cells.push_back(csv_text(text));
    for (const double x : numbers) cells.push_back(csv_number(x));
    for (std::size_t i = 0; i < cells.size(); ++i) text_ += (i > 0 ? "," : "") + cells[i];
    text_ += "\n";
  }
  std::filesystem::path write(const std::filesystem::path& file) const {
    autograd::write_file(file.string(), std::string_view(text_));
    return file;
  }

 private:
  std::string text_;
};

std::filesystem::path write_heads(const std::filesystem::path& file, const RunComparison& c) {
  SettingsCsv heads(c, "layer,head,quantity,n,mean,standard_error");
  for (const ComparedGroup& g : c.settings)
    for (const nn::HeadQuantity& quantity : nn::head_quantities())
      for (const HeadMean& h : head_means(g, quantity))
        heads.line(*g.group,
                   {std::to_string(h.layer), std::to_string(h.head), std::string(quantity.name)},
                   {double(h.value.n), h.value.mean, h.value.error});
  return heads.write(file);
}

}  // namespace

std::string comparison_table(const RunComparison& c) {
  const std::string what = c.of.head ? "largest " + c.of.name : c.of.name;
  const std::string best = c.of.head ? "at any step" : c.of.rises() ? "largest" : "best";
  std::vector<RowOfCells> rows = {{"setting", "n", what, best, "above optimum", "accuracy",
                                   c.target ? fmt::format("steps to {}", *c.target) : "",
                                   "seconds"}};
  for (const ComparedGroup& g : c.settings)
    rows.push_back({plot::visible_text(g.group->name()), std::to_string(g.final.n),
                    mean_text(g.final, 4),
                    std::isfinite(g.best) ? fmt::format("{:.4f}", g.best) : "-",
                    mean_text(g.above, 4), c.of.name == "accuracy" ? "-" : mean_text(g.accuracy, 4),
                    steps_text(g, c.target.has_value()), mean_text(g.seconds, 1)});
  std::string text = aligned(rows);
  if (!c.of.head) return text;
  rows = {{"setting", "head", "n", c.of.name}};
  for (const ComparedGroup& g : c.settings)
    for (const HeadMean& h : head_means(g, *c.of.head))
      rows.push_back({plot::visible_text(g.group->name()), fmt::format("L{}H{}", h.layer, h.head),
                      std::to_string(h.value.n), mean_text(h.value, 4)});
  return text + "\n" + aligned(rows);
}

std::vector<std::filesystem::path> write_comparison(const std::filesystem::path& folder,
                                                    const RunComparison& c) {
  SettingsCsv settings(c,
                       "quantity,n,final_mean,final_error,best,above_mean,above_error,"
                       "accuracy_mean,accuracy_error,target,reached,steps_mean,steps_error,"
                       "seconds_mean,seconds_error");
  SettingsCsv runs(c, "run,seed,quantity,final,best,above,accuracy,steps_to_target,seconds");
  SettingsCsv curves(c, "quantity,step,n,mean,standard_error");
  for (const ComparedGroup& g : c.settings) {
    settings.line(*g.group, {c.of.name},
                  {double(g.final.n), g.final.mean, g.final.error, g.best, g.above.mean,
                   g.above.error, g.accuracy.mean, g.accuracy.error, c.target.value_or(NAN),
                   c.target ? double(g.steps_to_target.n) : NAN, g.steps_to_target.mean,
                   g.steps_to_target.error, g.seconds.mean, g.seconds.error});
    for (const ComparedRun& r : g.runs)
      runs.line(*g.group,
                {r.record->folder.string(), std::to_string(r.record->config.seed), c.of.name},
                {r.final, r.best, r.above, r.accuracy, r.steps_to_target, r.seconds()});
    for (std::size_t i = 0; i < g.curve.steps.size(); ++i) {
      const MeanError& m = g.curve.values[i];
      curves.line(*g.group, {c.of.name}, {g.curve.steps[i], double(m.n), m.mean, m.error});
    }
  }
  std::vector<std::filesystem::path> files = {settings.write(folder / "compare.csv"),
                                              runs.write(folder / "runs.csv"),
                                              curves.write(folder / "curves.csv")};
  if (c.of.head) files.push_back(write_heads(folder / "heads.csv", c));
  return files;
}

nn::Json comparison_json(const RunComparison& c) {
  nn::Json settings = nn::Json::array();
  for (const ComparedGroup& g : c.settings) {
    nn::Json options = nn::Json::object(), runs = nn::Json::array(), heads = nn::Json::array();
    for (const auto& [key, value] : g.group->values) options.append(key, value);
    for (const ComparedRun& r : g.runs)
      runs.push_back(nn::Json::object({{"run", r.record->folder.string()},
                                       {"seed", r.record->config.seed},
                                       {"final", r.final},
                                       {"best", r.best},
                                       {"above", r.above},
                                       {"accuracy", r.accuracy},
                                       {"steps_to_target", r.steps_to_target},
                                       {"seconds", r.seconds()}}));
    for (std::size_t i = 0; c.of.head && i < nn::head_quantities().size(); ++i)
      for (const HeadMean& h : head_means(g, nn::head_quantities()[i]))
        heads.push_back(nn::Json::object({{"layer", h.layer},
                                          {"head", h.head},
                                          {"quantity", nn::head_quantities()[i].name},
                                          {"n", h.value.n},
                                          {"mean", h.value.mean},
                                          {"error", h.value.error}}));
    settings.push_back(nn::Json::object({{"setting", g.group->name()},
                                         {"options", options},
                                         {"n", g.final.n},
                                         {"final_mean", g.final.mean},
                                         {"final_error", g.final.error},
                                         {"best", g.best},
                                         {"above_mean", g.above.mean},
                                         {"above_error", g.above.error},
                                         {"accuracy_mean", g.accuracy.mean},
                                         {"accuracy_error", g.accuracy.error},
                                         {"reached", g.steps_to_target.n},
                                         {"steps_mean", g.steps_to_target.mean},
                                         {"steps_error", g.steps_to_target.error},
                                         {"seconds_mean", g.seconds.mean},
                                         {"seconds_error", g.seconds.error},
                                         {"runs", runs},
                                         {"heads", heads}}));
  }
  return settings;
}

}  // namespace heed
