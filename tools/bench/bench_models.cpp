// `heed-bench train`: time and memory of a training step, and its speed relative to the machine's
// peak. `heed-bench generate`: tokens per second of one sequence. Both compare a time with two
// lower bounds: that of the matrix products alone, and that of the memory traffic alone.
#include "autograd/base/parallel.h"
#include "autograd/base/pool.h"
#include "autograd/kernels/simd/elementwise.h"
#include "autograd/kernels/simd/simd.h"
#include "tools/bench/bench.h"
#include "tools/bench/products.h"
#include "tools/bench/turns.h"
#include "tools/bench/workloads.h"
#include "tools/heed/report/progress.h"

namespace heed {
namespace {

constexpr const char* kBoundNote =
    "x bound: time / larger bound. jobs: work that the threads share; each job ends with a "
    "barrier.";

// A row of JSON and of the table.
struct Row {
  Value json;
  Cells cells;
};

// Sets the key "rows" and adds a table: measure(preset, threads) for each requested preset and
// number of threads.
template <class Measure>
void add_rows(Out& out, const BenchOptions& options, const char* what, const Cells& headings,
              Measure measure) {
  Value list = Value::array();
  std::vector<Cells> table;
  Progress progress(false);
  for (const std::string& preset : bench_presets()) {
    if (!options.preset.empty() && preset != options.preset) continue;
    for (const int threads : options.threads) {
      progress.at_work(fmt::format("Timing {}: {}, {} threads", what, preset, threads));
      autograd::set_num_threads(threads);
      Row row = measure(preset, threads);
      list.push_back(row.json);
      table.push_back(std::move(row.cells));
    }
  }
  out.set("rows", list);
  out.table(headings, table);
  out.gap();
}

// Returns the size of the square product that measures the peak speed. If there is no SIMD target,
// the reference kernels run, and they are too slow for 2048.
Index peak_size() { return autograd::kernels::simd_runs() ? 2048 : 256; }

// Returns a loop that moves `bytes` between memory and the cores. If `writes` is true, it writes a
// value for each two that it reads, and otherwise it only reads. It adds rows of the second half of
// the memory to rows of the first half, in place or into a row that stays in the L1 cache. (Rows
// next to each other, in one page, took twice as long on an AMD EPYC.)
std::function<void()> memory_loop(double bytes, int threads, bool writes) {
  constexpr Index kRow = 512;
  const auto half = Index(bytes / sizeof(float) / (writes ? 3 : 2));
  const auto memory = std::make_shared<std::vector<float>>(std::size_t(2 * half), 1.0f);
  return [=] {
    autograd::parallel_for(half, (half + threads - 1) / threads, [&](Index begin, Index end) {
      float sums[kRow];
      for (; begin < end; begin += kRow) {
        float* const x = memory->data() + begin;
        autograd::kernels::simd::add(writes ? x : sums, x, x + half, std::min(kRow, end - begin));
      }
    });
  };
}

// Returns times[0] divided by the larger of times[1] and times[2], as a median over the turns.
double over_bound(const std::vector<std::vector<double>>& times) {
  std::vector<double> bound = times[1];
  for (std::size_t t = 0; t < bound.size(); ++t) bound[t] = std::max(bound[t], times[2][t]);
  return median_ratio(times[0], bound);
}

Row measure_training(const std::string& preset, int threads) {
  autograd::reset_peak_bytes();
  const lab::RunConfig config = lab::preset(preset);
  const Index vocabulary = bench_vocabulary(preset);
  TrainingStep step(config, vocabulary);
  const Index shards = step.shards();
  step(), step();
  const auto peak_bytes = double(autograd::pool_stats().peak_bytes), traffic = step.traffic_bytes();
  std::uint64_t allocated = 0, jobs = 0, steps = 0;
  std::vector<std::function<void()>> calls = {
      [&] {
        const std::uint64_t allocations_before = allocations(), before = autograd::pool_jobs();
        step();
        allocated += allocations() - allocations_before;
        jobs += autograd::pool_jobs() - before, ++steps;
      },
      products_alone(training_products(config, vocabulary, config.batch / shards), shards),
      memory_loop(traffic, threads, true)};
  const ProductShape peak{peak_size(), peak_size(), peak_size()};
  const std::vector<float> a(std::size_t(peak.m * peak.k), 1), b(a);
  std::vector<float> c(a);
  const std::vector<ProductLibrary> libraries = load_peak_libraries();
  for (const ProductLibrary& library : libraries) {
    library.set_threads(threads);
    calls.emplace_back([&] { library.multiply(peak, a.data(), b.data(), c.data()); });
  }
  const auto times = seconds_by_turn(calls, 7, 0.1);
  step.check_learned();
  std::vector<double> best = times[3];  // time of the fastest product in each turn
  std::size_t fastest = 3;              // index in `times` of the fastest product
  for (std::size_t i = 4; i < times.size(); ++i) {
    for (std::size_t t = 0; t < best.size(); ++t) best[t] = std::min(best[t], times[i][t]);
    if (median_ratio(times[i], times[fastest]) < 1) fastest = i;
  }
  const double seconds = median(times[0]), products = median(times[1]), memory = median(times[2]),
               bound = over_bound(times), jobs_per_step = double(jobs) / double(steps),
               mfu = step.flop() / peak.flop() * median_ratio(best, times[0]);
  return {Value::object({{"preset", preset},
                         {"threads", threads},
                         {"ms_per_step", seconds * 1e3},
                         {"products_ms", products * 1e3},
                         {"traffic_ms", memory * 1e3},
                         {"over_bound", bound},
                         {"pool_jobs_per_step", jobs_per_step},
                         {"traffic_bytes", traffic},
                         {"tokens_per_s", step.tokens() / seconds},
                         {"mfu", mfu},
                         {"peak_bytes", peak_bytes},
                         {"mallocs_per_step", double(allocated) / double(steps)},
                         {"peak_gflops", peak.flop() / median(best) / 1e9},
                         {"peak_of", libraries[fastest - 3].name}}),
          {preset, std::to_string(threads), fmt::format("{:.3f}", seconds * 1e3),
           fmt::format("{:.3f}", products * 1e3), fmt::format("{:.3f}", memory * 1e3),
           fmt::format("{:.2f}", bound), fmt::format("{:.4g}", jobs_per_step),
           fmt::format("{:.2f} %", 100 * mfu), bytes_text(peak_bytes)}};
}

Row measure_generation(const std::string& preset, int threads) {
  const lab::RunConfig config = lab::preset(preset);
  const Index vocabulary = bench_vocabulary(preset);
  Generation generate(config, vocabulary);
  const double weight_bytes = generate.weight_bytes(), tokens = generate.tokens();
  std::uint64_t jobs = 0, calls = 0;
  const auto times = seconds_by_turn({[&] {
                                        const std::uint64_t before = autograd::pool_jobs();
                                        generate();
                                        jobs += autograd::pool_jobs() - before, ++calls;
                                      },
                                      products_alone(forward_products(config, vocabulary, 1, 1), 1),
                                      memory_loop(weight_bytes, threads, false)},
                                     7, 0.05);
  const double seconds = median(times[0]) / tokens, products = median(times[1]),
               read = median(times[2]), bound = over_bound(times) / tokens,
               jobs_per_token = double(jobs) / double(calls) / tokens;
  return {Value::object({{"preset", preset},
                         {"threads", threads},
                         {"tokens_per_s", 1 / seconds},
                         {"us_per_token", seconds * 1e6},
                         {"products_us", products * 1e6},
                         {"read_us", read * 1e6},
                         {"over_bound", bound},
                         {"pool_jobs_per_token", jobs_per_token},
                         {"weight_bytes", weight_bytes},
                         {"gb_per_s", weight_bytes / seconds / 1e9},
                         {"read_share", tokens * median_ratio(times[2], times[0])}}),
          {preset, std::to_string(threads), with_commas(std::llround(1 / seconds)),
           fmt::format("{:.1f}", seconds * 1e6), fmt::format("{:.1f}", products * 1e6),
           fmt::format("{:.1f}", read * 1e6), fmt::format("{:.2f}", bound),
           fmt::format("{:.1f}", jobs_per_token), bytes_text(weight_bytes)}};
}

}  // namespace

Out bench_train(const BenchOptions& options) {
  Out out;
  add_rows(
      out, options, "train",
      {"preset", "threads", "ms/step", "products", "traffic", "x bound", "jobs", "MFU", "peak"},
      measure_training);
  out.text(
      "MFU = FLOP/s of the step / peak. FLOP per token: 6 x parameters of matrix products + 12 x "
      "layers x T x d-model. Peak: the faster of heed's and oneDNN's {}^3 products, measured on "
      "as many threads, alternately with the steps.",
      peak_size());
  out.text(
      "products, traffic: lower bounds of a step, in ms, measured like the peak. products: the "
      "matrix "
      "products of both passes alone; causal attention has half of its products. traffic: a loop "
      "that reads and writes as many bytes as weights (3 reads, 1 write), gradients (2, 1), each "
      "moment of AdamW (1, 1) and activations (1, 1). {}",
      kBoundNote);
  return out;
}

Out bench_generate(const BenchOptions& options) {
  Out out;
  add_rows(out, options, "generate",
           {"preset", "threads", "tokens/s", "us/token", "products", "read", "x bound", "jobs",
            "weights"},
           measure_generation);
  out.text(
      "products, read: lower bounds of a token, in us, measured alternately with the generation. "
      "products: its matrix products alone, with half a context. read: a loop that reads as many "
      "bytes as the weights have. {}",
      kBoundNote);
  return out;
}

}  // namespace heed
