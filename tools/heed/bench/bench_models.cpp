// `heed bench train`: time and memory of a training step, and its speed relative to the machine's
// peak. `heed bench generate`: tokens per second of one sequence. Each token reads every weight
// once, so the bandwidth of memory or cache is the limit.
#include "autograd/base/parallel.h"
#include "autograd/base/pool.h"
#include "autograd/kernels/simd/elementwise.h"
#include "autograd/kernels/simd/simd.h"
#include "tools/heed/bench/bench.h"
#include "tools/heed/bench/products.h"
#include "tools/heed/bench/turns.h"
#include "tools/heed/bench/workloads.h"
#include "tools/heed/report/progress.h"

namespace heed {
namespace {

// Adds the row measure(preset, threads) for each requested preset and number of threads.
template <class Measure>
void add_rows(Report& report, const BenchOptions& options, const char* what, Measure measure) {
  Table& table = report.table("rows");
  Progress progress(false);
  for (const std::string& preset : bench_presets()) {
    if (!options.preset.empty() && preset != options.preset) continue;
    for (const int threads : options.threads) {
      progress.at_work(fmt::format("Timing {}: {}, {} threads", what, preset, threads));
      autograd::set_num_threads(threads);
      table.add(measure(preset, threads));
    }
  }
}

// Returns the size of the square product that measures the peak speed. If there is no SIMD target,
// the reference kernels run, and they are too slow for 2048.
std::int64_t peak_size() { return autograd::kernels::simd_runs() ? 2048 : 256; }

std::vector<Value> measure_training(const std::string& preset, autograd::Precision matmul,
                                    int threads) {
  autograd::reset_peak_bytes();
  nn::RunConfig config = nn::preset(preset);
  config.model.matmul = matmul;
  TrainingStep step(config, bench_vocabulary(preset));
  step(), step();
  const auto peak_bytes = double(autograd::pool_stats().peak_bytes);
  std::uint64_t allocated = 0, steps = 0;
  std::vector<std::function<void()>> calls = {[&] {
    const std::uint64_t before = allocations();
    step();
    allocated += allocations() - before, ++steps;
  }};
  const ProductShape peak{peak_size(), peak_size(), peak_size()};
  const std::vector<float> a(std::size_t(peak.m * peak.k), 1), b(a);
  std::vector<float> c(a);
  const std::vector<ProductLibrary> libraries = load_peak_libraries(matmul);
  for (const ProductLibrary& library : libraries) {
    library.set_threads(threads);
    calls.emplace_back([&] { library.multiply(peak, a.data(), b.data(), c.data()); });
  }
  const auto times = seconds_by_turn(calls, 7, 0.1);
  step.check_learned();
  std::vector<double> best = times[1];  // time of the fastest product in each turn
  std::size_t fastest = 1;              // index in `times` of the fastest product
  for (std::size_t i = 2; i < times.size(); ++i) {
    for (std::size_t t = 0; t < best.size(); ++t) best[t] = std::min(best[t], times[i][t]);
    if (median_ratio(times[i], times[fastest]) < 1) fastest = i;
  }
  const double seconds = median(times[0]);
  return {preset,
          nn::enum_name(matmul),
          threads,
          seconds * 1e3,
          step.tokens() / seconds,
          step.flop() / peak.flop() * median_ratio(best, times[0]),
          peak_bytes,
          double(allocated) / double(steps),
          peak.flop() / median(best) / 1e9,
          libraries[fastest - 1].name};
}

// Measures generation and, alternately, a loop that reads as many bytes as the weights have. The
// loop divides the memory evenly among the threads and adds pairs of float32 rows into a row that
// stays in the L1 cache. No sum depends on an earlier sum, so that only reading memory limits the
// loop.
std::vector<Value> measure_generation(const std::string& preset, int threads) {
  constexpr std::int64_t kRow = 512;
  Generation generate(nn::preset(preset), bench_vocabulary(preset));
  const double weight_bytes = generate.weight_bytes();
  const std::int64_t pairs = std::int64_t(weight_bytes) / std::int64_t(sizeof(float)) / (2 * kRow);
  const std::vector<float> memory(std::size_t(pairs * 2 * kRow), 1.0f);
  const auto read = [&] {
    autograd::parallel_for(pairs, (pairs + threads - 1) / threads,
                           [&](std::int64_t begin, std::int64_t end) {
                             float sums[kRow];
                             for (const float* x = memory.data() + begin * 2 * kRow;
                                  x < memory.data() + end * 2 * kRow; x += 2 * kRow)
                               autograd::kernels::simd::add(sums, x, x + kRow, kRow);
                           });
  };
  const auto times = seconds_by_turn({[&] { generate(); }, read}, 7, 0.05);
  const double seconds = median(times[0]), bytes = generate.tokens() * weight_bytes;
  return {preset,
          threads,
          generate.tokens() / seconds,
          weight_bytes,
          bytes / seconds / 1e9,
          bytes / double(memory.size() * sizeof(float)) * median_ratio(times[1], times[0])};
}

}  // namespace

Report bench_train(const BenchOptions& options) {
  Report report(kBenchTrainKeys);
  add_rows(report, options, "train", [&](const std::string& preset, int threads) {
    return measure_training(preset, options.matmul, threads);
  });
  report.line(
      "MFU = FLOP/s of the step / peak. FLOP per token: 6 x parameters of matrix products + 12 x "
      "layers x T x d-model. Peak: the faster of heed's and oneDNN's {}^3 products{}, measured on "
      "as many threads, alternately with the steps.",
      peak_size(),
      options.matmul == autograd::Precision::kFloat32
          ? ""
          : " (and heed's in " + nn::enum_name(options.matmul) + ")");
  return report;
}

Report bench_generate(const BenchOptions& options) {
  Report report(kGenerationKeys);
  add_rows(report, options, "generate", measure_generation);
  return report;
}

}  // namespace heed
