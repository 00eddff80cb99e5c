// The command `heed compare`: compares runs by means over seeds.
#include <algorithm>

#include "autograd/base/text.h"
#include "tools/heed/commands.h"
#include "tools/heed/compare/compared_runs.h"
#include "tools/heed/find_run.h"
#include "tools/heed/pictures.h"
#include "tools/heed/report/out.h"
#include "tools/heed/result_folder.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

// A run that is not compared, and the reason.
struct LeftOut {
  fs::path run;
  std::string why;
  bool damaged = false;  // a file of the run cannot be read
};

// The runs of a comparison.
struct Compared {
  std::vector<ComparedRun> runs = {};
  std::vector<LeftOut> left_out = {};
};

// Returns the run directories that an argument stands for: a run for itself, and any other
// directory for the runs directly inside it, in alphabetical order.
std::vector<fs::path> run_folders(const fs::path& given) {
  if (!autograd::is_there(given))
    throw autograd::IoError(fmt::format(
        "compare: '{}' does not exist; give runs, or directories of runs", given.string()));
  if (lab::RunFolder(given).is_run()) return {given};
  std::vector<fs::path> runs;
  for (const lab::RunFolder& run : lab::RunFolder::list(given)) runs.push_back(run.path());
  if (runs.empty())
    throw autograd::IoError(
        fmt::format("compare: {} is not a run and contains no runs; create runs with heed train",
                    given.string()));
  return runs;
}

// Adds the run to those that are compared or, if it is not finished or damaged, to the others.
void add_run(Compared& all, const fs::path& folder) try {
  const lab::RunFolder run(folder);
  if (run.has_state() && !run.summary().finished)
    all.left_out.push_back({folder, "not finished"});
  else
    all.runs.push_back(read_compared(folder));
} catch (const autograd::Error& e) {
  std::string why = e.what();  // without the path of the run, which is printed beside it
  const std::string path = (folder / "").string();
  for (std::size_t at = why.find(path); at != std::string::npos; at = why.find(path))
    why.erase(at, path.size());
  all.left_out.push_back({folder, why, true});
}

// Returns the names of the first three runs, each with the reason why it is left out.
std::string list_text(const std::vector<LeftOut>& left_out) {
  constexpr std::size_t kNamed = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamed, left_out.size()); ++i)
    text += fmt::format("{}{} ({})", i > 0 ? ", " : "", left_out[i].run.string(), left_out[i].why);
  return text + (left_out.size() > kNamed ? ", ..." : "");
}

// Reads the runs. A warning names those that are not compared. If none can be compared, throws
// IoError or UsageError.
Compared read_runs(const std::vector<Command::Value>& given) {
  Compared all;
  for (const Command::Value& argument : given)
    for (const fs::path& folder : run_folders(argument.text)) add_run(all, folder);
  const std::vector<LeftOut>& left_out = all.left_out;
  if (all.runs.empty() && std::ranges::any_of(left_out, &LeftOut::damaged))
    throw autograd::IoError("compare: no run can be compared: " + list_text(left_out));
  if (all.runs.empty())
    usage_error("no run is finished: {} is {}; continue it with heed train --resume",
                left_out[0].run.string(), left_out[0].why);
  if (!left_out.empty())
    print_error(fmt::format("warning: {} of {} runs {} not compared: {}", left_out.size(),
                            all.runs.size() + left_out.size(), left_out.size() == 1 ? "is" : "are",
                            list_text(left_out)));
  return all;
}

// A number of a run, and its mean over the runs of a setting.
struct Number {
  const char* key;
  double ComparedRun::*value;
};
constexpr Number kNumbers[] = {{"loss", &ComparedRun::loss},
                               {"above_optimum", &ComparedRun::above_optimum},
                               {"accuracy", &ComparedRun::accuracy},
                               {"seconds", &ComparedRun::seconds}};

// Returns a setting with its runs.
Value setting_json(const RunGroup& g) {
  Value options = Value::object(), runs = Value::array();
  for (const auto& [key, value] : g.options) options.append(key, value);
  for (const ComparedRun& r : g.runs) {
    Value run = Value::object({{"run", r.folder.string()}, {"seed", r.config.seed}});
    for (const Number& number : kNumbers) run.append(number.key, r.*number.value);
    runs.push_back(run);
  }
  Value setting = Value::object({{"setting", g.name()},
                                 {"task", g.runs[0].config.task},
                                 {"options", options},
                                 {"n", g.mean(&ComparedRun::loss).n}});
  for (const Number& number : kNumbers) {
    const lab::MeanError m = g.mean(number.value);
    setting.append(std::string(number.key) + "_mean", m.mean);
    setting.append(std::string(number.key) + "_error", m.error);
  }
  setting.append("runs", runs);
  return setting;
}

// Returns the row of a setting.
Cells setting_row(const RunGroup& g) {
  const lab::MeanError loss = g.mean(&ComparedRun::loss);
  return {
      std::to_string(loss.n),
      number_text("{:.4f}", loss.mean) + (loss.n > 1 ? number_text(" ± {:.4f}", loss.error) : ""),
      number_text("{:.4f}", g.mean(&ComparedRun::above_optimum).mean),
      number_text("{:.2f} %", 100 * g.mean(&ComparedRun::accuracy).mean),
      number_text("{:.1f}", g.mean(&ComparedRun::seconds).mean),
      g.name()};
}

fs::path draw_curves(ResultFolder& folder, const std::vector<RunGroup>& groups) {
  const plot::LineChart chart = curves_chart(groups);
  std::string alt;
  for (const plot::Series& s : chart.series)
    if (!s.y.empty())
      alt += fmt::format("{}{}: {:.4g} at {:g}.", alt.empty() ? "" : " ", s.name, s.y.back(),
                         s.x.back());
  return write_picture(folder.file("curves"), {"", plot::stack_of(chart), alt}, {})[0];
}

Out run_compare(const std::string& to, const Command& c) {
  check_out(to);
  // The value of the setting is a list that is separated by commas, which names of runs contain.
  const std::vector<Command::Value>& given = c.values.at("runs");
  const Compared all = read_runs(given);
  const std::vector<RunGroup> groups = group_runs(all.runs);

  Out out;
  Value settings = Value::array(), left_out = Value::array();
  std::vector<Cells> rows;
  for (const RunGroup& g : groups)
    settings.push_back(setting_json(g)), rows.push_back(setting_row(g));
  for (const LeftOut& run : all.left_out)
    left_out.push_back(Value::object({{"run", run.run.string()}, {"why", run.why}}));
  out.set("settings", settings);
  out.set("left_out", left_out);
  out.text("{} of {}; means over seeds ± standard error, loss in nats per token\n",
           counted(std::ssize(all.runs), "run"), counted(std::ssize(groups), "setting"));
  out.table({"n", "loss", "above optimum", "accuracy", "seconds", "setting"}, rows);

  const bool is_list = given.size() == 1 && !lab::RunFolder(given[0].text).is_run();
  std::vector<fs::path> files;
  try {
    ResultFolder folder(to, is_list ? fs::path(given[0].text) / "compare" : "compare");
    files = {draw_curves(folder, groups)};
    folder.complete();
  } catch (const autograd::IoError& e) {  // the numbers are printed
    out.fail(kInputOutput, e.what() + std::string("; --out DIR writes the picture elsewhere"));
  }
  out.gap();
  out.files(files);
  return out;
}

constexpr const char* kCompareNotes =
    R"(RUNS are run directories, or directories that contain runs. Runs that differ only in their
seed are one setting, which is named by the options that differ between the runs of its task. The
numbers are means over the n seeds of a setting; that of the loss has its standard error, and
--json has all of them.
loss and accuracy are those of the whole evaluation set at the end, as heed train, eval and info
print them. above optimum is the loss minus the optimal loss on the same sequences. A directory
with only weights and a configuration has none of these numbers.
Runs that are not finished or are damaged are not compared. A warning names them.

[Files]
The directory --out receives curves.png: the mean eval_loss of each setting, with a band of one
standard error above and below, at the steps that all its runs have; of more than 8 settings the
first 8. The directory must be new or empty.)";

}  // namespace

void compare_command(Command& c) {
  c.name = "compare", c.what = "compare runs by means over seeds, as a table and a picture";
  c.examples =
      "  heed compare runs/scale\n"
      "  heed compare runs/markov-1 runs/markov-2 runs/markov-3 --out markov\n"
      "  heed compare runs/scale --json";
  c.notes = kCompareNotes;
  struct Arguments {
    std::vector<std::string> runs;
    std::string out;
  };
  auto a = std::make_shared<Arguments>();
  c.arguments = 1;
  c.add("Options",
        {lab::Setting("runs", a->runs, {}, "runs, directories of runs"),
         lab::Setting("out", a->out, "DIR", "directory for the picture")
             .shows("compare, or compare-2, ..., in the given or the current directory")});
  c.add_common(Command::kThreads | Command::kJson);
  c.mark(&lab::Setting::required, {"runs"});
  c.modes = {{.keys = "settings (setting task options n loss_mean loss_error above_optimum_mean "
                      "above_optimum_error accuracy_mean accuracy_error seconds_mean "
                      "seconds_error runs (run seed loss above_optimum accuracy seconds)) "
                      "left_out (run why) files",
              .run = [a](const Command& command) { return run_compare(a->out, command); }}};
}

}  // namespace heed
