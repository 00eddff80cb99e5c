#include "tools/heed/train/dry_run.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/base/parallel.h"
#include "autograd/base/text.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/create.h"
#include "nn/train/cost/memory.h"
#include "nn/train/cost/model_cost.h"
#include "nn/train/cost/timing.h"
#include "nn/train/trainer.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"

namespace heed {
namespace {

constexpr Column kSiteColumns[] = {{"", "site"}, {"", "shape", "batch, tokens, ..."}};

// Returns the steps, counted from 0, at which the learning rate is printed: the first step, the end
// of the warm-up, and the last step of each quarter of the run.
std::vector<std::int64_t> steps_shown(const nn::RunConfig& c) {
  std::vector<std::int64_t> steps = {0, c.warmup};
  for (int quarter = 1; quarter <= 4; ++quarter) steps.push_back(c.steps * quarter / 4 - 1);
  std::erase_if(steps, [&](std::int64_t s) { return s < 0 || s >= c.steps; });
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

// Returns every step of a short run, or 64 evenly spaced steps of a long run, with the last step.
std::vector<std::int64_t> curve_steps(const nn::RunConfig& c) {
  std::vector<std::int64_t> steps;
  const std::int64_t points = std::min<std::int64_t>(64, c.steps);
  for (std::int64_t i = 0; i < points; ++i)
    steps.push_back(
        points == 1 ? 0 : std::llround(double(i) * double(c.steps - 1) / double(points - 1)));
  return steps;
}

// Adds a table with the shapes of the main activations for one batch.
void add_shapes(Report& report, const nn::Trainer& t) {
  Table& table = report.text_table(kSiteColumns);
  for (const auto& [name, shape] : nn::site_shapes(t.model)) {
    std::vector<std::int64_t> sizes = {t.config().batch};
    for (int i = 1; i < shape.rank(); ++i) sizes.push_back(shape[i]);
    table.add({name, sizes});
  }
}

// Returns the least seconds of a step: its FLOP at the speed of a matrix product.
double least_seconds(double flops) {
  constexpr double kSize = 512;
  const autograd::NoGrad guard;
  const autograd::Tensor a = autograd::ones({std::int64_t(kSize), std::int64_t(kSize)});
  const double product = nn::median_call([&] { matmul(a, a); }, 0.02);
  return flops * product / (2 * kSize * kSize * kSize);
}

// Takes three steps. Returns the median seconds of steps 2 and 3, or NaN if this needs more than
// kLongest seconds.
double step_seconds(nn::Trainer& t, double least) {
  constexpr double kLongest = 20;
  constexpr int kSteps = 3;
  std::vector<double> seconds;
  double total = 0;
  while (seconds.size() < kSteps) {
    if (total + least * double(kSteps - seconds.size()) > kLongest)
      return std::numeric_limits<double>::quiet_NaN();
    seconds.push_back(nn::seconds_of([&] { t.step(); }));
    total += seconds.back();
  }
  return nn::median({seconds.begin() + 1, seconds.end()});
}

// Adds work and memory, and takes three steps to add the time.
void add_cost(Report& report, nn::Trainer& t) {
  const nn::RunConfig& c = t.config();
  const nn::Transformer::Options& o = t.model.options;
  const double flops = nn::flops_per_token(t.model) * double(c.batch * c.model.context),
               bytes = nn::run_bytes(c, o.vocab, o.classes), available = nn::available_memory(),
               step = past_input_checks([&] { return step_seconds(t, least_seconds(flops)); });
  report.set("flops_per_step", flops);
  report.set("bytes", bytes);
  report.set("seconds_per_step", step);
  report.set("seconds", step * double(c.steps));
  report.set("available_bytes", available);
  report.set("shards", c.shards);
  report.line("work      {} FLOP per step in {}, {} FLOP in {}", si_text(flops),
              counted(c.shards, "shard"), si_text(flops * double(c.steps)),
              counted(c.steps, "step"));
  report.line("memory    at least {}; {} are available", bytes_text(bytes), bytes_text(available));
  report.line("time      {}",
              std::isnan(step)
                  ? "unknown, because three steps take more than 20 s"
                  : fmt::format("about {} on {}: {:.3f} ms per step, without "
                                "evaluations",
                                seconds_text(step * double(c.steps)),
                                counted(autograd::num_threads(), "thread"), step * 1e3));
}

void add_learning_rate(Report& report, const nn::RunConfig& c) {
  const nn::Schedule schedule = nn::schedule(c);
  Table& rates = report.table("lr");
  for (const std::int64_t s : curve_steps(c)) rates.add({s + 1, schedule.lr_at(s)});
  std::string some;
  for (const std::int64_t s : steps_shown(c))
    some += fmt::format("  {}: {:.3g}", s + 1, schedule.lr_at(s));
  report.line("lr        {}, by step:\n        {}", nn::enum_name(c.schedule), some);
}

// Adds the source of the weights, and the parameters that are not trained.
void add_start(Report& report, const nn::Trainer& t) {
  const nn::RunConfig& c = t.config();
  const std::vector<std::string>& frozen = t.frozen();
  report.set("from", c.from.empty() ? Value() : Value(c.from));
  report.set("from_weights", c.from.empty() ? Value() : Value(c.from_weights));
  report.set("frozen", frozen);
  if (!c.from.empty()) report.line("from      {}, {}", c.from, c.from_weights);
  if (!frozen.empty())
    report.line("frozen    {} of {} parameter tensors: {}", frozen.size(),
                nn::parameters(t.model).size(), heed::join(frozen));
}

}  // namespace

Report dry_run(const nn::RunConfig& config, bool quiet) {
  Progress progress(quiet);
  progress.at_work("Creating the model and taking three steps");
  nn::Trainer t(config);
  const nn::RunConfig& c = t.config();
  Report report(kDryRunKeys);
  report.line("{}: {}", c.task, t.task->info().description);
  report.set("task", c.task);
  report.set("steps", c.steps);
  add_model(report, t.model);
  add_shapes(report, t);
  add_start(report, t);
  add_cost(report, t);
  add_learning_rate(report, c);
  report.line("\ndry run: nothing written");
  return report;
}

}  // namespace heed
