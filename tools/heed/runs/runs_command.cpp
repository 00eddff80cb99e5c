// The command `heed runs`: lists the runs in a directory, the newest last.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <optional>

#include "nn/run/metrics_file.h"
#include "nn/run/run_folder.h"
#include "tools/heed/commands.h"
#include "tools/heed/report/output.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

// Returns "?" if the time is unknown.
std::string date_text(fs::file_time_type time) {
  if (time == fs::file_time_type::min()) return "?";
  const std::time_t seconds =
      std::chrono::system_clock::to_time_t(std::chrono::file_clock::to_sys(time));
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local)};
}

constexpr Column kRunColumns[] = {{"run", "run"},
                                  {"task", "task"},
                                  {"", "step"},
                                  {"step"},
                                  {"saved_step"},
                                  {"steps"},
                                  {"loss", "loss", "", "{:.4f}"},
                                  {"optimal_loss"},
                                  {"above_optimum", "above", "", "{:.4f}", 1},
                                  {"eval_loss", "eval_loss", "", "{:.4f}"},
                                  {"eval_optimal"},
                                  {"", "saved: step, date"},
                                  {"date"},
                                  {"from"},
                                  {"from_weights"},
                                  {"problem"}};
constexpr Column kRunsKeys[] = {rows("runs", kRunColumns)};

// Returns the step in the metrics.csv of a run that is training; 0 if it is not known.
std::int64_t current_step(const nn::RunFolder& run, std::int64_t steps) try {
  if (!run.is_of_last_save(nn::RunFolder::kMetrics)) return 0;
  const auto step = nn::last_step_in(run.file(nn::RunFolder::kMetrics).string());
  return step && *step <= steps ? *step : 0;
} catch (const autograd::IoError&) {  // then the step of the last save is shown
  return 0;
}

// Returns a row of kRunColumns. If the run cannot be read, the row contains the error. If the run
// is training, the row contains its current step.
std::vector<Value> run_row(const nn::RunFolder& run, const std::string& date) {
  nn::RunSummary s;
  Value step, problem;
  nn::MetricsRow evaluation;
  try {
    s = run.summary();
    evaluation = s.last_evaluation.value_or(evaluation);
    if (run.has_state()) step = s.step;
    if (run.has_state() && !s.finished)
      step = std::max(s.step.value_or(0), current_step(run, s.config.steps));
  } catch (const autograd::Error& e) {
    problem = e.what();
  }
  const bool known = problem == Value(), has_steps = step != Value();
  const auto& [config, saved, finished, result, last] = s;
  return {run.text(),
          known ? Value(config.task) : Value(),
          has_steps ? Value(fmt::format("{}/{}", step.dump(), config.steps)) : Value(),
          step,
          saved,
          has_steps ? Value(config.steps) : Value(),
          result ? Value(result->loss) : Value(),
          result ? Value(result->optimal) : Value(),
          result && result->optimal ? Value(result->loss - *result->optimal) : Value(),
          evaluation.eval_loss,
          evaluation.eval_optimal,
          (saved ? std::to_string(*saved) : "-") + ", " + date,
          date,
          config.from.empty() ? Value() : Value(config.from),
          config.from.empty() ? Value() : Value(config.from_weights),
          problem};
}

Report list_runs(const std::string& folder) {
  const fs::path top = folder.empty() ? "runs" : folder;
  std::vector<std::pair<fs::file_time_type, nn::RunFolder>> runs;  // with the time of the last save
  if (!folder.empty() || autograd::is_there(top))
    for (const nn::RunFolder& run : nn::RunFolder::list(top)) {
      std::error_code ignored;
      const auto changed = fs::last_write_time(run.path(), ignored);
      runs.emplace_back(run.last_saved().value_or(changed), run);
    }
  std::stable_sort(runs.begin(), runs.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Report report(kRunsKeys);
  if (runs.empty() && nn::RunFolder(folder).is_run())
    report.line("{} is a run directory, not a directory that contains runs", folder);
  else if (runs.empty())
    report.line("no run in {}; heed train creates one", top.string());
  Table& table = report.table("runs");
  for (const auto& [time, run] : runs) {
    table.add(run_row(run, date_text(time)));
    const std::vector<Value>& row = table.rows.back();
    const Value &problem = row.back(), &weights = row[row.size() - 2], &from = row[row.size() - 3];
    if (from.as<std::string>())
      table.note += fmt::format("{} started from {}, {}\n", plot::visible_text(run.text()),
                                plot::visible_text(from.text()), weights.text());
    if (problem.as<std::string>())
      table.note += fmt::format("{} cannot be read: {}\n", plot::visible_text(run.text()),
                                plot::visible_text(problem.text()));
  }
  return report;
}

constexpr const char* kRunsNotes =
    R"(The newest run is the last. The step of a run that is training, or that was killed, may be
larger than its saved step, from which --resume continues. loss is the loss of a finished run on the
whole evaluation set in nats per token, the same number as in heed train, eval, sweep and compare.
above is this loss minus the optimal loss on the same sequences. eval_loss is the loss of the last
evaluation during training, on the first --eval-batch sequences of the set. A finished run without a
result has no loss until heed eval RUN has measured it, and a directory with only weights and a
configuration has no steps. The weights are not read: heed verify run finds damaged files.)";

}  // namespace

void runs_command(Command& c) {
  c.name = "runs", c.what = "list the runs: task, step, loss, date";
  c.examples =
      "  heed runs\n"
      "  heed runs --runs elsewhere/runs --json";
  c.notes = kRunsNotes;
  auto folder = std::make_shared<std::string>();
  c.add("Options", {nn::Setting("runs", *folder, "DIR", "directory with runs").shows("runs")});
  c.add_common(Command::kJson | Command::kCsv);
  c.modes = {{.result = kRunsKeys, .run = [folder](const Command&) { return list_runs(*folder); }}};
}

}  // namespace heed
