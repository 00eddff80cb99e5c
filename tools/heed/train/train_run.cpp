#include "tools/heed/train/train_run.h"

#include <algorithm>
#include <cmath>

#include "autograd/base/parallel.h"
#include "nn/lab/run/training_run.h"
#include "nn/lab/train/cost/memory.h"
#include "nn/lab/train/generate.h"
#include "tools/heed/pictures.h"
#include "tools/heed/report/progress.h"
#include "tools/plot/text.h"

namespace heed {

namespace fs = std::filesystem;
using lab::RunFolder;

namespace {

constexpr std::size_t kColumns = 80;

// Joins the fields with two blanks. A field that would make the line too long is left out.
std::string fitted(const std::vector<std::string>& fields) {
  std::string line;
  for (const std::string& field : fields) {
    if (field.empty()) continue;
    const std::string with = line.empty() ? field : line + "  " + field;
    if (with.size() <= kColumns) line = with;
  }
  return line;
}

// Formats x as "3.0e-3", without the leading zero of "3.0e-03".
std::string power_text(double x) {
  std::string text = fmt::format("{:.1e}", x);
  if (const std::size_t e = text.find('e'); e != std::string::npos && text[e + 2] == '0')
    text.erase(e + 2, 1);
  return text;
}

// Formats x in at most 7 characters if 0 <= x < 1e99.
std::string short_text(double x) {
  return std::abs(x) < 99.99 ? fmt::format("{:.4f}", x) : power_text(x);
}

// Formats a loss. If the optimal loss is known and not 0, appends the difference in parentheses.
std::string loss_text(double loss, double optimal) {
  const double above = loss - optimal;
  const std::string sign = above < 0 ? "" : "+";
  return short_text(loss) +
         (std::isfinite(above) && optimal != 0 ? " (" + sign + short_text(above) + ")" : "");
}

std::string left_text(double seconds) {
  return std::isfinite(seconds) ? short_duration(seconds) + " left" : "";
}

std::string rate_text(double tokens_per_s) {
  std::string text = si_text(tokens_per_s);
  std::erase(text, ' ');
  return tokens_per_s > 0 ? text + " tok/s" : "";
}

// Returns the number of training sequences in an evaluation.
Index train_sequences(const lab::Trainer& t) {
  return std::min(t.config().eval_train, t.task->training_size());
}

}  // namespace

std::string step_line(const StepState& s) {
  return fitted({fmt::format("{}/{}", s.report.step, s.steps),
                 "loss " + loss_text(s.report.loss, s.optimal), "lr " + power_text(s.report.lr),
                 "grad " + short_text(s.report.grad_norm), left_text(s.seconds_left),
                 rate_text(s.tokens_per_s)});
}

std::string evaluation_line(const lab::Evaluation& e, double train_loss, const lab::TaskInfo& info,
                            const StepState& s) {
  const double optimal = e.optimal.value_or(std::numeric_limits<double>::quiet_NaN());
  return fitted({fmt::format("step {:>4}/{}", s.report.step, s.steps),
                 "eval_loss " + loss_text(e.loss, optimal),
                 std::isfinite(train_loss) ? "train_loss " + short_text(train_loss) : "",
                 e.accuracy ? fmt::format("{} {:.1f} %", info.accuracy, 100 * *e.accuracy) : "",
                 left_text(s.seconds_left), rate_text(s.tokens_per_s)});
}

std::string start_line(const lab::Trainer& t) {
  const lab::RunConfig& c = t.config();
  const int threads = autograd::num_threads();
  return fitted({"  " + counted(nn::count_parameters(t.model), "parameter"),
                 fmt::format("{} of {} x {} tokens in {}", counted(c.steps, "step"), c.batch,
                             c.model.context, counted(c.shards, "shard")),
                 fmt::format("seed {}", c.seed), counted(threads, "thread")});
}

std::vector<std::string> evaluation_info(const lab::Evaluation& e, const lab::Task& task) {
  const Index all = task.evaluation_size(), at_end = lab::final_evaluation_size(task);
  const std::string end = at_end == all ? "all" : "the first " + with_commas(at_end);
  std::vector<std::string> lines = {
      e.sequences == all
          ? fmt::format("  evaluated on all {} evaluation sequences", with_commas(all))
          : fmt::format("  evaluated on the first {} of {} evaluation sequences, at the end on {}",
                        with_commas(e.sequences), with_commas(all), end)};
  if (e.optimal)
    lines.push_back(fmt::format("  best possible loss on them {:.4f}{}", *e.optimal,
                                *e.optimal == 0 ? "" : "; in parentheses: loss above that"));
  std::string others;
  for (const auto& [name, loss] : e.references) {
    const std::string other = fmt::format("{} {:.4f}", name, loss);
    if (!others.empty() && others.size() + 2 + other.size() > kColumns) {
      lines.push_back(others);
      others.clear();
    }
    others += "  " + other;
  }
  if (!others.empty()) lines.push_back(others);
  return lines;
}

std::string sample_line(const lab::Trainer& t) {
  const lab::TaskInfo& info = t.task->info();
  std::vector<Index> ids;
  if (info.stop) {
    ids = t.task->prompt("").inputs.to_vector<std::int64_t>();
  } else if (info.endless) {
    ids = {info.vocabulary.find("\n").value_or(0)};
  } else {
    nn::Generator g(1);
    ids = t.task->example(g).inputs.to_vector<std::int64_t>();
    ids.resize((ids.size() + 1) / 2);
  }
  const Index most = info.endless ? 100 : info.context + 1 - Index(ids.size());
  nn::Generator g = lab::sample_stream(t.config().seed, t.steps_done);
  lab::generate(t.model, std::vector(ids), most, {}, g, [&](Index id) {
    ids.push_back(id);
    return id != info.stop;
  });
  return plot::visible_text(info.vocabulary.decode(ids));
}

namespace {

// Prints progress lines to stderr, draws the pictures, and collects the result.
class ShownRun : public lab::TrainingRun {
 public:
  ShownRun(lab::Trainer& t, lab::LockedFolder folder, const TrainOptions& options)
      : TrainingRun(t, std::move(folder),
                    {.strict = options.strict,
                     .notes = config_notes(),
                     .stop_requested = InterruptGuard::interrupted,
                     .ranks = options.ranks}),
        options_(options),
        progress_(options.quiet) {}

  void on_start() override {
    lab::Trainer& t = trainer();
    const lab::RunConfig& c = t.config();
    const std::string what = t.steps_done == 0
                                 ? "training"
                                 : fmt::format("resuming at step {} of {}", t.steps_done, c.steps);
    progress_.line(
        fmt::format("{}: {} in {}; Ctrl-C stops and saves", c.task, what, folder().text()));
    progress_.line(start_line(t));
    if (c.warmup >= c.steps && t.steps_done < c.steps)
      progress_.line(fmt::format("  the warm-up takes {}: lr only rises, to {:.3g} instead of {:g}",
                                 counted(c.warmup, "step"), lab::schedule(c).lr_at(c.steps - 1),
                                 c.lr));
    if (!c.from.empty()) progress_.line(fmt::format("  from {}, {}", c.from, c.from_weights));
    if (options_.ranks)
      progress_.line(fmt::format("  {} processes, each computes {} of the {} shards of a batch",
                                 ranks(), c.shards / ranks(), c.shards));
    show_sample();
  }

  void on_step(const lab::MetricsRow& report) override {
    show_sample();
    if (progress_.is_due())
      progress_.at_work(step_line(state(report, trainer().task->info().optimal)));
  }

  void on_evaluation(const lab::Evaluation& e) override {
    if (!std::isfinite(e.loss)) return;
    const lab::Task& task = *trainer().task;
    const double train_loss = trainer().history().back().train_loss;
    if (!info_shown_) {
      for (const std::string& line : evaluation_info(e, task)) progress_.line(line);
      if (std::isfinite(train_loss))
        progress_.line(fmt::format("  train_loss is the loss on {}, drawn with a fixed seed",
                                   counted(train_sequences(trainer()), "training sequence")));
    }
    info_shown_ = true;
    progress_.line(
        evaluation_line(e, train_loss, task.info(), state({.step = trainer().steps_done}, NAN)));
    draw_loss_meanwhile();
  }

  void on_evaluating(Index done, Index total, bool all) override {
    progress_.at_work(
        total == 0
            ? std::string(kCountingBigrams)
            : fmt::format("{}: {} of {}", all ? "Final evaluation" : "Evaluating", done, total));
  }

  void on_warning(const std::string& text) override {
    progress_.warn("warning: " + text + " (--strict makes this an error)");
  }

  void on_end(const lab::TrainingResult& result) override {
    add_result(result);
    progress_.at_work("Drawing the pictures");
    std::string pictures;
    for (const fs::path& picture : {draw_loss_now(), draw_attention_now()})
      if (!picture.empty()) pictures += "  " + picture.string();
    progress_.clear();
    if (!pictures.empty()) out_.text("pictures{}", pictures);
    out_.text("memory    {} at its peak", bytes_text(lab::resident_peak()));
  }

  /// Returns the result. Call it after on_end().
  const Out& out() const { return out_; }

  void show_stop() {
    draw_loss_now();
    progress_.warn(
        fmt::format("stopped after step {} of {} and saved; continue with heed train --resume {}",
                    trainer().steps_done, trainer().config().steps, folder().text()));
  }

 private:
  void show_sample() {
    const Index every = trainer().config().sample_every, step = trainer().steps_done;
    if (every > 0 && step % every == 0)
      progress_.line(fmt::format("sample {}: {}", step, sample_line(trainer())));
  }

  int ranks() const { return options_.ranks ? options_.ranks->size() : 1; }

  StepState state(const lab::MetricsRow& report, double optimal) const {
    return {report, trainer().config().steps, optimal, tokens_per_second(), seconds_left()};
  }

  void add_result(const lab::TrainingResult& result) {
    const lab::Trainer& t = trainer();
    const lab::RunConfig& c = t.config();
    const lab::Evaluation &e = *result.all, &some = *result.comparable;
    const Index parameters = nn::count_parameters(t.model);
    const std::string part = steps() < t.steps_done ? fmt::format(", the last {}", steps()) : "";
    out_.text("{}: {}{} in {}, {} tokens/s, {}", c.task, counted(t.steps_done, "step"), part,
              seconds_text(result.seconds), si_text(tokens_per_second()),
              counted(parameters, "parameter"));
    out_.set("task", c.task);
    out_.set("steps", t.steps_done);
    out_.set("seconds", result.seconds);
    out_.set("tokens_per_s", tokens_per_second());
    add_evaluation(out_, e, *t.task);
    const lab::MetricsRow& last = t.history().back();  // NaN: not measured
    out_.set("train_loss", last.train_loss);
    out_.set("train_accuracy", last.train_accuracy);
    out_.gap();
    if (std::isfinite(last.train_loss))
      out_.text("on {}: loss {:.4f}{}", counted(train_sequences(t), "training sequence"),
                last.train_loss,
                std::isfinite(last.train_accuracy)
                    ? fmt::format(", accuracy {:.2f} %", 100 * last.train_accuracy)
                    : "");
    out_.set("run", folder().text());
    out_.set("parameters", parameters);
    out_.set("seed", c.seed);
    out_.set("ranks", ranks());
    out_.set("stopped", result.early_end.empty() ? Value() : Value(result.early_end));
    if (some.sequences != e.sequences && some.optimal)
      out_.text("during training: the first {} of these; best possible there {:.4f}",
                with_commas(some.sequences), *some.optimal);
    if (!result.early_end.empty()) out_.text("stopped   {}", result.early_end);
    out_.text("run       {}", folder().text());
  }

  // Draws and writes a picture, and returns its path. If this fails, prints a warning and returns
  // an empty path.
  template <class Make>
  fs::path picture(const char* name, Make make) {
    try {
      const PictureSource source = source_of(folder().path(), trainer().model);
      check_folder();
      write_picture(folder().file(name), make(source), source);
      return folder().file(name);
    } catch (const std::exception& e) {
      progress_.warn(fmt::format("warning: no {}: {}", name, e.what()));
      return {};
    }
  }
  fs::path draw_loss_now() {
    return picture(RunFolder::kLossPicture, [&](const PictureSource& source) {
      return loss_picture(trainer().history(), trainer().task->info(), last_evaluation(), source);
    });
  }
  fs::path draw_attention_now() {
    const lab::Trainer& t = trainer();
    return picture(RunFolder::kAttentionPicture, [&](const PictureSource& source) {
      return attention_picture(t.model, *t.task, t.steps_done, source);
    });
  }

  // Draws loss.png during training. After a drawing that took t seconds, the next one follows after
  // at least 20 t seconds, so that drawing takes less than a twentieth of the time.
  void draw_loss_meanwhile() {
    constexpr double kShare = 20;
    const double started = seconds();
    if (steps() == 0 || trainer().steps_done == trainer().config().steps || started < next_picture_)
      return;
    draw_loss_now();
    next_picture_ = seconds() + kShare * (seconds() - started);
  }

  const TrainOptions& options_;
  Progress progress_;
  Out out_;
  bool info_shown_ = false;
  double next_picture_ = 0;  // on the clock of seconds()
};

}  // namespace

std::vector<std::string> config_notes() {
  return {fmt::format("heed train --config THIS-FILE runs this again; written by heed {}",
                      version_text())};
}

Out train_run(lab::Trainer& t, lab::LockedFolder folder, const TrainOptions& options) {
  const InterruptGuard interrupt;
  ShownRun run(t, std::move(folder), options);
  const lab::TrainingResult result = past_input_checks([&] {
    try {
      return run.run();
    } catch (const lab::LeakError& e) {
      throw CheckError(e.what());
    }
  });
  if (result.finished) return run.out();
  run.show_stop();
  Out out;
  out.fail(kInterrupted);
  return out;
}

}  // namespace heed
