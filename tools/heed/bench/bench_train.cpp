// heed bench train: a training step of the presets in time, memory and the machine's peak.
#include <cmath>

#include "autograd/base/parallel.h"
#include "autograd/base/pool.h"
#include "autograd/engine/engine.h"
#include "autograd/kernels/kernels.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/create.h"
#include "nn/train/config.h"
#include "nn/train/optim.h"
#include "tools/heed/bench/allocations.h"
#include "tools/heed/bench/bench.h"
#include "tools/heed/bench/comparators.h"
#include "tools/heed/report/model_report.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"

namespace heed {
namespace {

using autograd::Tensor;

struct StepRow {
  std::string preset;
  int threads;
  double seconds, tokens_per_s, mfu, peak_bytes, allocations_per_step;
};

std::int64_t vocabulary_of(const std::string& preset) {
  return preset == "micro" ? 32 : preset == "toy" ? 64 : 65;
}

// What 2048^3 products reach now, FLOP/s: the better of ours and oneDNN's.
double peak(int threads) {
  const std::int64_t n = 2048;
  std::vector<float> a(n * n, 1.0f), b(n * n, 0.5f), c(n * n);
  autograd::kernels::Gemm<float> g;
  g.m = g.n = g.k = n;
  g.a = a.data(), g.a_row = n, g.a_col = 1;
  g.b = b.data(), g.b_row = n, g.b_col = 1;
  g.c = c.data(), g.c_row = n, g.c_col = 1;
  std::vector<std::function<void()>> run = {[&] { autograd::kernels::gemm(g); }};
  const auto onednn = load_onednn();
  if (onednn) {
    onednn->set_threads(threads);
    run.emplace_back([&] { onednn->sgemm(false, false, n, n, n, a.data(), b.data(), c.data()); });
  }
  double best = HUGE_VAL;
  for (const double s : median_seconds(run, 5)) best = std::min(best, s);
  return 2.0 * double(n) * double(n) * double(n) / best;
}

StepRow measure(const std::string& preset, autograd::Precision matmul, int threads,
                double peak_flops) {
  nn::RunConfig config = nn::preset(preset);
  config.matmul = matmul;
  const std::int64_t vocabulary = vocabulary_of(preset);
  autograd::Generator g(1);
  nn::Transformer model = nn::make_model(config, vocabulary, vocabulary, g);
  const auto parameters = nn::parameters(model);
  nn::AdamW optimizer(nn::decay_groups(parameters, config.weight_decay),
                      {.beta1 = config.beta1, .beta2 = config.beta2, .eps = config.eps});
  const Tensor x = autograd::randint(0, vocabulary, {config.batch, config.context}, g);
  const Tensor y = autograd::randint(0, vocabulary, {config.batch, config.context}, g);
  const auto step = [&] {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(model.forward(x, {.training = true}), y);
    backward(loss);
    optimizer.step(config.lr, config.clip);
    return loss.item();
  };
  autograd::reset_peak_bytes();
  // As many steps as fit into a second and a half, but enough for a median.
  const double first = step();
  Stopwatch warm_up;
  int warm = 0;
  while (warm < 3 || warm_up.seconds() < 0.3) step(), ++warm;
  const int steps = std::clamp(int(1.5 / (warm_up.seconds() / warm)), 7, 4000);
  std::vector<double> times(static_cast<std::size_t>(steps));
  const std::uint64_t before = allocations();
  double last = 0;
  for (double& t : times) {
    const Stopwatch clock;
    last = step();
    t = clock.seconds();
  }
  const auto allocated = double(allocations() - before);
  if (!(last < first))
    throw std::logic_error(
        fmt::format("bench: {} does not learn its batch: {} then {}", preset, first, last));
  std::nth_element(times.begin(), times.begin() + steps / 2, times.end());
  const double seconds = times[std::size_t(steps / 2)];
  const auto tokens = double(config.batch * config.context);
  const double flop = report_on(model).flops_per_token * tokens;
  return {preset,
          threads,
          seconds,
          tokens / seconds,
          flop / seconds / peak_flops,
          double(autograd::pool_stats().peak_bytes),
          allocated / steps};
}

}  // namespace

std::vector<std::string> bench_presets() { return {"micro", "toy", "chargpt", "small"}; }

int bench_train(const BenchOptions& options) {
  const std::vector<std::string> presets =
      options.preset.empty() ? bench_presets() : std::vector{options.preset};
  nn::Json table = nn::Json::array();
  Progress progress(false);
  if (!options.json)
    print("{:<10} {:>7} {:>10} {:>12} {:>7} {:>11} {:>13}\n", "preset", "threads", "ms/step",
          "tokens/s", "MFU", "peak memory", "mallocs/step");
  std::vector<std::string> notes;
  for (const std::string& preset : presets)
    for (const int threads : options.threads) {
      progress.at_work(fmt::format("bench train: {}, {} threads", preset, threads));
      autograd::set_num_threads(threads);
      const double flops = peak(threads);
      const StepRow r = measure(preset, options.matmul, threads, flops);
      progress.clear();
      table.push_back(nn::Json::object({{"preset", r.preset},
                                        {"matmul", nn::enum_name(options.matmul)},
                                        {"threads", r.threads},
                                        {"ms_per_step", r.seconds * 1e3},
                                        {"tokens_per_s", r.tokens_per_s},
                                        {"mfu", r.mfu},
                                        {"peak_bytes", r.peak_bytes},
                                        {"mallocs_per_step", r.allocations_per_step},
                                        {"peak_gflops", flops / 1e9}}));
      if (!options.json)
        print("{:<10} {:>7} {:>10.3f} {:>12} {:>6.1f}% {:>11} {:>13.1f}\n", r.preset, r.threads,
              r.seconds * 1e3, with_commas(std::int64_t(r.tokens_per_s)), r.mfu * 100,
              bytes_text(r.peak_bytes), r.allocations_per_step);
    }
  if (options.json) {
    print_json(nn::Json::object({{"rows", table}}));
    return kOk;
  }
  print(
      "MFU: 6 x parameters of matrix products + 12 x layers x T x d-model FLOP per token, over "
      "the\n"
      "larger of our own and oneDNN's 2048^3 product at that thread count in this run\n");
  return kOk;
}

}  // namespace heed
