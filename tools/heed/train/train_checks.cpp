#include "tools/heed/train/train_checks.h"

#include <algorithm>
#include <cmath>

#include "autograd/base/parallel.h"
#include "nn/train/memory.h"
#include "nn/train/overfit.h"
#include "nn/train/run_cost.h"
#include "tools/heed/pictures.h"
#include "tools/heed/report/progress.h"

namespace heed {
namespace {

constexpr Column kSiteColumns[] = {{"", "site"}, {"", "shape", "batch, tokens, ..."}};

// Some steps that tell the course of the learning rate, from 0.
std::vector<std::int64_t> steps_shown(const nn::RunConfig& c) {
  std::vector<std::int64_t> steps = {0, c.warmup};
  for (int quarter = 1; quarter <= 4; ++quarter) steps.push_back(c.steps * quarter / 4 - 1);
  std::erase_if(steps, [&](std::int64_t s) { return s < 0 || s >= c.steps; });
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

// Every step of a short run, evenly spread ones of a long one, the last included.
constexpr std::int64_t kCurve = 64;
std::vector<std::int64_t> curve_steps(const nn::RunConfig& c) {
  std::vector<std::int64_t> steps;
  const std::int64_t points = std::min(kCurve, c.steps);
  for (std::int64_t i = 0; i < points; ++i)
    steps.push_back(
        points == 1 ? 0 : std::llround(double(i) * double(c.steps - 1) / double(points - 1)));
  return steps;
}

// The learning rate over the steps, as rows of text from its peak down to 0.
std::string lr_plot(const nn::RunConfig& c) {
  constexpr int kRows = 8;
  const nn::Schedule schedule = nn::schedule(c);
  const std::vector<std::int64_t> steps = curve_steps(c);
  std::string text;
  for (int row = kRows; row >= 0; --row) {
    text += row == kRows ? fmt::format("  {:>8.2g} |", c.lr)
            : row == 0   ? "         0 |"
                         : "           |";
    for (const std::int64_t s : steps)
      text += std::lround(kRows * schedule.lr_at(s) / c.lr) == row ? '*' : row == 0 ? '_' : ' ';
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  const std::string last = std::to_string(c.steps);
  const std::size_t width = std::max(steps.size(), last.size() + 2);
  return text + "            1" + std::string(width - 1 - last.size(), ' ') + last + "\n";
}

// Shapes of what flows through the model, for a batch.
void add_shapes(Report& report, const ModelReport& model, std::int64_t batch) {
  Table& table = report.text_table(kSiteColumns);
  for (const auto& [name, shape] : model.sites) {
    std::vector<std::int64_t> sizes = {batch};
    for (int i = 1; i < shape.rank(); ++i) sizes.push_back(shape[i]);
    table.add({name, sizes});
  }
}

void add_cost(Report& report, const nn::RunConfig& c, double flops, const nn::RunCost& cost,
              double available) {
  report.set("flops_per_step", flops);
  report.set("bytes", cost.bytes);
  report.set("seconds_per_step", cost.seconds_per_step);
  report.set("seconds", cost.seconds);
  report.set("available_bytes", available);
  report.line("work      {} FLOP per step, {} FLOP in all {} steps", si_text(flops),
              si_text(flops * double(c.steps)), c.steps);
  report.line("memory    about {} at its peak; {} are free here", bytes_text(cost.bytes),
              bytes_text(available));
  if (std::isfinite(cost.seconds))
    report.line("time      about {} on {} threads: {:.3f} ms per step, evaluations, pictures",
                seconds_text(cost.seconds), autograd::num_threads(), cost.seconds_per_step * 1e3);
}

void add_learning_rate(Report& report, const nn::RunConfig& c) {
  const nn::Schedule schedule = nn::schedule(c);
  Table& rates = report.table("lr");
  for (const std::int64_t s : curve_steps(c)) rates.add({s + 1, schedule.lr_at(s)});
  std::string some;
  for (const std::int64_t s : steps_shown(c))
    some += fmt::format("  {}: {:.3g}", s + 1, schedule.lr_at(s));
  report.line("lr        {}, by step:\n        {}", nn::enum_name(c.schedule), some);
  report.block(lr_plot(c));
}

}  // namespace

std::string memory_shortage(double needed, double available) {
  if (needed <= available) return "";
  return fmt::format(
      "this run needs about {}; {} of memory are free here. Lower batch, context or layers, or "
      "raise --accumulate",
      bytes_text(needed), bytes_text(available));
}

Report dry_run(const nn::RunConfig& config, bool quiet) {
  Progress progress(quiet);
  progress.at_work("makes the model and measures passes");
  nn::Trainer t(config);
  const nn::RunConfig& c = t.config();
  const nn::RunCost cost = past_input_checks([&] {
    return nn::run_cost(t, [&] {
      try {
        loss_png(t, {});
        attention_png(t.model, *t.task, 0);
      } catch (const std::exception&) {  // too wide: it will be a warning of the run
      }
    });
  });
  const ModelReport model = report_on(t.model);  // after the measurement, as it stores scores
  progress.clear();
  const double available = nn::available_memory();
  Report report(kDryRunKeys);
  report.line("{}: {}", c.task, t.task->facts().description);
  report.set("task", c.task);
  report.set("steps", c.steps);
  add_model(report, model);
  add_shapes(report, model, c.batch);
  add_cost(report, c, model.flops_per_token * double(c.batch * c.model.context), cost, available);
  add_learning_rate(report, c);
  report.line("\ndry run: no step taken, nothing written");
  const std::string shortage = memory_shortage(cost.bytes, available);
  if (!shortage.empty()) report.fail(kUsage, shortage);
  return report;
}

Report overfit_batch(nn::RunConfig config, bool quiet) {
  config.model.attention.dropout = 0;  // what is forgotten at random cannot be learned by heart
  nn::Trainer t(config);
  Progress progress(quiet);
  const Stopwatch clock;
  const nn::Overfit result = past_input_checks([&] {
    return nn::overfit_batch(t, [&](const nn::Overfit& o) {
      const bool mark = t.config().eval_every > 0 && t.steps_done % t.config().eval_every == 0;
      if (!mark && !progress.is_due()) return;
      const std::string text = fmt::format("step {}/{}  loss {:.6f}  least possible {:.6f}",
                                           t.steps_done, t.config().steps, o.loss, o.least);
      mark ? progress.line(text) : progress.at_work(text);
    });
  });
  progress.clear();
  Report report(kOverfitKeys);
  report.set("task", t.config().task);
  report.set("steps", t.steps_done);
  report.set("seconds", clock.seconds());
  report.set("loss", result.loss);
  report.set("least_loss", result.least);
  report.set("learned", result.learned);
  report.line("{}: one batch of {} sequences {} in {} steps: loss {:.6f}, least possible {:.6f}{}",
              t.config().task, t.config().batch,
              result.learned ? "learned by heart" : "NOT learned", t.steps_done, result.loss,
              result.least, result.learned ? "" : "; more --steps, or a smaller --batch, may do");
  report.fail(result.learned ? kOk : kCheckFailed);
  return report;
}

}  // namespace heed
