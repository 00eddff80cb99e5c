// heed runs: what lies in the folder of runs, the newest last.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <limits>
#include <optional>

#include "nn/run/run_folder.h"
#include "tools/heed/commands.h"
#include "tools/heed/report/output.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

struct ListedRun {
  fs::path folder;
  fs::file_time_type time = {};
  nn::RunConfig config;
  std::int64_t step = 0;  // of its history
  std::optional<std::int64_t> saved;
  double loss = std::numeric_limits<double>::quiet_NaN(), optimal = loss;  // last evaluation's
  std::string problem;  // why the rest is not known
};

// The last step and the last evaluation: a run that trains at this moment shows how
// far it is.
void read_metrics(ListedRun& run) {
  for (const nn::MetricsRow& row : nn::RunFolder(run.folder).metrics()) {
    run.step = row.step;
    if (std::isnan(row.eval_loss)) continue;
    run.loss = row.eval_loss;
    run.optimal = row.eval_optimal;
  }
}

ListedRun read_run(const fs::path& folder) {
  ListedRun run;
  run.folder = folder;
  try {
    run.config = nn::RunFolder(folder).config();
    read_metrics(run);
    run.saved = nn::RunFolder(folder).saved_step();
  } catch (const autograd::Error& e) {
    run.problem = e.what();
  }
  std::error_code ignored;
  run.time = nn::RunFolder(folder).last_saved().value_or(fs::last_write_time(folder, ignored));
  return run;
}

std::string date_text(fs::file_time_type time) {
  const std::time_t seconds =
      std::chrono::system_clock::to_time_t(std::chrono::file_clock::to_sys(time));
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local)};
}

std::vector<ListedRun> runs_in(const std::string& given) {
  const fs::path top = given.empty() ? "runs" : given;
  std::vector<ListedRun> runs;
  if (given.empty() && !fs::exists(top)) return runs;
  for (const nn::RunFolder& run : nn::RunFolder::list(top)) runs.push_back(read_run(run.path()));
  std::sort(runs.begin(), runs.end(), [](const ListedRun& a, const ListedRun& b) {
    return std::pair(a.time, a.folder) < std::pair(b.time, b.folder);
  });
  return runs;
}

constexpr Column kRunColumns[] = {{"run", "run"},
                                  {"task", "task"},
                                  {"", "step"},
                                  {"step"},
                                  {"saved_step"},
                                  {"steps"},
                                  {"loss", "eval loss", "", "{:.4f}"},
                                  {"optimal_loss"},
                                  {"above_optimum", "above", "", "{:.4f}"},
                                  {"", "saved: step, date"},
                                  {"date"},
                                  {"problem"}};
constexpr Column kRunsKeys[] = {rows("runs", kRunColumns)};

Report list_runs(const std::string& folder) {
  const std::vector<ListedRun> runs = runs_in(folder);
  Report report(kRunsKeys);
  if (runs.empty() && nn::RunFolder(folder).is_run())
    report.line("{} is a run itself, not a folder of runs", folder);
  else if (runs.empty())
    report.line("no run in {}; heed train makes one", folder.empty() ? "runs" : folder);
  Table& table = report.table("runs");
  for (const ListedRun& r : runs) {
    const bool known = r.problem.empty();
    const Value none;
    const std::string date = date_text(r.time), saved = r.saved ? std::to_string(*r.saved) : "-";
    table.add({r.folder.string(), known ? Value(r.config.task) : none,
               known ? Value(fmt::format("{}/{}", r.step, r.config.steps)) : none,
               known ? Value(r.step) : none, r.saved, known ? Value(r.config.steps) : none, r.loss,
               r.optimal, r.loss - r.optimal, saved + ", " + date, date,
               known ? none : Value(r.problem)});
    if (!known)
      table.note += fmt::format("{} is not readable: {}\n", plot::visible_text(r.folder.string()),
                                plot::visible_text(r.problem));
  }
  return report;
}

}  // namespace

void runs_command(Command& c) {
  c.name = "runs", c.what = "list the runs here: task, step, loss above the best possible, date";
  c.examples =
      "  heed runs\n"
      "  heed runs --runs elsewhere/runs --json";
  c.notes =
      "The newest last. A run that trains, or was killed, has come further than its last save, "
      "from\n"
      "which --resume goes on. Losses, in nats per token, are those of the last evaluation; above: "
      "minus\n"
      "the best possible one on the same sequences.";
  auto folder = std::make_shared<std::string>();
  c.add("Options", {nn::Setting("runs", *folder, "DIR", "folder of runs").shows("runs")});
  c.add_common(Command::kJson | Command::kCsv);
  c.modes = {{.result = kRunsKeys, .run = [folder](const Command&) { return list_runs(*folder); }}};
}

}  // namespace heed
