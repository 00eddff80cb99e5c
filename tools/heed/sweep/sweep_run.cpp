#include "tools/heed/sweep/sweep_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <list>
#include <set>
#include <thread>
#include <utility>

#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/sweep/worker.h"

namespace heed {
namespace {

// The state of one call of train_runs().
class Sweep {
 public:
  Sweep(const SweepJobs& jobs, const std::vector<const PlannedRun*>& runs)
      : jobs_(jobs), progress_(jobs.quiet) {
    for (const PlannedRun* run : runs) sweep_.runs.push_back({run});
  }

  SweepOutcome train() {
    constexpr std::chrono::milliseconds kPollInterval(5);  // between checks of the child processes
    constexpr double kElsewhereInterval = 0.2;             // seconds, for runs of other processes
    for (SweptRun& run : sweep_.runs)
      if (is_finished(run)) run.state = State::kBefore;
    for (Stopwatch since_check; !has_ended(); std::this_thread::sleep_for(kPollInterval)) {
      if (interrupt_.interrupted() && !sweep_.interrupted) stop();
      for (SweptRun& run : sweep_.runs) {
        if (sweep_.interrupted || running_.size() >= jobs_.jobs) break;
        if (run.state == State::kWaiting) begin(run);
      }
      running_.remove_if([this](Job& job) {
        const auto code = job.worker.ended();
        if (code) end(job, *code);
        return code.has_value();
      });
      if (since_check.seconds() > kElsewhereInterval) check_elsewhere(), since_check = {};
      if (progress_.is_due()) progress_.at_work(progress_now());
    }
    sweep_.interrupted = sweep_.interrupted || interrupt_.interrupted();
    sweep_.seconds = clock_.seconds();
    return std::move(sweep_);
  }

 private:
  using State = SweptRun::State;

  struct Job {
    Job(SweptRun& r, bool resumes, const std::vector<std::string>& arguments)
        : run(r), resumed(resumes), worker(arguments) {}

    SweptRun& run;
    bool resumed;
    Worker worker;
    Stopwatch clock;
  };

  std::filesystem::path folder_of(const SweptRun& run) const {
    return jobs_.folder / run.plan->name;
  }

  bool has_ended() const {
    return running_.empty() && (sweep_.interrupted || (sweep_.count(State::kWaiting) == 0 &&
                                                       sweep_.count(State::kElsewhere) == 0));
  }

  void stop() {
    sweep_.interrupted = true;
    for (const Job& job : running_) job.worker.stop();
  }

  // Returns whether the run is finished. Returns false if it cannot be read; then the child process
  // that trains it reports the reason.
  bool is_finished(const SweptRun& run) const {
    try {
      return nn::RunFolder(folder_of(run)).state() == RunState::kFinished;
    } catch (const std::exception&) {
      return false;
    }
  }

  // Updates the runs in the state kElsewhere. Such a run is trained by a second sweep, or by a
  // child of a killed sweep, which saves and ends. If no process trains the run any more and it is
  // not finished, its state becomes kWaiting, so that this sweep resumes it.
  void check_elsewhere() {
    for (SweptRun& run : sweep_.runs)
      if (run.state == State::kElsewhere && !nn::is_taken(folder_of(run)))
        run.state = is_finished(run) ? State::kBefore : State::kWaiting;
  }

  void fail(SweptRun& run, const std::string& error) {
    run.state = State::kFailed;
    run.error = error;
    progress_.warn(fmt::format("{} failed: {}", run.plan->name, error));
  }

  void begin(SweptRun& run) try {
    const std::filesystem::path folder = folder_of(run);
    run.state = State::kElsewhere;
    if (nn::is_taken(folder)) return;
    const RunState found = nn::RunFolder(folder).state();
    if (found == RunState::kFinished) {  // another process has finished it
      run.state = State::kBefore;
      return;
    }
    if (found == RunState::kNew || found == RunState::kWeights) {
      try {
        open_out(folder, false);
      } catch (const nn::FolderInUse&) {
        return;
      } catch (const UsageError&) {
        usage_error("{} is not empty and contains no run that can be resumed; remove the directory",
                    folder.string());
      }
    }
    running_.emplace_back(run, found == RunState::kSaved, train_arguments(run, found));
    run.state = State::kRunning;
  } catch (const std::exception& e) {
    fail(run, e.what());
  }

  std::vector<std::string> train_arguments(const SweptRun& run, RunState found) const {
    const std::string folder = folder_of(run).string();
    std::vector<std::string> arguments = {"train", "--quiet", "--json",
                                          fmt::format("--threads={}", jobs_.threads)};
    if (!jobs_.simd.empty()) arguments.push_back("--simd=" + jobs_.simd);
    if (found == RunState::kSaved) {
      arguments.push_back("--resume=" + folder);
      return arguments;
    }
    arguments.push_back("--config=" + save_recipe(jobs_.folder, *run.plan).string());
    arguments.push_back("--out=" + folder);
    return arguments;
  }

  void end(const Job& job, int code) {
    SweptRun& run = job.run;
    run.exit_code = code;
    std::vector<std::string> lines;  // the warnings of the run, then its error
    for (const std::string& line : heed::split(job.worker.err(), '\n'))
      if (!line.empty()) lines.push_back(line.starts_with("heed: ") ? line.substr(6) : line);
    if (code == kOk) {
      run.state = State::kFinished;
      for (const std::string& line : lines)  // a warning of several runs is printed once
        if (warnings_.insert(line).second) progress_.warn(run.plan->name + ": " + line);
      add_result(job);
    } else if (sweep_.interrupted && was_stopped(code)) {
      run.state = State::kStopped;
    } else if (nn::is_taken(folder_of(run)) || is_finished(run)) {  // another process trains it
      run.exit_code = 0;
      run.state = State::kElsewhere;
    } else {
      fail(run, code == kInterrupted ? "was stopped after a save"
                : code > 128         ? fmt::format("was killed by signal {}", code - 128)
                : lines.empty()      ? fmt::format("exit code {}", code)
                                     : lines.back());
    }
  }

  // Returns whether this is the exit code of a run that was stopped. The run was stopped after a
  // save, or by a signal that arrived before the process handled signals.
  static bool was_stopped(int code) {
    return code == kInterrupted || code == 128 + SIGHUP || code == 128 + SIGTERM ||
           code == 128 + SIGINT;
  }

  void add_result(const Job& job) {
    SweptRun& run = job.run;
    run.result = Value::parse(job.worker.out());
    if (job.resumed)
      run.result["seconds"] = Value();  // the output covers only the steps after the resume
    else
      pace_.add(work_of(run.plan->config), job.clock.seconds());
    const Value* loss = run.result.find("loss");
    progress_.line(fmt::format("{}: loss {:.4f}; {}", run.plan->name,
                               loss && loss->as<double>() ? loss->number() : NAN, progress_now()));
  }

  std::string progress_now() const {
    const std::size_t failed = sweep_.count(State::kFailed);
    if (sweep_.interrupted)
      return fmt::format("Stopping; runs that are still saving: {}", sweep_.count(State::kRunning));
    const std::size_t done = failed + sweep_.count(State::kFinished) + sweep_.count(State::kBefore);
    std::string text = fmt::format("{} of {} runs done", done, sweep_.runs.size());
    for (const auto& [count, what] :
         {std::pair(failed, "failed"),
          {sweep_.count(State::kRunning), "running"},
          {sweep_.count(State::kElsewhere), "running in another process"}})
      if (count > 0) text += fmt::format(", {} {}", count, what);
    double waiting = 0;
    for (const SweptRun& run : sweep_.runs)
      if (run.state == State::kWaiting) waiting += work_of(run.plan->config);
    std::vector<SweepPace::Running> running;
    for (const Job& job : running_)
      if (job.run.state == State::kRunning)
        running.push_back({work_of(job.run.plan->config), job.clock.seconds()});
    const double left = pace_.left(waiting, running, jobs_.jobs);
    const bool is_known = std::isfinite(left) && done < sweep_.runs.size();
    return is_known ? fmt::format("{}, {} left", text, short_duration(left)) : text;
  }

  const SweepJobs& jobs_;
  SweepOutcome sweep_;
  std::list<Job> running_;
  std::set<std::string> warnings_;  // the warnings that were printed
  SweepPace pace_;
  Progress progress_;
  InterruptGuard interrupt_;
  Stopwatch clock_;
};

}  // namespace

std::size_t SweepOutcome::count(SweptRun::State state) const {
  return std::size_t(std::count_if(runs.begin(), runs.end(),
                                   [&](const SweptRun& run) { return run.state == state; }));
}

SweepOutcome train_runs(const SweepJobs& jobs, const std::vector<const PlannedRun*>& runs) {
  return Sweep(jobs, runs).train();
}

// nn::flops_per_token() is not used, because it needs the model. A model can be created only after
// the data is read, because the data determines the vocabulary, and reading the data of all waiting
// runs is too slow. The estimate is used only for the remaining time.
double work_of(const nn::RunConfig& c) {
  constexpr double kVocabulary = 64;
  const double width = double(c.model.attention.d_model),
               tokens = double(c.batch) * double(c.model.context);
  const double of_mlp = c.model.mlp ? 2 * c.model.mlp_ratio : 0;
  const double of_layer = width * width * (4 + of_mlp) + 2 * double(c.model.context) * width;
  return double(c.steps) * tokens * (double(c.model.layers) * of_layer + kVocabulary * width);
}

double SweepPace::left(double waiting, const std::vector<Running>& running,
                       std::size_t jobs) const {
  const double pace = work_ / seconds_;  // NaN before the first call of add()
  double longest = 0, all = waiting;
  for (const Running& run : running) {
    const double rest = std::max(run.work - run.seconds * pace, 0.0);
    all += rest;
    longest = std::max(longest, rest);
  }
  return std::max(all / double(jobs), longest) / pace;
}

}  // namespace heed
