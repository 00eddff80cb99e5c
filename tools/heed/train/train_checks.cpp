#include "tools/heed/train/train_checks.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "autograd/base/parallel.h"
#include "nn/train/memory.h"
#include "nn/train/overfit.h"
#include "nn/train/run_cost.h"
#include "tools/heed/pictures.h"
#include "tools/heed/report/model_report.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"

namespace heed {
namespace {

std::string with_batch(const autograd::Shape& shape, std::int64_t batch) {
  std::ostringstream out;
  out << "[" << batch;
  for (int i = 1; i < shape.rank(); ++i) out << ", " << shape[i];
  out << "]";
  return out.str();
}

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

}  // namespace

void check_fit(double needed, double available) {
  if (needed <= available) return;
  usage_error(
      "this run needs about {}; {} of memory are free here. Lower batch, context or layers, or "
      "raise --accumulate",
      bytes_text(needed), bytes_text(available));
}

int dry_run(const nn::RunConfig& config, const TrainOptions& options) {
  Progress progress(options.quiet);
  progress.at_work("makes the model and measures passes");
  nn::Trainer t(config);
  const nn::RunConfig& c = t.config();
  const nn::Schedule schedule = nn::schedule(c);
  const double tokens = double(c.batch * c.model.context);
  const nn::RunCost cost = past_input_checks([&] {
    return nn::run_cost(t, [&] {
      try {
        loss_png(t, {});
        attention_png(t.model, *t.task, 0);
      } catch (const std::exception&) {  // too wide: it will be a warning of the run
      }
    });
  });
  const ModelReport report = report_on(t.model);  // after the measurement, as it stores scores
  progress.clear();
  const double available = nn::available_memory();
  const std::vector<std::int64_t> steps = steps_shown(c);

  if (options.json) {
    nn::Json object = nn::Json::object({{"task", c.task}, {"steps", c.steps}});
    object.update(to_json(report));
    object["flops_per_step"] = report.flops_per_token * tokens;
    object["bytes"] = cost.bytes;
    object["seconds_per_step"] = cost.seconds_per_step;
    object["seconds"] = cost.seconds;
    object["available_bytes"] = available;
    object["lr"] = nn::Json::array();
    for (const std::int64_t s : curve_steps(c))
      object["lr"].push_back(nn::Json::object({{"step", s + 1}, {"lr", schedule.lr_at(s)}}));
    print_json(object);
    check_fit(cost.bytes, available);
    return kOk;
  }
  print("{}: {}\n\nparameters\n", c.task, t.task->facts().description);
  print_parameters(report);
  print("shapes (batch, tokens, ...)\n");
  for (const auto& [name, shape] : report.sites)
    print("  {:<34} {}\n", name, with_batch(shape, c.batch));
  print("\nwork      {}FLOP per step, {}FLOP in all {} steps\n",
        si_text(report.flops_per_token * tokens) + " ",
        si_text(report.flops_per_token * tokens * double(c.steps)) + " ", c.steps);
  print("memory    about {} at its peak; {} for weights, gradients and moments; {} are free here\n",
        bytes_text(cost.bytes), bytes_text(report.training_bytes), bytes_text(available));
  if (std::isfinite(cost.seconds))
    print("time      about {}: {:.3f} ms per step, evaluations and pictures, on --threads {}\n",
          seconds_text(cost.seconds), cost.seconds_per_step * 1e3, autograd::num_threads());
  print("lr        {}, by step:", nn::enum_name(c.schedule));
  for (const std::int64_t s : steps) print("  {}: {:.3g}", s + 1, schedule.lr_at(s));
  print("\n{}\ndry run: no step taken, nothing written\n", lr_plot(c));
  check_fit(cost.bytes, available);
  return kOk;
}

int overfit_batch(nn::RunConfig config, const TrainOptions& options) {
  config.model.attention.dropout = 0;  // what is forgotten at random cannot be learned by heart
  nn::Trainer t(config);
  Progress progress(options.quiet);
  const Stopwatch clock;
  const auto [loss, least, learned] = past_input_checks([&] {
    return nn::overfit_batch(t, [&](const nn::Overfit& o) {
      const bool mark = t.config().eval_every > 0 && t.steps_done % t.config().eval_every == 0;
      if (!mark && !progress.is_due()) return;
      const std::string text = fmt::format("step {}/{}  loss {:.6f}  least possible {:.6f}",
                                           t.steps_done, t.config().steps, o.loss, o.least);
      mark ? progress.line(text) : progress.at_work(text);
    });
  });
  progress.clear();
  if (options.json)
    print_json(nn::Json::object({{"task", t.config().task},
                                 {"steps", t.steps_done},
                                 {"seconds", clock.seconds()},
                                 {"loss", loss},
                                 {"least_loss", least},
                                 {"learned", learned}}));
  else
    print("{}: one batch of {} sequences {} in {} steps: loss {:.6f}, least possible {:.6f}{}\n",
          t.config().task, t.config().batch, learned ? "learned by heart" : "NOT learned",
          t.steps_done, loss, least, learned ? "" : "; more --steps, or a smaller --batch, may do");
  return learned ? kOk : kCheckFailed;
}

}  // namespace heed
