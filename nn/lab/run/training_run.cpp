#include "nn/lab/run/training_run.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "autograd/base/text.h"
#include "nn/lab/run/snapshot_file.h"
#include "nn/lab/train/checks/causality.h"

namespace heed::lab {

using namespace autograd;

namespace {

constexpr double kSaveSeconds = 15;     // shortest time between saves after evaluations
constexpr double kLongestUnsaved = 60;  // longest time without a save, in seconds

// Thrown from the progress callback of an evaluation when a stop is requested.
struct StopRequested {};

// Returns the loss of one sequence, drawn by a generator that the run does not use. This is faster
// than an evaluation, which may first count n-grams for seconds.
double loss_of_one(const Trainer& t) {
  const NoGrad guard;
  Generator g(1);
  const Batch one = t.task->sample(1, g);
  return cross_entropy(t.model(one.inputs), one.targets).item();
}

void check_causal(const Trainer& t) {
  const std::vector<Leak> leaks = spot_leaks(t.model, t.config().seed + t.steps_done);
  if (leaks.empty()) return;
  throw LeakError(fmt::format(
      "the model is not causal: its output {} depends on input {} (derivative {:g}, needs 0); the "
      "test found {} more such pairs",
      leaks[0].output, leaks[0].input, leaks[0].value, leaks.size() - 1));
}

}  // namespace

TrainingRun::TrainingRun(Trainer& trainer, LockedFolder folder, TrainingOptions options)
    : t_(trainer),
      locked_(std::move(folder)),
      folder_(locked_.path()),
      options_(std::move(options)),
      saved_(trainer.steps_done) {}

TrainingResult TrainingRun::run() {
  const auto leave = [&] {
    if (options_.ranks) options_.ranks->leave();
  };
  try {
    try {
      begin();
      while (!ended() && !stopping()) step();
      leave();
      if (ended()) return finish();
    } catch (const StopRequested&) {
      leave();
    }
    return stop();
  } catch (const IoError&) {
    check_folder();  // a missing directory is the reason of other errors
    throw;
  }
}

void TrainingRun::check_folder() const {
  heed::check<IoError>(locked_.is_present(), folder_.text(),
                       "was moved or removed during training; continue a moved run from its "
                       "new path with `resume`, or train again");
}

double TrainingRun::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

double TrainingRun::tokens_per_second() const {
  const double tokens =
      double(t_.config().batch) * double(t_.config().model.context) * double(steps_);
  return step_seconds_ > 0 ? tokens / step_seconds_ : 0;
}

double TrainingRun::seconds_left() const {
  if (steps_ == 0) return std::numeric_limits<double>::quiet_NaN();
  return step_seconds_ / double(steps_) * double(t_.config().steps - t_.steps_done);
}

bool TrainingRun::ended() const {
  return t_.steps_done >= t_.config().steps || !t_.stop_reason().empty();
}

// Returns whether a stop is requested. If one rank receives a request, all ranks stop after the
// same step.
bool TrainingRun::stopping() const {
  if (options_.ranks) return options_.ranks->stop_requested();
  return options_.stop_requested && options_.stop_requested();
}

void TrainingRun::begin() {
  const bool fresh = t_.steps_done == 0, replaces = fresh && folder_.is_run();
  save();
  if (replaces) folder_.remove_earlier(t_.snapshot());
  on_start();
  // A new run is evaluated before its first step. In a resumed run, the evaluation after the last
  // step is missing if the process was killed before it.
  if (t_.steps_done < t_.config().steps && evaluation_is_due() && !t_.evaluated()) evaluate();
  if (fresh && t_.config().save_every > 0) folder_.save_checkpoint(t_.snapshot());
  check_causal(t_);
}

bool TrainingRun::evaluation_is_due() const {
  const Index every = t_.config().eval_every;
  return every > 0 && t_.steps_done % every == 0;
}

void TrainingRun::step() {
  const double started = seconds();
  MetricsRow report;
  try {
    report = t_.step();
  } catch (const NumericError& e) {
    throw NumericError(fmt::format("{}; {}", e.what(), save_before_trouble()));
  }
  step_seconds_ += seconds() - started;
  ++steps_;
  check_gradients();
  const Index done = t_.steps_done, save_every = t_.config().save_every;
  if (evaluation_is_due() && done < t_.config().steps) {
    evaluate();
    if (seconds() - last_saved_ > kSaveSeconds) save();
  }
  check_folder();
  if (save_every > 0 && done % save_every == 0) {
    folder_.save_checkpoint(t_.snapshot());
    constexpr double kShare = 200;  // these saves take less than a 200th of the time
    if (seconds() - last_saved_ > kShare * save_cost_) save();
  }
  // Each row is a single write, so that a kill can truncate only the last line.
  for (; metrics_rows_ < t_.history().size(); ++metrics_rows_)
    metrics_->write(metrics_line(t_.history()[metrics_rows_]));
  if (seconds() - last_saved_ > kLongestUnsaved) save();
  on_step(report);
}

TrainingResult TrainingRun::stop() {
  check_folder();
  // If this step is saved already, the run was stopped during the final evaluation. A save now
  // would contain an evaluation that a longer run would not perform.
  if (saved_ < t_.steps_done) save();
  return {};
}

TrainingResult TrainingRun::finish() {
  // Every evaluation in the history uses the same sequences. The final evaluation uses the whole
  // evaluation set. An evaluation that a longer run would not perform must not be in the history
  // that a resume reads, so the snapshot is made before `comparable` is measured.
  save();
  Snapshot last = t_.snapshot();
  TrainingResult result{.finished = true, .early_end = "", .all = {}};
  if (t_.steps_done < t_.config().steps) result.early_end = t_.stop_reason();
  result.comparable = last_ && t_.evaluated() ? *last_ : evaluate();
  if (evaluation_is_due())
    last = t_.snapshot();
  else
    last.last_evaluation = t_.history().back();
  result.all = lab::evaluate(t_.model, *t_.task, 0, progress(true));
  check(*result.all);
  result.seconds = seconds();
  on_end(result);
  const Evaluation& e = *result.all;
  RunResult saved{.steps = t_.steps_done,
                  .loss = e.loss,
                  .optimal = e.optimal,
                  .accuracy = e.accuracy,
                  .standard_error = e.standard_error,
                  .sequences = e.sequences,
                  .targets = e.tokens,
                  .evaluation_set = t_.task->evaluation_size()};
  if (steps_ == t_.steps_done) saved.seconds = result.seconds;
  last.finished = true, last.result = to_json(saved);
  check_folder();
  folder_.save(last, options_.notes);
  return result;
}

ProgressCallback TrainingRun::progress(bool all) {
  return [this, all](Index done, Index total) {
    if (options_.stop_requested && options_.stop_requested()) throw StopRequested();
    on_evaluating(done, total, all);
  };
}

Evaluation TrainingRun::evaluate() {
  Evaluation e = t_.evaluate(false, progress(false));
  last_ = e;
  on_evaluation(e);
  check(e);
  return e;
}

void TrainingRun::check(const Evaluation& e) {
  check_finite(e);
  if (!leaks(e)) return;
  if (saved_ < t_.steps_done) save();
  throw LeakError(leak_text(e));
}

void TrainingRun::check_finite(const Evaluation& e) const {
  if (!std::isfinite(e.loss))
    throw NumericError(fmt::format("the loss of the evaluation after step {} is {}; {}; {}; {}",
                                   t_.steps_done, e.loss, divergence_advice(t_.config()),
                                   last_save(), e.trouble));
}

// Checks that every parameter has a gradient. With options.strict this is checked in every step,
// otherwise only in the first step that this object performs.
void TrainingRun::check_gradients() {
  if (!options_.strict && steps_ > 1) return;
  const std::vector<std::string> names = t_.parameters_without_gradient();
  if (names.empty()) return;
  const std::string text =
      fmt::format("no gradient reaches {} in step {}", join(names), t_.steps_done);
  if (!options_.strict) return on_warning(text);
  save();
  throw NumericError(text);
}

std::string TrainingRun::last_save() const {
  return fmt::format("{} contains the save of step {}", folder_.text(), saved_);
}

// Saves the run. Throws NumericError without saving if the weights or their loss are not finite, so
// that they never replace a good save.
void TrainingRun::save() {
  check_folder();
  const double started = seconds();
  if (!std::isfinite(loss_of_one(t_))) check_finite(lab::evaluate(t_.model, *t_.task, 1));
  try {
    folder_.save(t_.snapshot(), options_.notes);
  } catch (const NumericError& e) {
    throw NumericError(fmt::format("{}; {}", e.what(), last_save()));
  }
  metrics_.emplace(folder_.file(RunFolder::kMetrics).string());
  metrics_rows_ = t_.history().size();
  saved_ = t_.steps_done;
  last_saved_ = seconds();
  save_cost_ = last_saved_ - started;
}

std::string TrainingRun::save_before_trouble() {
  try {
    save();
    return fmt::format("the run is saved in {} after step {}", folder_.text(), t_.steps_done);
  } catch (const NumericError&) {
    return last_save();
  }
}

}  // namespace heed::lab
