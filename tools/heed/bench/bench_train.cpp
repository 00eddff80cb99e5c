// heed bench train: a training step of the presets in time, memory and the machine's peak.
#include "autograd/base/pool.h"
#include "tools/heed/bench/allocations.h"
#include "tools/heed/bench/bench.h"
#include "tools/heed/bench/peak_products.h"
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
  std::string peak_of;
};

StepRow measure(const std::string& preset, autograd::Precision matmul, int threads) {
  autograd::reset_peak_bytes();
  nn::RunConfig config = nn::preset(preset);
  config.model.matmul = matmul;
  TrainingStep step(config, bench_vocabulary(preset));
  const double flop = step.flop();
  step(), step();
  const auto peak_bytes = double(autograd::pool_stats().peak_bytes);
  std::uint64_t allocated = 0, steps = 0;
  const PeakProducts products(matmul, threads);
  std::vector<std::function<void()>> calls = {[&] {
    const std::uint64_t before = allocations();
    step();
    allocated += allocations() - before, ++steps;
  }};
  for (const PeakProduct& p : products.all()) calls.push_back(p.call);
  const auto times = seconds_by_turn(calls, 7, 0.1);
  step.check_learned();
  std::vector<double> best = times[1];  // the fastest product of each turn
  std::size_t fastest = 1;              // and of most
  for (std::size_t i = 2; i < times.size(); ++i) {
    for (std::size_t t = 0; t < best.size(); ++t) best[t] = std::min(best[t], times[i][t]);
    if (median_ratio(times[i], times[fastest]) < 1) fastest = i;
  }
  const double seconds = median(times[0]);
  return {preset,
          threads,
          seconds,
          step.tokens() / seconds,
          flop / PeakProducts::flop() * median_ratio(best, times[0]),
          peak_bytes,
          double(allocated) / double(steps),
          PeakProducts::flop() / median(best) / 1e9,
          products.all()[fastest - 1].name};
}

}  // namespace

Report bench_train(const BenchOptions& options) {
  Report report(kBenchTrainKeys);
  Table& table = report.table("rows");
  const std::string matmul = nn::enum_name(options.matmul);
  const auto of_operands = [&](const std::string& preset, int threads) {
    return measure(preset, options.matmul, threads);
  };
  for_presets(options, "bench train", of_operands, [&](const StepRow& r) {
    table.add({r.preset, matmul, r.threads, r.seconds * 1e3, r.tokens_per_s, r.mfu, r.peak_bytes,
               r.allocations_per_step, r.peak_gflops, r.peak_of});
  });
  report.line(
      "MFU: 6 x parameters of matrix products + 12 x layers x T x d-model FLOP per token, over the "
      "largest of our own and oneDNN's {}^3 products{} on as many threads, taking turns with the "
      "steps",
      PeakProducts::size(),
      options.matmul == autograd::Precision::kFloat32 ? "" : " (ours of " + matmul + ", too)");
  return report;
}

}  // namespace heed
