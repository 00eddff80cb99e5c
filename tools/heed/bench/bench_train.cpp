// heed bench train: a training step of the presets in time, memory and the machine's peak.
#include "autograd/base/pool.h"
#include "autograd/kernels/kernels.h"
#include "tools/heed/bench/allocations.h"
#include "tools/heed/bench/bench.h"
#include "tools/heed/bench/comparators.h"
#include "tools/heed/bench/presets.h"
#include "tools/heed/bench/turns.h"
#include "tools/heed/bench/works.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

struct StepRow {
  std::string preset;
  int threads;
  double seconds, tokens_per_s, mfu, peak_bytes, allocations_per_step, peak_gflops;
};

// The machine's limit: products of 2048^3, ours and oneDNN's.
class PeakProducts {
 public:
  explicit PeakProducts(int threads) : a_(kSize * kSize, 1.0f), b_(a_.size(), 0.5f), c_(a_.size()) {
    if (onednn_) onednn_->set_threads(threads);
  }
  static constexpr double flop() { return 2.0 * kSize * kSize * kSize; }
  std::vector<std::function<void()>> calls() {
    std::vector<std::function<void()>> list = {[this] {
      autograd::kernels::Gemm<float> g;
      g.m = g.n = g.k = kSize;
      g.a = a_.data(), g.a_row = kSize, g.a_col = 1;
      g.b = b_.data(), g.b_row = kSize, g.b_col = 1;
      g.c = c_.data(), g.c_row = kSize, g.c_col = 1;
      autograd::kernels::gemm(g);
    }};
    if (onednn_)
      list.emplace_back([this] {
        onednn_->sgemm(false, false, kSize, kSize, kSize, a_.data(), b_.data(), c_.data());
      });
    return list;
  }

 private:
  static constexpr std::int64_t kSize = 2048;
  std::vector<float> a_, b_, c_;
  std::unique_ptr<Comparator> onednn_ = load_onednn();
};

StepRow measure(const std::string& preset, autograd::Precision matmul, int threads) {
  autograd::reset_peak_bytes();
  TrainingStep step(preset + ",matmul=" + nn::enum_name(matmul));
  const double flop = step.flop();
  step(), step();
  const auto peak_bytes = double(autograd::pool_stats().peak_bytes);
  std::uint64_t allocated = 0, steps = 0;
  PeakProducts products(threads);
  std::vector<std::function<void()>> calls = products.calls();
  calls.insert(calls.begin(), [&] {
    const std::uint64_t before = allocations();
    step();
    allocated += allocations() - before, ++steps;
  });
  const auto times = seconds_by_turn(calls, 7, 0.1);
  step.check_learned();
  std::vector<double> best = times[1];  // the faster product of each turn
  for (std::size_t t = 0; t < best.size(); ++t) best[t] = std::min(best[t], times.back()[t]);
  const double seconds = median(times[0]);
  return {preset,
          threads,
          seconds,
          step.tokens() / seconds,
          flop / PeakProducts::flop() * median_ratio(best, times[0]),
          peak_bytes,
          double(allocated) / double(steps),
          PeakProducts::flop() / median(best) / 1e9};
}

}  // namespace

std::vector<std::string> bench_presets() { return {"micro", "toy", "chargpt", "small"}; }

int bench_train(const BenchOptions& options) {
  nn::Json table = nn::Json::array();
  if (!options.json)
    print("{:<10} {:>7} {:>10} {:>12} {:>7} {:>11} {:>13}\n", "preset", "threads", "ms/step",
          "tokens/s", "MFU", "peak memory", "mallocs/step");
  const auto of_operands = [&](const std::string& preset, int threads) {
    return measure(preset, options.matmul, threads);
  };
  for_presets(options, "bench train", of_operands, [&](const StepRow& r) {
    table.push_back(nn::Json::object({{"preset", r.preset},
                                      {"matmul", nn::enum_name(options.matmul)},
                                      {"threads", r.threads},
                                      {"ms_per_step", r.seconds * 1e3},
                                      {"tokens_per_s", r.tokens_per_s},
                                      {"mfu", r.mfu},
                                      {"peak_bytes", r.peak_bytes},
                                      {"mallocs_per_step", r.allocations_per_step},
                                      {"peak_gflops", r.peak_gflops}}));
    if (!options.json)
      print("{:<10} {:>7} {:>10.3f} {:>12} {:>6.1f}% {:>11} {:>13.1f}\n", r.preset, r.threads,
            r.seconds * 1e3, with_commas(std::int64_t(r.tokens_per_s)), r.mfu * 100,
            bytes_text(r.peak_bytes), r.allocations_per_step);
  });
  if (options.json) {
    print_json(nn::Json::object({{"rows", table}}));
    return kOk;
  }
  print(
      "MFU: 6 x parameters of matrix products + 12 x layers x T x d-model FLOP per token, over "
      "the\n"
      "larger of our own and oneDNN's 2048^3 product on as many threads, taking turns with the "
      "steps\n");
  return kOk;
}

}  // namespace heed
