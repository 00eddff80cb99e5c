// The command `heed sweep`: trains a run for each combination of options and seeds.
#include <algorithm>

#include "autograd/base/parallel.h"
#include "autograd/base/text.h"
#include "nn/io/toml.h"
#include "tools/heed/commands.h"
#include "tools/heed/report/output.h"
#include "tools/heed/sweep/sweep_run.h"

namespace heed {
namespace {

struct SweepArguments {
  std::string file, out, part;
  std::int64_t jobs = 0;
  bool dry_run = false, quiet = false;
};

// Returns the runs that this process trains. --part I/N selects every N-th run of the sweep.
std::vector<const PlannedRun*> own_runs(const SweepPlan& plan, const std::string& part) {
  std::int64_t index = 1, count = 1;
  if (!part.empty()) {
    const std::vector<std::string> numbers = heed::split(part, '/');
    const auto number = [&](std::size_t i) {
      return heed::parse_number<std::int64_t>(numbers[i]).value_or(0);
    };
    index = number(0), count = numbers.size() == 2 ? number(1) : 0;
    if (index < 1 || index > count || count > std::int64_t(kMostSweepRuns))
      usage_error("--part needs I/N with I from 1 to N and N up to {}, such as 2/8; got '{}'",
                  with_commas(kMostSweepRuns), part);
  }
  std::vector<const PlannedRun*> runs;
  for (auto i = std::size_t(index - 1); i < plan.runs.size(); i += std::size_t(count))
    runs.push_back(&plan.runs[i]);
  return runs;
}

constexpr Column kPlannedRun[] = {{"", "state"}, {"run", "run"}, {"state"}};
constexpr Column kPlanKeys[] = {{"sweep"}, rows("runs", kPlannedRun)};
constexpr Column kSweptRun[] = {{"run"}, {"state"}, {"exit_code"}, {"error"}, {"result"}};
constexpr Column kSweepKeys[] = {
    {"sweep"}, rows("runs", kSweptRun), {"trained"}, {"before"}, {"failed"}, {"seconds"}};

Report plan_report(const std::filesystem::path& folder,
                   const std::vector<const PlannedRun*>& runs) {
  Report report(kPlanKeys);
  report.set("sweep", folder.string());
  Table& table = report.table("runs");
  for (const PlannedRun* run : runs) {
    const char* state = "damaged";
    try {
      const RunState found = nn::RunFolder(folder / run->name).state();
      state = found == RunState::kFinished ? "finished"
              : found == RunState::kSaved  ? "goes on"
                                           : "new";
    } catch (const autograd::IoError&) {  // `heed info` states the reason
    }
    // JSON and CSV still contain the older value "goes on", because scripts may depend on it.
    const char* shown = std::string_view(state) == "goes on" ? "resumes" : state;
    table.add({shown, (folder / run->name).string(), state});
  }
  table.note = counted(std::ssize(runs), "run");
  return report;
}

// Returns the result of a run: the output of `heed train --json` if this call trained the run, or
// its saved result if it was finished before. Returns null if there is none.
Value result_of(const std::filesystem::path& folder, const SweptRun& run) try {
  if (run.state != SweptRun::State::kBefore) return run.result;
  const auto saved = nn::RunFolder(folder / run.plan->name).summary().result;
  return saved ? Value::parse(nn::to_json(*saved)) : Value();
} catch (const autograd::IoError&) {  // the file cannot be read; `heed info` states why
  return {};
}

Report outcome_report(const std::filesystem::path& folder, const SweepOutcome& outcome) {
  using State = SweptRun::State;
  const std::size_t trained = outcome.count(State::kFinished),
                    before = outcome.count(State::kBefore), failed = outcome.count(State::kFailed);
  Report report(kSweepKeys);
  report.set("sweep", folder.string());
  report.set("trained", trained);
  report.set("before", before);
  report.set("failed", failed);
  report.set("seconds", outcome.seconds);
  Table& table = report.table("runs");
  std::string text = fmt::format("{}: {}, {} trained in {}, {} finished before, {} failed\n",
                                 folder.string(), counted(std::ssize(outcome.runs), "run"), trained,
                                 seconds_text(outcome.seconds), before, failed);
  for (const SweptRun& run : outcome.runs) {
    const std::string& name = run.plan->name;
    table.add({(folder / name).string(), nn::enum_name(run.state), run.exit_code,
               run.error.empty() ? Value() : Value(run.error), result_of(folder, run)});
    if (run.state == State::kFailed) text += fmt::format("failed  {}: {}\n", name, run.error);
  }
  if (outcome.interrupted)
    text += "stopped; to continue, repeat the same command\n";
  else if (trained + before > 0)
    text += fmt::format("to compare the runs: heed compare {}\n", folder.string());
  report.block(text);
  if (outcome.interrupted)
    report.fail(kInterrupted);
  else if (failed > 0)
    report.fail(kCheckFailed);
  return report;
}

Report sweep(const SweepArguments& a, const Command& c) {
  const std::string text = nn::read_toml_text(a.file);
  const SweepPlan plan = plan_sweep(text, a.file);
  const std::vector<const PlannedRun*> runs = own_runs(plan, a.part);
  std::filesystem::path folder = a.out;
  if (folder.empty()) folder = "sweeps" / std::filesystem::path(a.file).stem();
  check_sweep_folder(folder, plan);
  if (a.dry_run) return plan_report(folder, runs);
  save_sweep(folder, text);
  const std::int64_t cores = autograd::available_cores();
  const std::int64_t at_a_time = a.jobs > 0 ? a.jobs : cores / std::max<std::int64_t>(1, c.threads);
  const auto jobs = std::max<std::int64_t>(1, at_a_time);
  return outcome_report(
      folder,
      train_runs({.folder = folder,
                  .jobs = std::size_t(jobs),
                  .threads = c.threads > 0 ? c.threads : std::max<std::int64_t>(1, cores / jobs),
                  .simd = c.simd,
                  .quiet = a.quiet},
                 runs));
}

constexpr const char* kSweepNotes =
    R"(FILE.toml has two sections. Options under [train] are shared by all runs. Options under
[sweep] are lists, and every combination of their values is a run. The value of the last list
changes fastest:

  [train]
  task = "induction"
  steps = 200
  [sweep]
  scale = ["1/sqrt-d-head", "none"]
  seed = [1, 2, 3]

[Options]
pairs = ["layers", "heads"] under [sweep] combines the lists value by value: the first with the
first, the second with the second. Paths in FILE.toml are relative to
the current directory.

The name of a run's directory contains its values: sweeps/FILE/scale=none,seed=1. Characters of a
value other than letters, digits, +, - and . are replaced by _. The directory of the sweep contains
the file as sweep.toml. Finished runs are skipped. Unfinished runs are resumed. To continue after
Ctrl-C (each run saves, exit 130) or a kill, repeat the command. Values can be added to the lists.
If the command is started twice at the same time, both processes share the runs.

If a run fails, it is reported, the other runs continue, and the exit code is 1.

Each run is a separate process. By default there are as many at the same time as cores, each with
one thread. With --jobs 1 each run has all cores. The weights do not depend on this.

Several processes can share a sweep. --part I/N selects every N-th run, starting with the I-th, for
a job array. With Slurm:

  #!/bin/bash
  #SBATCH --array=1-8 --cpus-per-task=4 --time=1:00:00
  heed sweep scale.toml --part $SLURM_ARRAY_TASK_ID/8 --quiet)";

}  // namespace

void sweep_command(Command& c) {
  c.name = "sweep", c.what = "train a run for each combination of options and seeds";
  c.examples =
      "  heed sweep scale.toml --dry-run\n"
      "  heed sweep scale.toml --out sweeps/scale\n"
      "  heed sweep scale.toml --jobs 1 --threads 4\n"
      "  heed sweep scale.toml --part 2/8";
  c.notes = kSweepNotes;
  auto a = std::make_shared<SweepArguments>();
  c.arguments = 1;
  c.add(
      "Options",
      {nn::Setting("file", a->file, "FILE", "TOML file that describes the runs"),
       nn::Setting("out", a->out, "DIR", "directory for the runs").shows("sweeps/ and FILE's name"),
       nn::Setting("jobs", a->jobs, {1, 1024}, "number of runs at the same time")
           .shows("the number of cores"),
       nn::Setting("part", a->part, "I/N", "train only part I of N parts of the runs").shows("all"),
       {"dry-run", a->dry_run, "list the runs and their states; train nothing"},
       {"quiet", a->quiet, "no progress, only warnings and failures"}});
  c.add_common(Command::kThreads | Command::kJson | Command::kCsv);
  c.mark(&nn::Setting::required, {"file"});
  const auto run = [a](const Command& command) { return sweep(*a, command); };
  c.modes = {{.key = "dry-run", .result = kPlanKeys, .run = run},
             {.result = kSweepKeys, .run = run}};
}

}  // namespace heed
