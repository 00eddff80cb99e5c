// heed compare: many runs, their means over seeds.
#include <algorithm>
#include <cmath>

#include "autograd/base/text.h"
#include "nn/io/nearest.h"
#include "nn/run/staged_folder.h"
#include "tools/heed/commands.h"
#include "tools/heed/compare/compare_pictures.h"
#include "tools/heed/compare/compare_report.h"
#include "tools/heed/find_run.h"
#include "tools/heed/pictures.h"
#include "tools/heed/plan/sweep_folder.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

struct CompareArguments {
  std::vector<std::string> runs;
  std::string of = "loss", against, out;
  double target = 0;
};

// A run that takes no part, and why.
struct LeftOut {
  fs::path run;
  std::string why;
  bool damaged = false;  ///< a file of it cannot be read
};

struct FoundRuns {
  std::vector<RunRecord> runs;
  std::vector<LeftOut> left_out;
};

// The runs of a sweep in its order, or those right in a folder by name.
std::vector<fs::path> runs_inside(const fs::path& folder) {
  std::vector<fs::path> runs;
  if (is_sweep(folder)) {
    for (const PlannedRun& run : read_plan(folder).runs) runs.push_back(folder / run.name);
    return runs;
  }
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    nn::finish_publication(it->path());
    if (nn::RunFolder(it->path()).is_run()) runs.push_back(it->path());
  }
  if (error)
    throw autograd::IoError(
        fmt::format("compare: cannot read {}: {}", folder.string(), error.message()));
  if (runs.empty())
    throw autograd::IoError(
        fmt::format("compare: {} is no run and holds none; heed sweep and heed train make some",
                    folder.string()));
  std::sort(runs.begin(), runs.end());
  return runs;
}

// The reason without the run's own name, which stands beside it.
LeftOut damaged_run(const fs::path& run, std::string why) {
  const std::string folder = (run / "").string();
  for (std::size_t at = why.find(folder); at != std::string::npos; at = why.find(folder))
    why.erase(at, folder.size());
  return {run, why, true};
}

std::string named(const std::vector<LeftOut>& left_out) {
  constexpr std::size_t kNamed = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamed, left_out.size()); ++i)
    text += fmt::format("{}{} ({})", i > 0 ? ", " : "", left_out[i].run.string(), left_out[i].why);
  return text + (left_out.size() > kNamed ? ", ..." : "");
}

// UsageError or, of runs whose files cannot be read, IoError.
void check_some_left(const FoundRuns& found) {
  const std::vector<LeftOut>& left_out = found.left_out;
  if (!found.runs.empty()) return;
  if (std::any_of(left_out.begin(), left_out.end(), [](const LeftOut& run) { return run.damaged; }))
    throw autograd::IoError("compare: no run is left to compare: " + named(left_out));
  usage_error("none of the {} runs is finished: {} is {}; heed train --resume goes on",
              left_out.size(), left_out[0].run.string(), left_out[0].why);
}

void add_run(FoundRuns& found, const fs::path& folder) try {
  switch (state_of(folder)) {
    case RunState::kNew:
      return found.left_out.push_back({folder, "not begun"});
    case RunState::kUnsaved:
      return found.left_out.push_back({folder, "never saved"});
    case RunState::kSaved:
      return found.left_out.push_back({folder, "not finished"});
    case RunState::kFinished:
      found.runs.push_back(read_record(folder));
  }
} catch (const autograd::Error& e) {
  found.left_out.push_back(damaged_run(folder, e.what()));
}

FoundRuns find_runs(const std::vector<std::string>& given) {
  FoundRuns found;
  for (const std::string& name : given) {
    const fs::path folder = name;
    std::error_code ignored;
    if (!fs::exists(folder, ignored))
      throw autograd::IoError(fmt::format("compare: there is no run or folder '{}'", name));
    nn::finish_publication(folder);
    if (nn::RunFolder(folder).is_run())
      add_run(found, folder);
    else
      for (const fs::path& run : runs_inside(folder)) add_run(found, run);
  }
  check_some_left(found);
  for (const RunRecord& run : found.runs)
    if (run.config.task != found.runs[0].config.task)
      usage_error("{} learns {}, {} learns {}: numbers of different tasks do not compare",
                  found.runs[0].folder.string(), found.runs[0].config.task, run.folder.string(),
                  run.config.task);
  return found;
}

void say_left_out(const std::vector<LeftOut>& left_out, std::size_t of) {
  if (left_out.empty()) return;
  print_error(
      fmt::format("warning: {} of {} runs take no part: {}", left_out.size(), of, named(left_out)));
}

std::string chosen_against(const CompareArguments& a, const RunComparison& c) {
  std::vector<std::string> differ;
  for (const auto& [key, value] : c.groups[0].values) differ.push_back(key);
  if (a.against.empty()) return differ.size() == 1 ? differ[0] : "";
  if (differ.empty())
    usage_error("--against {}: the runs differ in nothing but their seeds", a.against);
  if (std::find(differ.begin(), differ.end(), a.against) == differ.end())
    usage_error("--against {}: the runs do not differ in it; did you mean '{}'? They differ in {}",
                a.against, nn::nearest(a.against, differ), heed::join(differ));
  return a.against;
}

// The numbers of each of found.runs, of which those that cannot be read go to found.left_out.
std::vector<ComparedRun> measure_runs(FoundRuns& found, const RunComparison& c) {
  std::vector<RunRecord> kept;
  kept.reserve(found.runs.size());  // what is measured points there
  std::vector<ComparedRun> measured;
  Progress progress(false);
  for (std::size_t i = 0; i < found.runs.size(); ++i) {
    progress.at_work(fmt::format("reads the runs: {} of {}", i + 1, found.runs.size()));
    kept.push_back(found.runs[i]);
    try {
      measured.push_back(compare_run(kept.back(), c.of, c.target));
    } catch (const autograd::Error& e) {
      found.left_out.push_back(damaged_run(kept.back().folder, e.what()));
      kept.pop_back();
    }
  }
  found.runs = std::move(kept);
  check_some_left(found);
  return measured;
}

RunComparison compare_all(const CompareArguments& a, const Command& c, FoundRuns& found) {
  RunComparison comparison{.of = compared_quantity(a.of),
                           .target = c.given("target") ? std::optional(a.target) : std::nullopt,
                           .groups = group_runs(found.runs),
                           .settings = {}};
  chosen_against(a, comparison);  // its errors before the work
  const std::vector<ComparedRun> measured = measure_runs(found, comparison);
  comparison.groups = group_runs(found.runs);
  for (const RunGroup& group : comparison.groups) {
    std::vector<ComparedRun> runs;
    for (const RunRecord* run : group.runs)
      runs.push_back(measured[std::size_t(run - found.runs.data())]);
    comparison.settings.push_back(compare_group(group, std::move(runs), comparison.of.rises()));
  }
  return comparison;
}

bool is_comparison_file(const std::string& name) {
  constexpr const char* kNames[] = {"compare.csv", "runs.csv",    "curves.csv", "heads.csv",
                                    "curves.png",  "against.png", "steps.png"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

std::vector<fs::path> write_files(const fs::path& folder, const RunComparison& comparison,
                                  const std::string& against) {
  nn::StagedFolder out(folder, {{"compare.csv"}, is_comparison_file});
  std::vector<fs::path> files = write_comparison(out.staging(), comparison);
  for (const fs::path& file : draw_comparison(out.staging(), comparison, against))
    files.push_back(file);
  return out.publish(files);
}

Report run_compare(const CompareArguments& a, const Command& c) {
  if (!c.given("runs")) usage_error("compare needs runs, or the folder of a sweep");
  std::vector<std::string> given;  // not a.runs: names of runs have commas
  for (const Command::Value& value : c.values.at("runs")) given.push_back(value.text);
  FoundRuns found = find_runs(given);
  if (!a.out.empty()) make_folder(a.out);  // its errors before the work
  const RunComparison comparison = compare_all(a, c, found);
  say_left_out(found.left_out, found.left_out.size() + found.runs.size());
  const fs::path folder = !a.out.empty() ? fs::path(a.out)
                          : given.size() == 1 && !nn::RunFolder(given[0]).is_run()
                              ? fs::path(given[0]) / "compare"
                              : "compare";
  Report report = comparison_report(comparison);
  Table& left_out = report.table("left_out");
  for (const LeftOut& run : found.left_out) left_out.add({run.run.string(), run.why});
  try {
    report.files(write_files(folder, comparison, chosen_against(a, comparison)));
  } catch (const autograd::IoError& e) {  // the numbers need no file
    report.files({});
    report.fail(kInputOutput, fmt::format("{}; --out DIR writes the files elsewhere", e.what()));
  }
  return report;
}

constexpr const char* kCompareNotes =
    "RUNS are runs, folders of runs, or folders of heed sweep. Runs that differ in nothing but\n"
    "their seed are one setting; numbers are means over its seeds with the standard error of the\n"
    "mean. Losses are those of the last evaluation while training, in nats per token; above\n"
    "optimum: minus the best possible one on the same sequences; best: the lowest of any run at\n"
    "any evaluation.\n"
    "--of a head's score (of heed study) compares the largest of any head, on sequences of the\n"
    "evaluation set, at every checkpoint (heed train --save-every) and at the end. --target X:\n"
    "the first evaluation, or checkpoint, with a loss of at most X, or anything else of at least\n"
    "X; runs that never get there count in (reached/all) alone.\n"
    "Runs that are not finished or cannot be read take no part, and are named. Written, and\n"
    "replaced, into --out: compare.csv (a line per setting), runs.csv (per run), curves.csv (per\n"
    "step), heads.csv (per head), curves.png (mean and a band of one standard error to either\n"
    "side, at steps that all its runs have; of more than 8 settings the first 8), against.png\n"
    "and, of a target, steps.png (settings of which all runs get there; the others are named in\n"
    "its title); those of an earlier comparison that this one does not have are removed.";

}  // namespace

void compare_command(Command& c) {
  c.name = "compare", c.what = "many runs: means over seeds, as a table and pictures";
  c.examples =
      "  heed compare sweeps/scale\n"
      "  heed compare sweeps/scale --of induction --target 0.5\n"
      "  heed compare runs/urn-1 runs/urn-2 runs/urn-3 --out urns\n"
      "  heed compare sweeps/kv-heads --against kv-heads --json";
  c.notes = kCompareNotes;
  auto a = std::make_shared<CompareArguments>();
  c.arguments = 1;
  c.add("Options",
        {nn::Setting("runs", a->runs, {}, "runs, folders of runs, sweeps").shows("none"),
         nn::Setting("of", a->of, compared_names(), "what is compared"),
         nn::Setting("target", a->target, {-1e6, 1e6}, "also the steps until it is reached")
             .shows("none"),
         nn::Setting("against", a->against, "OPTION", "draw the final value against this option")
             .shows("the one that differs, if it is one"),
         nn::Setting("out", a->out, "DIR", "folder for the files")
             .shows("compare in the sweep, or here")});
  c.add_common(Command::kThreads | Command::kJson | Command::kCsv);
  c.modes = {{.result = kComparisonKeys,
              .run = [a](const Command& command) { return run_compare(*a, command); }}};
}

}  // namespace heed
