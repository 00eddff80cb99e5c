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

// One call of train_runs.
class Sweep {
 public:
  Sweep(const SweepJobs& jobs, const std::vector<const PlannedRun*>& runs)
      : jobs_(jobs), progress_(jobs.quiet) {
    for (const PlannedRun* run : runs) sweep_.runs.push_back({run});
  }

  SweepOutcome go() {
    constexpr std::chrono::milliseconds kBetweenLooks(5);  // at the workers
    constexpr double kBetweenAsks = 0.2;                   // s: for runs of another process
    for (SweptRun& run : sweep_.runs)
      if (is_finished(run)) run.state = State::kBefore;
    for (Stopwatch asked; !has_ended(); std::this_thread::sleep_for(kBetweenLooks)) {
      if (interrupt_.interrupted() && !sweep_.interrupted) stop();
      for (SweptRun& run : sweep_.runs) {
        if (sweep_.interrupted || at_work_.size() >= jobs_.jobs) break;
        if (run.state == State::kWaiting) begin(run);
      }
      at_work_.remove_if([this](Job& job) {
        const auto code = job.worker.ended();
        if (code) end(job, *code);
        return code.has_value();
      });
      if (asked.seconds() > kBetweenAsks) ask_for_others(), asked = {};
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
    return at_work_.empty() && (sweep_.interrupted || (sweep_.count(State::kWaiting) == 0 &&
                                                       sweep_.count(State::kElsewhere) == 0));
  }

  void stop() {
    sweep_.interrupted = true;
    for (const Job& job : at_work_) job.worker.stop();
  }

  // Returns false if the run cannot be read: its worker then reports the reason.
  bool is_finished(const SweptRun& run) const {
    try {
      return state_of(folder_of(run)) == RunState::kFinished;
    } catch (const std::exception&) {
      return false;
    }
  }

  // A run that another process trains (a second sweep, or a worker of a sweep that was killed,
  // which saves and ends) is waited for, and resumed if it is not finished then.
  void ask_for_others() {
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
    const RunState found = state_of(folder);
    if (found == RunState::kFinished) {  // by another process since
      run.state = State::kBefore;
      return;
    }
    if (found == RunState::kNew) {
      try {
        open_out(folder, false);
      } catch (const nn::FolderInUse&) {
        return;
      } catch (const UsageError&) {
        usage_error("{} is not empty and holds no run; remove it", folder.string());
      }
    }
    at_work_.emplace_back(run, found == RunState::kSaved, train_arguments(run, found));
    run.state = State::kAtWork;
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
    arguments.push_back("--config=" + keep_recipe(jobs_.folder, *run.plan).string());
    arguments.push_back("--out=" + folder);
    if (found == RunState::kUnsaved) arguments.emplace_back("--overwrite");
    return arguments;
  }

  void end(const Job& job, int code) {
    SweptRun& run = job.run;
    run.exit_code = code;
    std::vector<std::string> lines;  // its warnings, then its error
    for (const std::string& line : heed::split(job.worker.err(), '\n'))
      if (!line.empty()) lines.push_back(line.starts_with("heed: ") ? line.substr(6) : line);
    if (code == kOk) {
      run.state = State::kFinished;
      for (const std::string& line : lines)  // once, of the run that has it first
        if (warnings_.insert(line).second) progress_.warn(run.plan->name + ": " + line);
      try {
        keep_result(job);
      } catch (const std::exception& e) {  // the run has saved all the same
        progress_.warn(fmt::format("{}: {}", run.plan->name, e.what()));
      }
    } else if (sweep_.interrupted && was_stopped(code)) {
      run.state = State::kStopped;
    } else if (nn::is_taken(folder_of(run)) || is_finished(run)) {  // another process was first
      run.exit_code = 0;
      run.state = State::kElsewhere;
    } else {
      fail(run, code == kInterrupted ? "was stopped, saved"
                : code > 128         ? fmt::format("was killed by signal {}", code - 128)
                : lines.empty()      ? fmt::format("exit code {}", code)
                                     : lines.back());
    }
  }

  // By itself, saved, or by a signal before it handled signals.
  static bool was_stopped(int code) {
    return code == kInterrupted || code == 128 + SIGHUP || code == 128 + SIGTERM ||
           code == 128 + SIGINT;
  }

  void keep_result(const Job& job) {
    SweptRun& run = job.run;
    run.result = Value::parse(job.worker.out());
    if (job.resumed)
      run.result["seconds"] = Value();  // of its last part alone
    else
      pace_.add(work_of(run.plan->config), job.clock.seconds());
    autograd::write_file(nn::RunFolder(folder_of(run)).file(nn::RunFolder::kResult).string(),
                         std::string_view(run.result.dump() + "\n"));
    const Value* loss = run.result.find("loss");
    progress_.line(fmt::format("{}: loss {:.4f}; {}", run.plan->name,
                               loss && loss->as<double>() ? loss->number() : NAN, progress_now()));
  }

  std::string progress_now() const {
    const std::size_t failed = sweep_.count(State::kFailed), at_work = sweep_.count(State::kAtWork);
    if (sweep_.interrupted) return fmt::format("stops: {} runs save", at_work);
    double waiting = 0;
    for (const SweptRun& run : sweep_.runs)
      if (run.state == State::kWaiting) waiting += work_of(run.plan->config);
    std::vector<SweepPace::Running> running;
    for (const Job& job : at_work_)
      if (job.run.state == State::kAtWork)
        running.push_back({work_of(job.run.plan->config), job.clock.seconds()});
    return SweepProgress{
        .runs = sweep_.runs.size(),
        .done = failed + sweep_.count(State::kFinished) + sweep_.count(State::kBefore),
        .failed = failed,
        .at_work = at_work,
        .elsewhere = sweep_.count(State::kElsewhere),
        .seconds_left = pace_.left(waiting, running, jobs_.jobs)}
        .text();
  }

  const SweepJobs& jobs_;
  SweepOutcome sweep_;
  std::list<Job> at_work_;
  std::set<std::string> warnings_;
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
  return Sweep(jobs, runs).go();
}

std::string SweepProgress::text() const {
  std::string text = fmt::format("{} of {} runs done", done, runs);
  if (failed > 0) text += fmt::format(", {} failed", failed);
  if (at_work > 0) text += fmt::format(", {} at work", at_work);
  if (elsewhere > 0) text += fmt::format(", {} at work in another heed", elsewhere);
  if (std::isfinite(seconds_left) && done < runs)
    text += fmt::format(", {} left", short_duration(seconds_left));
  return text;
}

// nn::flops_per_token needs the model, whose vocabulary a task knows when its data is
// read: more than a sweep does for runs that wait. Only ratios of these numbers count, and only for
// the time that is left.
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
  const double pace = work_ / seconds_;  // NaN before the first
  double longest = 0, all = waiting;
  for (const Running& run : running) {
    const double rest = std::max(run.work - run.seconds * pace, 0.0);
    all += rest;
    longest = std::max(longest, rest);
  }
  return std::max(all / double(jobs), longest) / pace;
}

}  // namespace heed
