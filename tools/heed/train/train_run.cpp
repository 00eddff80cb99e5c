#include "tools/heed/train/train_run.h"

#include <cmath>

#include "tools/heed/evaluation_report.h"
#include "tools/heed/output.h"
#include "tools/heed/pictures.h"
#include "tools/heed/progress.h"

namespace heed {

namespace fs = std::filesystem;

namespace {

constexpr double kSaveSeconds = 15;  // between saves at evaluations

// Counts the time of steps alone, so that tokens/s means training.
class Pace {
 public:
  explicit Pace(const nn::Trainer& t)
      : tokens_per_step_(double(t.config.batch * t.config.context)) {}
  void add(double seconds) {
    seconds_ += seconds;
    ++steps_;
  }
  double tokens_per_second() const {
    return seconds_ > 0 ? tokens_per_step_ * double(steps_) / seconds_ : 0;
  }
  double left(std::int64_t steps) const {
    return steps_ > 0 ? seconds_ / double(steps_) * double(steps) : NAN;
  }

 private:
  double tokens_per_step_, seconds_ = 0;
  std::int64_t steps_ = 0;
};

std::string step_text(const nn::Trainer& t, const nn::StepReport& r, const Pace& pace) {
  const double optimal = t.task->facts().optimal;
  return fmt::format("{}/{}  loss {:.4f}{}  lr {:.1e}  grad {:.2f}  {} tok/s  {} left",
                     t.steps_done, t.config.steps, r.loss,
                     std::isfinite(optimal) ? fmt::format(" (best {:+.4f})", r.loss - optimal) : "",
                     r.lr, r.grad_norm, si_text(pace.tokens_per_second()),
                     seconds_text(pace.left(t.config.steps - t.steps_done)));
}

std::vector<std::string> config_notes() {
  return {fmt::format("heed train --config THIS-FILE runs this again; written by heed {}",
                      version_text())};
}

std::string checkpoint_name(std::int64_t step) {
  return fmt::format("checkpoints/{:06}.safetensors", step);
}

// --strict looks at every step; else the first one tells.
void check_severed(const nn::Trainer& t, bool strict, Progress& progress, bool first) {
  if (!strict && !first) return;
  const std::vector<std::string> names = t.severed();
  if (names.empty()) return;
  const std::string text =
      fmt::format("no gradient reaches {} in step {}", listing(names), t.steps_done);
  if (strict) throw autograd::NumericError(text);
  progress.warn("warning: " + text + " (--strict stops there)");
}

void print_result(nn::Trainer& t, const nn::Evaluation& e, const fs::path& folder, double seconds,
                  double tokens_per_second, bool json) {
  const std::int64_t parameters = nn::count_parameters(t.model);
  if (json) {
    nn::Json object = nn::Json::object({{"task", t.config.task},
                                        {"steps", t.steps_done},
                                        {"seconds", seconds},
                                        {"tokens_per_s", tokens_per_second}});
    add_evaluation(object, e, t.task->facts());
    object["run"] = folder.string();
    object["parameters"] = parameters;
    object["seed"] = t.config.seed;
    say_json(object);
    return;
  }
  say("{}: {} steps in {}, {} tokens/s, {} parameters\n\n", t.config.task, t.steps_done,
      seconds_text(seconds), si_text(tokens_per_second), with_commas(parameters));
  print_evaluation(e, t.task->facts());
  say("\nrun       {}\npictures  {}  {}\n", folder.string(), (folder / "loss.png").string(),
      (folder / "attention.png").string());
}

}  // namespace

int train_run(nn::Trainer& t, const fs::path& folder, const TrainOptions& options) {
  Progress progress(options.quiet);
  const InterruptGuard interrupt;
  const Stopwatch clock;
  Pace pace(t);
  double last_saved = 0;
  const nn::RunConfig& config = t.config;
  const std::vector<std::string> notes = config_notes();
  const auto save = [&] {
    t.save(folder, notes);
    last_saved = clock.seconds();
  };
  const auto checkpoint = [&] {
    fs::create_directories(folder / "checkpoints");
    t.save_weights(folder / checkpoint_name(t.steps_done));
  };
  const auto check_finite = [&](const nn::Evaluation& e) {
    if (std::isfinite(e.loss)) return;
    save();
    throw autograd::NumericError(fmt::format(
        "the evaluation after step {} is {}; lower lr (now {}) or set clip; the {} steps before it "
        "are in {}",
        t.steps_done, e.loss, config.lr, t.steps_done, folder.string()));
  };
  const auto evaluate = [&](const std::string& tail) {
    const nn::Evaluation e = past_input_checks([&] { return t.evaluate(false); });
    check_finite(e);
    progress.line(fmt::format("step {:>5}/{}  {}{}", t.steps_done, config.steps,
                              evaluation_line(e, t.task->facts()), tail));
    if (const std::string leak = leak_text(e); !leak.empty()) progress.warn(leak);
    return e;
  };

  if (t.steps_done == 0) {
    if (config.eval_every > 0) evaluate("");
    if (config.save_every > 0) checkpoint();
  }
  save();  // from here on a kill leaves a run that resumes
  progress.line(fmt::format("{} {} in {}; Ctrl-C stops and saves", config.task,
                            t.steps_done == 0 ? "trains" : "goes on", folder.string()));
  bool first = true;
  while (t.steps_done < config.steps && !interrupt.interrupted()) {
    nn::StepReport report;
    const double started = clock.seconds();
    try {
      report = past_input_checks([&] { return t.step(); });
    } catch (const autograd::NumericError& e) {
      save();
      throw autograd::NumericError(fmt::format("{}; the {} steps before it are in {}", e.what(),
                                               t.steps_done, folder.string()));
    }
    pace.add(clock.seconds() - started);
    check_severed(t, options.strict, progress, first);
    first = false;
    const std::int64_t done = t.steps_done;
    if (config.eval_every > 0 && done % config.eval_every == 0 && done < config.steps) {
      evaluate(fmt::format("  lr {:.2e}  grad {:.2f}  {} tok/s  {} left", report.lr,
                           report.grad_norm, si_text(pace.tokens_per_second()),
                           seconds_text(pace.left(config.steps - done))));
      if (clock.seconds() - last_saved > kSaveSeconds) save();
    }
    if (config.save_every > 0 && done % config.save_every == 0) {
      checkpoint();
      save();
    }
    if (progress.wants_live()) progress.live(step_text(t, report, pace));
  }
  if (t.steps_done < config.steps) {
    save();
    progress.warn(
        fmt::format("stopped after step {} of {}, saved; go on with\n"
                    "  heed train --resume {}",
                    t.steps_done, config.steps, folder.string()));
    return kInterrupted;
  }
  // The history compares like with like: every evaluation in it is of the same sequences. The
  // result is measured on all there are.
  const nn::Evaluation comparable = evaluate("");
  save();
  draw_loss(folder / "loss.png", t, comparable);
  draw_attention(folder / "attention.png", t.model, *t.task, t.steps_done);
  const nn::Evaluation all = past_input_checks([&] { return nn::evaluate(t.model, *t.task); });
  check_finite(all);
  if (const std::string leak = leak_text(all); !leak.empty()) progress.warn(leak);
  progress.clear();
  print_result(t, all, folder, clock.seconds(), pace.tokens_per_second(), options.json);
  return kOk;
}

}  // namespace heed
