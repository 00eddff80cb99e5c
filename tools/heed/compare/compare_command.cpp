// The command `heed compare`: compares runs by means over seeds.
#include <algorithm>
#include <functional>
#include <set>

#include "autograd/base/text.h"
#include "nn/tasks/task.h"
#include "tools/heed/commands.h"
#include "tools/heed/compare/compare_report.h"
#include "tools/heed/find_run.h"
#include "tools/heed/pictures.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

struct CompareArguments {
  std::vector<std::string> runs;
  std::string of = "loss", out;
};

// A run that is not compared, and the reason.
struct LeftOut {
  fs::path run;
  std::string why;
  bool damaged = false;  // a file of the run cannot be read
};

// Returns the run directories that a command-line argument stands for. A run directory stands for
// itself, and any other directory for the runs directly inside it, in alphabetical order.
std::vector<fs::path> run_folders(const fs::path& given) {
  if (!autograd::is_there(given))
    throw autograd::IoError(fmt::format(
        "compare: '{}' does not exist; give runs, or directories of runs", given.string()));
  if (nn::RunFolder(given).is_run()) return {given};
  std::vector<fs::path> runs;
  for (const nn::RunFolder& run : nn::RunFolder::list(given)) runs.push_back(run.path());
  if (runs.empty())
    throw autograd::IoError(
        fmt::format("compare: {} is not a run and contains no runs; create runs with heed train",
                    given.string()));
  return runs;
}

// Calls f(), which reads files of a run. If it throws, adds the run to `left_out`. The reason is
// the error without the path of the run, which is printed beside it.
void or_leave_out(std::vector<LeftOut>& left_out, const fs::path& run,
                  const std::function<void()>& f) try {
  f();
} catch (const autograd::Error& e) {
  std::string why = e.what();
  const std::string folder = (run / "").string();
  for (std::size_t at = why.find(folder); at != std::string::npos; at = why.find(folder))
    why.erase(at, folder.size());
  left_out.push_back({run, why, true});
}

// Returns the names of the first three runs, each with the reason why it is left out.
std::string list_text(const std::vector<LeftOut>& left_out) {
  constexpr std::size_t kNamed = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamed, left_out.size()); ++i)
    text += fmt::format("{}{} ({})", i > 0 ? ", " : "", left_out[i].run.string(), left_out[i].why);
  return text + (left_out.size() > kNamed ? ", ..." : "");
}

// Throws unless there is a run to compare: IoError if the files of a run cannot be read, otherwise
// UsageError.
void check_not_empty(std::size_t compared, const std::vector<LeftOut>& left_out) {
  if (compared > 0) return;
  if (std::ranges::any_of(left_out, &LeftOut::damaged))
    throw autograd::IoError("compare: no run can be compared: " + list_text(left_out));
  usage_error("no run is finished: {} is {}; continue it with heed train --resume",
              left_out[0].run.string(), left_out[0].why);
}

// Sets the key "left_out", and names the first of these runs in a warning.
void set_left_out(Out& out, std::size_t compared, const std::vector<LeftOut>& left_out) {
  if (!left_out.empty())
    print_error(fmt::format("warning: {} of {} runs {} not compared: {}", left_out.size(),
                            compared + left_out.size(), left_out.size() == 1 ? "is" : "are",
                            list_text(left_out)));
  Value list = Value::array();
  for (const LeftOut& run : left_out)
    list.push_back(Value::object({{"run", run.run.string()}, {"why", run.why}}));
  out.set("left_out", list);
}

// Returns the directories of all runs that the arguments stand for. The arguments are read from
// c.values. CompareArguments::runs is not used, because its items are separated by commas, and
// names of runs contain commas.
std::vector<fs::path> all_folders(const Command& c) {
  std::vector<fs::path> all;
  for (const Command::Value& given : c.values.at("runs"))
    for (const fs::path& folder : run_folders(given.text)) all.push_back(folder);
  return all;
}

// Returns the runs that are finished or have only weights. Adds the others to `left_out`.
std::vector<ComparedRun> find_runs(const Command& c, const ComparedQuantity& of,
                                   std::vector<LeftOut>& left_out) {
  std::vector<ComparedRun> runs;
  for (const fs::path& folder : all_folders(c))
    or_leave_out(left_out, folder, [&] {
      const nn::RunFolder run(folder);
      if (run.has_state() && !run.summary().finished)
        left_out.push_back({folder, "not finished"});
      else
        runs.push_back(read_compared(folder, of));
    });
  check_not_empty(runs.size(), left_out);
  return runs;
}

// Returns one comparison for each task, in the order of the first run of each task.
std::vector<RunComparison> compare_tasks(const std::vector<ComparedRun>& runs,
                                         const ComparedQuantity& of) {
  std::vector<std::vector<ComparedRun>> by_task;
  for (const ComparedRun& run : runs) {
    auto same = std::find_if(by_task.begin(), by_task.end(), [&](const auto& list) {
      return list[0].config.task == run.config.task;
    });
    if (same == by_task.end()) same = by_task.emplace(same);
    same->push_back(run);
  }
  std::vector<RunComparison> tasks;
  for (auto& list : by_task) {
    tasks.push_back({of, group_runs(std::move(list), of)});
    name_groups(tasks.back().groups);
  }
  return tasks;
}

std::vector<fs::path> write_files(ResultFolder& out, const std::vector<RunComparison>& tasks) {
  const auto suffix = [&](std::size_t i) {
    return tasks.size() > 1 ? "-" + tasks[i].task() : std::string();
  };
  std::vector<fs::path> files = write_comparison(out, tasks);
  for (std::size_t i = 0; i < tasks.size(); ++i)
    files.push_back(draw_comparison(out, tasks[i], suffix(i)));
  out.complete();
  return files;
}

Out run_compare(const CompareArguments& a, const Command& c) {
  check_out(a.out);
  const ComparedQuantity of{a.of};
  std::vector<LeftOut> left_out;
  const std::vector<ComparedRun> runs = find_runs(c, of, left_out);
  const std::vector<RunComparison> tasks = compare_tasks(runs, of);
  Out out = comparison(tasks);
  set_left_out(out, runs.size(), left_out);
  const std::vector<Command::Value>& given = c.values.at("runs");
  const bool is_list = given.size() == 1 && !nn::RunFolder(given[0].text).is_run();
  std::vector<fs::path> files;
  try {
    ResultFolder folder(a.out, is_list ? fs::path(given[0].text) / "compare" : "compare");
    files = write_files(folder, tasks);
  } catch (const autograd::IoError& e) {  // the numbers are printed
    out.fail(kInputOutput, e.what() + std::string("; --out DIR writes the files elsewhere"));
  }
  out.gap();
  out.files(files);
  return out;
}

constexpr const char* kCompareNotes =
    R"(RUNS are run directories, or directories that contain runs. Runs that differ only in their
seed are one setting. Numbers are means over the seeds of a setting with the standard error of the
mean. A setting is named by the directory of its first run, and the options that differ are listed
below the table.
Runs that are not finished or are damaged are not compared. A warning names them.

[Tasks]
Runs of several tasks are compared task by task: each task has a table, and its pictures are named
after it (curves-copy.png). An option is a part of a setting if it differs between the runs of one
task. The first column of the CSV files is
task. Runs of task text that learn different files are settings of one task.

[Numbers]
final is the loss at the end in nats per token, on the whole evaluation set. heed train, eval and
info print the same number. above optimum is this loss minus the optimal loss on the same
sequences. best is the lowest eval_loss of any run: the loss of an evaluation during training, on
the first --eval-batch sequences of the set. The curves show eval_loss. A directory with only
weights and a configuration has no losses.

[Files]
The directory --out receives compare.csv (a line per setting), runs.csv (per run), curves.csv (per
step) and curves.png (the mean with a band of one standard error above and below, at the steps that
all runs of a setting have; of more than 8 settings the first 8). The directory must be new or empty.

[JSON]
For runs of several tasks, --json prints tasks, left_out and files; otherwise it prints no tasks.)";

}  // namespace

void compare_command(Command& c) {
  c.name = "compare", c.what = "compare runs by means over seeds, as a table and pictures";
  c.examples =
      "  heed compare runs/scale\n"
      "  heed compare runs/markov-1 runs/markov-2 runs/markov-3 --out markov\n"
      "  heed compare runs/markov-1 runs/copy-1 --out markov-and-copy\n"
      "  heed compare runs/scale --of accuracy --json";
  c.notes = kCompareNotes;
  auto a = std::make_shared<CompareArguments>();
  c.arguments = 1;
  c.add("Options",
        {nn::Setting("runs", a->runs, {}, "runs, directories of runs"),
         nn::Setting("of", a->of, {"loss", "accuracy", "eval_loss", "eval_accuracy"},
                     "the compared quantity"),
         nn::Setting("out", a->out, "DIR", "directory for the files")
             .shows("compare, or compare-2, ..., in the given or the current directory")});
  c.add_common(Command::kThreads | Command::kJson);
  c.mark(&nn::Setting::required, {"runs"});
  const std::string of_task =
      "task quantity settings (setting options n final_mean final_error best above_mean "
      "above_error accuracy_mean accuracy_error seconds_mean seconds_error runs (run seed final "
      "best above accuracy seconds))";
  c.modes = {{.keys = of_task + " left_out (run why) files tasks (" + of_task + ")",
              .run = [a](const Command& command) { return run_compare(*a, command); }}};
}

}  // namespace heed
