#include "tools/heed/train/train_run.h"

#include <cmath>
#include <cstdio>
#include <optional>

#include "nn/run/metrics_file.h"
#include "nn/run/run_folder.h"
#include "nn/train/memory.h"
#include "tools/heed/pictures.h"
#include "tools/heed/ranks.h"
#include "tools/heed/report/evaluation_report.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/train/train_progress.h"
#include "tools/heed/train/train_trouble.h"

namespace heed {

namespace fs = std::filesystem;

namespace {

constexpr double kSaveSeconds = 15;  // between saves at evaluations
constexpr double kLongestUnsaved = 60;

std::vector<std::string> config_notes() {
  return {fmt::format("heed train --config THIS-FILE runs this again; written by heed {}",
                      version_text())};
}

// On a sequence of training that no stream of the run draws: an evaluation may first count n-grams
// for seconds.
double loss_of_one(const nn::Trainer& t) {
  const autograd::NoGrad guard;
  nn::Generator g(1);
  const nn::Batch one = t.task->sample(1, g);
  return cross_entropy(t.model(one.inputs), one.targets).item();
}

// One call of train_run.
class Run {
 public:
  Run(nn::Trainer& trainer, nn::RunFolder folder, const TrainOptions& options)
      : t_(trainer),
        config_(trainer.config()),
        folder_(std::move(folder)),
        options_(options),
        progress_(options.quiet),
        pace_(trainer.config()) {}

  int go() {
    try {
      begin();
      for (bool first = true; !ended() && !stopping(); first = false) step(first);
      leave();
      return ended() ? finish() : stop();
    } catch (const Interrupted&) {
      leave();
      return stop();
    }
  }

 private:
  // Whether last_ is of this very step, as where a run ends early.
  bool evaluated_now() const { return last_ && t_.evaluated(); }

  // Ranks stop together: after the step with which one said that it was asked to.
  bool stopping() const {
    return options_.ranks ? options_.ranks->stop_requested() : InterruptGuard::interrupted();
  }

  void leave() {
    if (options_.ranks) options_.ranks->leave();
  }

  bool ended() const { return t_.steps_done >= config_.steps || !t_.stop_reason().empty(); }

  void begin() {
    const bool fresh = t_.steps_done == 0;
    const std::string what =
        fresh ? "trains" : fmt::format("resuming at step {} of {}", t_.steps_done, config_.steps);
    progress_.line(
        fmt::format("{} {} in {}; Ctrl-C stops and saves", config_.task, what, folder_.text()));
    for (const std::string& line : start_lines(t_)) progress_.line(line);
    if (options_.ranks)
      progress_.line(fmt::format("  {} processes, each with {} of the {} parts of a batch", ranks(),
                                 config_.accumulate / ranks(), config_.accumulate));
    if (fresh)
      log_.restart(folder_.file(nn::RunFolder::kMetrics),
                   t_.history().size());  // saved by who made the trainer
    else
      save();
    // A kill may have come between the step and its evaluation.
    if (t_.steps_done < config_.steps && evaluation_is_due() && !t_.evaluated()) evaluate();
    if (fresh && config_.save_every > 0) checkpoint();
    check_causality(t_, folder_.path());
  }

  bool evaluation_is_due() const {
    return config_.eval_every > 0 && t_.steps_done % config_.eval_every == 0;
  }

  void step(bool first) {
    std::optional<nn::StepAudit> audit;
    if (t_.steps_done == 0) audit.emplace(t_.model);
    const double started = clock_.seconds();
    try {
      report_ = past_input_checks([&] { return t_.step(); });
    } catch (const autograd::NumericError& e) {
      throw autograd::NumericError(fmt::format("{}; {}", e.what(), save_before_trouble()));
    }
    pace_.add(clock_.seconds() - started);
    if (audit) progress_.line(keep_audit(audit->after(t_.model), folder_.path()));
    check_gradients(first);
    const std::int64_t done = t_.steps_done;
    if (evaluation_is_due() && done < config_.steps) {
      evaluate();
      picture_meanwhile();
      if (clock_.seconds() - last_saved_ > kSaveSeconds) save();
    }
    if (config_.save_every > 0 && done % config_.save_every == 0) {
      checkpoint();
      save();
    }
    log_.append(t_.history());
    if (clock_.seconds() - last_saved_ > kLongestUnsaved) save();
    if (progress_.is_due()) progress_.at_work(step_line(state(t_.task->facts().optimal)));
  }

  int stop() {
    // Not again what was saved before the last evaluation: a longer run would not have that one.
    if (saved_ < t_.steps_done) save();
    picture(nn::RunFolder::kLossPicture, [&](const fs::path& file) { draw_loss(file, t_, last_); });
    progress_.warn(
        fmt::format("stopped after step {} of {}, saved; go on with\n"
                    "  heed train --resume {}",
                    t_.steps_done, config_.steps, folder_.text()));
    return kInterrupted;
  }

  int finish() {
    // The history compares like with like: every evaluation in it is of the same sequences. The
    // result is measured on all there are. An evaluation that a longer run would not have is no
    // part of what resume reads.
    save();
    const nn::Evaluation comparable = evaluated_now() ? *last_ : evaluate();
    if (evaluation_is_due()) save();
    folder_.save_results(t_.snapshot());
    const nn::Evaluation all = past_input_checks(
        [&] { return nn::evaluate(t_.model, *t_.task, 0, watch("evaluates all sequences")); });
    check(all);
    if (const std::int64_t every = config_.check_invariants; every > 0)
      progress_.line(fmt::format("the identities of attention's gradients held in {} steps",
                                 t_.steps_done / every - (t_.steps_done - pace_.steps()) / every));
    progress_.clear();
    print_result(all, comparable);
    std::fflush(stdout);  // pictures may fail in any way: they cost no result
    progress_.at_work("draws the pictures");
    const bool loss = picture(nn::RunFolder::kLossPicture,
                              [&](const fs::path& file) { draw_loss(file, t_, last_); });
    const bool attention = picture(nn::RunFolder::kAttentionPicture, [&](const fs::path& file) {
      draw_attention(file, t_.model, *t_.task, t_.steps_done);
    });
    progress_.clear();
    if (!options_.json && (loss || attention))
      print("pictures  {}{}{}\n", loss ? folder_.file(nn::RunFolder::kLossPicture).string() : "",
            loss && attention ? "  " : "",
            attention ? folder_.file(nn::RunFolder::kAttentionPicture).string() : "");
    if (!options_.json) print("memory    {} at its peak\n", bytes_text(nn::resident_peak()));
    folder_.finish(t_.snapshot());  // nothing is left for a resume to do
    return kOk;
  }

  int ranks() const { return options_.ranks ? options_.ranks->size() : 1; }

  // `e`: on all sequences.
  void print_result(const nn::Evaluation& e, const nn::Evaluation& while_training) {
    const double seconds = clock_.seconds();
    const std::string stopped = t_.steps_done < config_.steps ? t_.stop_reason() : "";
    const std::int64_t parameters = nn::count_parameters(t_.model);
    if (options_.json) {
      nn::Json object = nn::Json::object({{"task", config_.task},
                                          {"steps", t_.steps_done},
                                          {"seconds", seconds},
                                          {"tokens_per_s", pace_.tokens_per_second()}});
      add_evaluation(object, e, t_.task->facts());
      object["run"] = folder_.text();
      object["parameters"] = parameters;
      object["seed"] = config_.seed;
      object["ranks"] = ranks();
      object["stopped"] = stopped.empty() ? nn::Json() : nn::Json(stopped);
      print_json(object);
      return;
    }
    const std::string part =
        pace_.steps() < t_.steps_done ? fmt::format(", the last {}", pace_.steps()) : "";
    print("{}: {} steps{} in {}, {} tokens/s, {} parameters\n\n", config_.task, t_.steps_done, part,
          seconds_text(seconds), si_text(pace_.tokens_per_second()), with_commas(parameters));
    print_evaluation(e, t_.task->facts());
    if (while_training.sequences != e.sequences && while_training.optimal)
      print("  while training: the first {} of them; best possible there {:.4f}\n",
            with_commas(while_training.sequences), *while_training.optimal);
    if (!stopped.empty()) print("\nstopped   {}", stopped);
    print("\nrun       {}\n", folder_.text());
  }

  // Draws one; false, with a warning, if that cannot be done.
  template <class Draw>
  bool picture(const std::string& name, Draw draw) {
    try {
      draw(folder_.file(name));
      return true;
    } catch (const std::exception& e) {
      progress_.warn(fmt::format("warning: no {}: {}", name, e.what()));
      return false;
    }
  }

  // loss.png as far as the run has come, as often as that takes less than a twentieth of the time.
  void picture_meanwhile() {
    constexpr double kShare = 20;
    if (clock_.seconds() < next_picture_) return;
    const double started = clock_.seconds();
    picture(nn::RunFolder::kLossPicture, [&](const fs::path& file) { draw_loss(file, t_, last_); });
    next_picture_ = clock_.seconds() + kShare * (clock_.seconds() - started);
  }

  std::string last_save() const {
    return fmt::format("{} keeps the save of step {}", folder_.text(), saved_);
  }

  // Weights that are not finite, or give no finite loss, never take the place of the last save.
  void save() {
    if (!std::isfinite(past_input_checks([&] { return loss_of_one(t_); })))
      check_finite(past_input_checks([&] { return nn::evaluate(t_.model, *t_.task, 1); }));
    try {
      save_run(t_, folder_.path());
    } catch (const autograd::NumericError& e) {
      throw autograd::NumericError(fmt::format("{}; {}", e.what(), last_save()));
    }
    log_.restart(folder_.file(nn::RunFolder::kMetrics), t_.history().size());
    saved_ = t_.steps_done;
    last_saved_ = clock_.seconds();
  }

  std::string save_before_trouble() {
    try {
      save();
      return fmt::format("the {} steps before it are in {}", t_.steps_done, folder_.text());
    } catch (const autograd::NumericError&) {
      return last_save();
    }
  }

  void checkpoint() { folder_.save_checkpoint(t_.snapshot()); }

  StepState state(double optimal) const {
    nn::StepReport report = report_;
    report.step = t_.steps_done;
    return {report, config_.steps, optimal, pace_.tokens_per_second(),
            pace_.left(config_.steps - t_.steps_done)};
  }

  nn::WorkWatch watch(const std::string& what) {
    return [this, what](std::int64_t done, std::int64_t total) {
      interrupt_.check();
      progress_.at_work(fmt::format("{}: {} of {}", what, done, total));
    };
  }

  nn::Evaluation evaluate() {
    nn::Evaluation e = past_input_checks([&] { return t_.evaluate(false, watch("evaluates")); });
    if (std::isfinite(e.loss)) {
      if (!facts_said_)
        for (const std::string& line : evaluation_facts(e, *t_.task)) progress_.line(line);
      facts_said_ = true;
      progress_.line(evaluation_line(e, t_.task->facts(), state(NAN)));
    }
    last_ = e;
    check(e);
    return e;
  }

  void check_finite(const nn::Evaluation& e) const {
    if (!std::isfinite(e.loss))
      throw autograd::NumericError(fmt::format(
          "the evaluation after step {} is {}; lower lr (now {}) or set clip; {}; first {}",
          t_.steps_done, e.loss, config_.lr, last_save(), e.trouble));
  }

  void check(const nn::Evaluation& e) {
    check_finite(e);
    if (const std::string leak = leak_text(e, folder_.text()); !leak.empty()) {
      if (saved_ < t_.steps_done) save();
      throw CheckError(leak);
    }
  }

  // --strict looks at every step; else the first one tells.
  void check_gradients(bool first) {
    if (!options_.strict && !first) return;
    const std::string text = missing_gradients(t_);
    if (text.empty()) return;
    if (options_.strict) {
      save();
      throw autograd::NumericError(text);
    }
    progress_.warn("warning: " + text + " (--strict stops there)");
  }

  nn::Trainer& t_;
  const nn::RunConfig& config_;
  nn::RunFolder folder_;
  TrainOptions options_;
  Progress progress_;
  InterruptGuard interrupt_;
  Stopwatch clock_;
  Pace pace_;
  nn::StepReport report_;               // of the last step
  std::optional<nn::Evaluation> last_;  // of those that the history has
  nn::MetricsLog log_;
  bool facts_said_ = false;
  double last_saved_ = 0, next_picture_ = 0;  // by clock_
  std::int64_t saved_ = t_.steps_done;
};

}  // namespace

void save_run(const nn::Trainer& trainer, const fs::path& folder) {
  nn::RunFolder(folder).save(trainer.snapshot(), config_notes());
}

void save_config(const nn::Trainer& trainer, const fs::path& folder) {
  nn::RunFolder(folder).save_config(trainer.config(), config_notes());
}

int train_run(nn::Trainer& t, const fs::path& folder, const TrainOptions& options) {
  return Run(t, nn::RunFolder(folder), options).go();
}

}  // namespace heed
