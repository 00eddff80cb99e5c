// heed bench generate: a token of one sequence reads every weight once, so the limit is what memory
// or cache gives.
#include "autograd/base/parallel.h"
#include "autograd/kernels/kernels.h"
#include "tools/heed/bench/bench.h"
#include "tools/heed/bench/presets.h"
#include "tools/heed/bench/turns.h"
#include "tools/heed/bench/works.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

struct GenerationRow {
  std::string preset;
  int threads;
  double tokens_per_s, weight_bytes, gb_per_s, read_share;
};

// Reads memory on all threads.
class ReadOnlySum {
 public:
  explicit ReadOnlySum(double bytes) : x_(std::size_t(bytes) / sizeof(float) / kRow * kRow, 1.0f) {}
  double bytes() const { return double(x_.size() * sizeof(float)); }
  void operator()() const {
    const auto rows = std::int64_t(x_.size()) / kRow;
    autograd::parallel_for(rows, 256, [&](std::int64_t begin, std::int64_t end) {
      double sums[kRow] = {};
      autograd::kernels::add_columns(sums, x_.data() + begin * kRow, end - begin, kRow, kRow);
    });
  }

 private:
  static constexpr std::int64_t kRow = autograd::kernels::kColumnBlock;
  std::vector<float> x_;
};

GenerationRow measure_generation(const std::string& preset, int threads) {
  Generation generate(preset);
  const ReadOnlySum sum(generate.weight_bytes());
  const auto times = seconds_by_turn({[&] { generate(); }, sum}, 7, 0.05);
  const double seconds = median(times[0]), bytes = generate.tokens() * generate.weight_bytes();
  return {preset,
          threads,
          generate.tokens() / seconds,
          generate.weight_bytes(),
          bytes / seconds / 1e9,
          bytes / sum.bytes() * median_ratio(times[1], times[0])};
}

}  // namespace

int bench_generate(const BenchOptions& options) {
  nn::Json table = nn::Json::array();
  if (!options.json)
    print("{:<10} {:>7} {:>12} {:>11} {:>12}\n", "preset", "threads", "tokens/s", "weights",
          "GB/s of them");
  for_presets(options, "bench generate", measure_generation, [&](const GenerationRow& r) {
    table.push_back(nn::Json::object({{"preset", r.preset},
                                      {"threads", r.threads},
                                      {"tokens_per_s", r.tokens_per_s},
                                      {"weight_bytes", r.weight_bytes},
                                      {"gb_per_s", r.gb_per_s},
                                      {"read_share", r.read_share}}));
    if (!options.json)
      print("{:<10} {:>7} {:>12} {:>11} {:>12.2f}, {:.1f} % of a sum's\n", r.preset, r.threads,
            with_commas(std::int64_t(r.tokens_per_s)), bytes_text(r.weight_bytes), r.gb_per_s,
            r.read_share * 100);
  });
  if (options.json) print_json(nn::Json::object({{"rows", table}}));
  return kOk;
}

}  // namespace heed
