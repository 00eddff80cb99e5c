#include "tools/heed/sweep/sweep_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <deque>
#include <limits>
#include <list>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "autograd/base/files.h"
#include "tools/heed/find_run.h"
#include "tools/heed/plan/sweep_folder.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/sweep/sweep_progress.h"
#include "tools/heed/sweep/worker.h"

namespace heed {
namespace {

using OutcomeState = RunOutcome::State;

constexpr std::chrono::milliseconds kBetweenLooks(5);  // at the workers
constexpr double kBetweenAsks = 0.2;                   // s: for runs of another heed

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    if (!line.empty()) lines.push_back(line.starts_with("heed: ") ? line.substr(6) : line);
  return lines;
}

// One call of train_runs.
class SweepRuns {
 public:
  SweepRuns(const SweepJobs& jobs, const std::vector<const PlannedRun*>& runs)
      : jobs_(jobs), progress_(jobs.quiet) {
    for (const PlannedRun* run : runs) outcome_.runs.push_back({run});
  }

  SweepOutcome go() {
    for (RunOutcome& run : outcome_.runs) {
      if (is_there(run))
        run.state = OutcomeState::kBefore;
      else
        waiting_.push_back(&run);
    }
    while (!waiting_.empty() || !at_work_.empty() || !elsewhere_.empty()) {
      if (interrupt_.interrupted() && !outcome_.interrupted) stop();
      while (at_work_.size() < jobs_.jobs && !waiting_.empty()) {
        RunOutcome& run = *waiting_.front();
        waiting_.pop_front();
        try {
          begin(run);
        } catch (const std::exception& e) {
          fail(run, e.what());
        }
      }
      at_work_.remove_if([this](Job& job) {
        const auto code = job.worker.ended();
        if (code) end(job, *code);
        return code.has_value();
      });
      if (asked_.seconds() > kBetweenAsks) ask_for_others();
      if (progress_.is_due()) progress_.at_work(progress_now());
      std::this_thread::sleep_for(kBetweenLooks);
    }
    outcome_.interrupted = outcome_.interrupted || interrupt_.interrupted();
    outcome_.seconds = clock_.seconds();
    return std::move(outcome_);
  }

 private:
  struct Job {
    Job(RunOutcome& r, bool goes_on, const std::vector<std::string>& arguments)
        : run(r), resumed(goes_on), worker(arguments) {}

    RunOutcome& run;
    bool resumed;
    Worker worker;
    Stopwatch clock;
  };

  std::filesystem::path folder_of(const RunOutcome& run) const {
    return jobs_.folder / run.run->name;
  }

  void stop() {
    outcome_.interrupted = true;
    waiting_.clear(), elsewhere_.clear();
    for (const Job& job : at_work_) job.worker.stop();
  }

  // Whether it is finished; of one that cannot be read its turn says why.
  bool is_there(const RunOutcome& run) const {
    try {
      return state_of(folder_of(run)) == RunState::kFinished;
    } catch (const std::exception&) {
      return false;
    }
  }

  // Another sweep, or the runs of one that was killed, which save and end: its runs are waited for,
  // and gone on with if they are not finished then.
  void ask_for_others() {
    asked_ = {};
    for (RunOutcome* run : std::exchange(elsewhere_, {})) {
      if (nn::is_taken(folder_of(*run)))
        elsewhere_.push_back(run);
      else if (is_there(*run))
        run->state = OutcomeState::kBefore;
      else
        waiting_.push_back(run);
    }
  }

  void fail(RunOutcome& run, const std::string& error) {
    run.state = OutcomeState::kFailed;
    run.error = error;
    progress_.warn(fmt::format("{} failed: {}", run.run->name, error));
  }

  void begin(RunOutcome& run) {
    const std::string folder = folder_of(run).string();
    if (nn::is_taken(folder)) return elsewhere_.push_back(&run);
    const RunState state = state_of(folder);
    if (state == RunState::kFinished) {  // by another heed since
      run.state = OutcomeState::kBefore;
      return;
    }
    try {
      if (state == RunState::kNew) open_out(folder, false);
    } catch (const nn::FolderInUse&) {
      return elsewhere_.push_back(&run);
    } catch (const UsageError&) {
      usage_error("{} is not empty and holds no run; remove it", folder);
    }
    std::vector<std::string> arguments = {"train", "--quiet", "--json",
                                          fmt::format("--threads={}", jobs_.threads)};
    if (!jobs_.simd.empty()) arguments.push_back("--simd=" + jobs_.simd);
    if (state == RunState::kSaved)
      arguments.push_back("--resume=" + folder);
    else
      for (const std::string& argument :
           {"--config=" + keep_recipe(jobs_.folder, *run.run).string(), "--out=" + folder})
        arguments.push_back(argument);
    if (state == RunState::kUnsaved) arguments.push_back("--overwrite");
    at_work_.emplace_back(run, state == RunState::kSaved, arguments);
  }

  void end(const Job& job, int code) {
    RunOutcome& run = job.run;
    run.exit_code = code;
    const std::vector<std::string> said = lines_of(job.worker.err());
    if (code == kOk) {
      run.state = OutcomeState::kFinished;
      for (const std::string& line : said)  // once, of whichever run says it first
        if (warnings_.insert(line).second) progress_.warn(run.run->name + ": " + line);
      try {
        keep_result(job);
      } catch (const std::exception& e) {  // the run has saved all the same
        progress_.warn(fmt::format("{}: {}", run.run->name, e.what()));
      }
    } else if (outcome_.interrupted && was_stopped(code)) {
      run.state = OutcomeState::kStopped;
    } else if (nn::is_taken(folder_of(run)) || is_there(run)) {  // another heed was first
      run.exit_code = 0;
      if (!outcome_.interrupted) elsewhere_.push_back(&run);
    } else {
      fail(run, why(code, said));
    }
  }

  // By itself, saved, or by a signal before it could tell.
  static bool was_stopped(int code) {
    return code == kInterrupted || code == 128 + SIGHUP || code == 128 + SIGTERM ||
           code == 128 + SIGINT;
  }

  // Of a run that failed; its warnings came before its error.
  static std::string why(int code, const std::vector<std::string>& said) {
    if (code == kInterrupted) return "was stopped, saved";
    if (code > 128) return fmt::format("was killed by signal {}", code - 128);
    return said.empty() ? fmt::format("exit code {}", code) : said.back();
  }

  void keep_result(const Job& job) {
    RunOutcome& run = job.run;
    run.result = Value::parse(job.worker.out());
    if (job.resumed)
      run.result["seconds"] = Value();  // of its last part alone
    else
      pace_.add(work_of(run.run->config), job.clock.seconds());
    autograd::write_file(nn::RunFolder(folder_of(run)).file(nn::RunFolder::kResult).string(),
                         std::string_view(run.result.dump() + "\n"));
    const Value* loss = run.result.find("loss");
    progress_.line(fmt::format("{}: loss {:.4f}; {}", run.run->name,
                               loss ? loss->number() : std::numeric_limits<double>::quiet_NaN(),
                               progress_now()));
  }

  std::string progress_now() const {
    SweepCounts counts{outcome_.runs.size(), 0, outcome_.count(OutcomeState::kFailed), 0};
    counts.done = counts.failed + outcome_.count(OutcomeState::kFinished) +
                  outcome_.count(OutcomeState::kBefore);
    double waiting = 0;
    for (const RunOutcome* run : waiting_) waiting += work_of(run->run->config);
    std::vector<RunningWork> running;
    for (const Job& job : at_work_)
      if (job.run.state == OutcomeState::kWaiting)
        running.push_back({work_of(job.run.run->config), job.clock.seconds()});
    counts.running = running.size(), counts.elsewhere = elsewhere_.size();
    return outcome_.interrupted ? fmt::format("stops: {} runs save", counts.running)
                                : progress_text(counts, pace_.left(waiting, running, jobs_.jobs));
  }

  const SweepJobs& jobs_;
  SweepOutcome outcome_;
  std::deque<RunOutcome*> waiting_;
  std::vector<RunOutcome*> elsewhere_;  // another heed trains them
  Stopwatch asked_;
  std::list<Job> at_work_;
  std::set<std::string> warnings_;
  SweepPace pace_;
  Progress progress_;
  InterruptGuard interrupt_;
  Stopwatch clock_;
};

}  // namespace

const char* state_name(OutcomeState state) {
  constexpr const char* kNames[] = {"waiting", "finished", "before", "failed", "stopped"};
  return kNames[int(state)];
}

std::size_t SweepOutcome::count(OutcomeState state) const {
  return std::size_t(std::count_if(runs.begin(), runs.end(),
                                   [&](const RunOutcome& run) { return run.state == state; }));
}

SweepOutcome train_runs(const SweepJobs& jobs, const std::vector<const PlannedRun*>& runs) {
  return SweepRuns(jobs, runs).go();
}

}  // namespace heed
