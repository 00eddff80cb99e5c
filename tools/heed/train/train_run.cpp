#include "tools/heed/train/train_run.h"

#include <cmath>
#include <optional>

#include "autograd/base/files.h"
#include "nn/run/training_run.h"
#include "nn/train/memory.h"
#include "tools/heed/pictures.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/train/train_progress.h"

namespace heed {

namespace fs = std::filesystem;
using nn::RunFolder;
using nn::TrainingRun;

namespace {

// Lines on stderr, the pictures, and the result on stdout.
class ProgressObserver : public nn::TrainingObserver {
 public:
  explicit ProgressObserver(const TrainOptions& options)
      : options_(options), progress_(options.quiet) {}

  void on_start(const TrainingRun& run) override {
    nn::Trainer& t = run.trainer();
    const nn::RunConfig& c = t.config();
    const std::string what = t.steps_done == 0
                                 ? "trains"
                                 : fmt::format("resuming at step {} of {}", t.steps_done, c.steps);
    progress_.line(
        fmt::format("{} {} in {}; Ctrl-C stops and saves", c.task, what, run.folder().text()));
    for (const std::string& line : start_lines(t)) progress_.line(line);
    if (options_.ranks)
      progress_.line(fmt::format("  {} processes, each with {} of the {} parts of a batch", ranks(),
                                 c.accumulate / ranks(), c.accumulate));
  }

  void on_audit(const TrainingRun& run, const std::vector<nn::ParameterAudit>& audit) override {
    autograd::write_file(run.folder().file(RunFolder::kAudit).string(), audit_table(audit));
    progress_.line(audit_line(audit));
  }

  void on_step(const TrainingRun& run, const nn::StepReport& report) override {
    if (progress_.is_due())
      progress_.at_work(step_line(state(run, report, run.trainer().task->facts().optimal)));
  }

  void on_evaluation(const TrainingRun& run, const nn::Evaluation& e) override {
    if (!std::isfinite(e.loss)) return;
    const nn::Task& task = *run.trainer().task;
    if (!facts_shown_)
      for (const std::string& line : evaluation_facts(e, task)) progress_.line(line);
    facts_shown_ = true;
    nn::StepReport report;
    report.step = run.trainer().steps_done;
    progress_.line(evaluation_line(e, task.facts(), state(run, report, NAN)));
    draw_loss_meanwhile(run);
  }

  void on_evaluating(std::int64_t done, std::int64_t total, bool all) override {
    progress_.at_work(
        fmt::format("{}: {} of {}", all ? "evaluates all sequences" : "evaluates", done, total));
  }

  void on_warning(const std::string& text) override {
    progress_.warn("warning: " + text + " (--strict stops there)");
  }

  void on_end(const TrainingRun& run, const nn::TrainingResult& result) override {
    const nn::Trainer& t = run.trainer();
    if (const std::int64_t every = t.config().check_invariants; every > 0)
      progress_.line(fmt::format("the identities of attention's gradients held in {} steps",
                                 t.steps_done / every - (t.steps_done - run.steps()) / every));
    add_result(run, result);
    progress_.at_work("draws the pictures");
    std::string pictures;
    for (const fs::path& picture : {draw_loss_now(run), draw_attention_now(run)})
      if (!picture.empty()) pictures += "  " + picture.string();
    progress_.clear();
    if (!pictures.empty()) report_.line("pictures{}", pictures);
    report_.line("memory    {} at its peak", bytes_text(nn::resident_peak()));
  }

  /// After on_end().
  const Report& report() const { return report_; }

  void show_stop(const TrainingRun& run) {
    draw_loss_now(run);
    progress_.warn(
        fmt::format("stopped after step {} of {}, saved; go on with\n"
                    "  heed train --resume {}",
                    run.trainer().steps_done, run.trainer().config().steps, run.folder().text()));
  }

 private:
  int ranks() const { return options_.ranks ? options_.ranks->size() : 1; }

  StepState state(const TrainingRun& run, const nn::StepReport& report, double optimal) const {
    return {report, run.trainer().config().steps, optimal, run.tokens_per_second(),
            run.seconds_left()};
  }

  void add_result(const TrainingRun& run, const nn::TrainingResult& result) {
    const nn::Trainer& t = run.trainer();
    const nn::RunConfig& c = t.config();
    const nn::Evaluation &e = *result.all, &some = *result.comparable;
    const std::int64_t parameters = nn::count_parameters(t.model);
    const std::string part =
        run.steps() < t.steps_done ? fmt::format(", the last {}", run.steps()) : "";
    report_.line("{}: {} steps{} in {}, {} tokens/s, {} parameters", c.task, t.steps_done, part,
                 seconds_text(run.seconds()), si_text(run.tokens_per_second()),
                 with_commas(parameters));
    report_.set("task", c.task);
    report_.set("steps", t.steps_done);
    report_.set("seconds", run.seconds());
    report_.set("tokens_per_s", run.tokens_per_second());
    add_evaluation(report_, e, t.task->facts());
    report_.set("run", run.folder().text());
    report_.set("parameters", parameters);
    report_.set("seed", c.seed);
    report_.set("ranks", ranks());
    report_.set("stopped", result.early_end.empty() ? Value() : Value(result.early_end));
    if (some.sequences != e.sequences && some.optimal)
      report_.line("while training: the first {} of them; best possible there {:.4f}",
                   with_commas(some.sequences), *some.optimal);
    if (!result.early_end.empty()) report_.line("stopped   {}", result.early_end);
    report_.line("run       {}", run.folder().text());
  }

  // Draws a picture; returns an empty path, with a warning, if that cannot be done.
  template <class Draw>
  fs::path picture(const TrainingRun& run, const char* name, Draw draw) {
    try {
      draw(run.folder().file(name));
      return run.folder().file(name);
    } catch (const std::exception& e) {
      progress_.warn(fmt::format("warning: no {}: {}", name, e.what()));
      return {};
    }
  }
  fs::path draw_loss_now(const TrainingRun& run) {
    return picture(run, RunFolder::kLossPicture, [&](const fs::path& file) {
      draw_loss(file, run.trainer(), run.last_evaluation());
    });
  }
  fs::path draw_attention_now(const TrainingRun& run) {
    const nn::Trainer& t = run.trainer();
    return picture(run, RunFolder::kAttentionPicture, [&](const fs::path& file) {
      draw_attention(file, t.model, *t.task, t.steps_done);
    });
  }

  // The loss as far as the run has come, as often as that takes less than a twentieth of the time.
  void draw_loss_meanwhile(const TrainingRun& run) {
    constexpr double kShare = 20;
    const double started = run.seconds();
    if (run.steps() == 0 || run.trainer().steps_done == run.trainer().config().steps ||
        started < next_picture_)
      return;
    draw_loss_now(run);
    next_picture_ = run.seconds() + kShare * (run.seconds() - started);
  }

  const TrainOptions& options_;
  Progress progress_;
  Report report_ = Report(kTrainKeys);
  bool facts_shown_ = false;
  double next_picture_ = 0;  // by TrainingRun::seconds()
};

}  // namespace

std::vector<std::string> config_notes() {
  return {fmt::format("heed train --config THIS-FILE runs this again; written by heed {}",
                      version_text())};
}

Report train_run(nn::Trainer& t, const RunFolder& folder, const TrainOptions& options) {
  const InterruptGuard interrupt;
  ProgressObserver observer(options);
  TrainingRun run(t, folder,
                  {.strict = options.strict,
                   .notes = config_notes(),
                   .stop_requested = InterruptGuard::interrupted,
                   .ranks = options.ranks},
                  &observer);
  std::string leak;
  const auto result = past_input_checks([&]() -> std::optional<nn::TrainingResult> {
    try {
      return run.run();
    } catch (const nn::LeakError& e) {
      leak = e.what();
      return {};
    }
  });
  if (!result)
    throw CheckError(fmt::format("{}; run heed verify causality {}", leak, folder.text()));
  if (result->finished) return observer.report();
  observer.show_stop(run);
  return Report::failed(kInterrupted);
}

}  // namespace heed
