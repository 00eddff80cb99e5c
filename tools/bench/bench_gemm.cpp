// `heed-bench gemm`: compares heed's matrix product with other libraries, on every product in a
// training step of the four presets and on square matrices.
#include <algorithm>
#include <cmath>
#include <random>

#include "autograd/kernels/kernels.h"
#include "autograd/kernels/simd/scratch.h"
#include "nn/lab/train/config.h"
#include "tools/bench/bench.h"
#include "tools/bench/products.h"
#include "tools/bench/turns.h"
#include "tools/bench/workloads.h"
#include "tools/heed/report/progress.h"

namespace heed {
namespace {

namespace kernels = autograd::kernels;

std::vector<ProductShape> products() {
  std::vector<ProductShape> list;
  const auto add = [&](const ProductShape& p) {
    if (std::find(list.begin(), list.end(), p) == list.end()) list.push_back(p);
  };
  for (const std::string& name : bench_presets()) {
    const lab::RunConfig config = lab::preset(name);
    for (const ModelProduct& p : training_products(config, bench_vocabulary(name), config.batch))
      add(p.shape);
  }
  for (const auto& [m, n, k] : std::initializer_list<std::tuple<int, int, int>>{
           {32, 32, 16}, {64, 64, 64}, {256, 256, 256}, {1024, 1024, 1024}, {2048, 2048, 2048}})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) add({m, n, k, ta, tb});
  return list;
}

// Returns true if four rows of c (the first, one at a third, the middle one, the last) equal the
// rows of the reference kernel up to rounding.
bool agrees(const ProductShape& p, const float* a, const float* b, const float* c) {
  std::vector<float> row(std::size_t(p.n));
  for (const Index i : {Index{0}, p.m / 3, p.m / 2, p.m - 1}) {
    kernels::Gemm<float> g = gemm_of(p, a, b, row.data());
    g.m = 1;
    g.a += i * g.a_row;
    kernels::reference::gemm(g);
    for (Index j = 0; j < p.n; ++j) {
      const float got = c[i * p.n + j];
      // The entries of a and b are drawn from N(0, 1). The tolerance is a few times the rounding
      // errors of two sums of k terms.
      if (!(std::abs(got - row[std::size_t(j)]) <= 2e-6f * float(p.k))) return false;
    }
  }
  return true;
}

struct ProductRow {
  Value json;
  Cells cells;
  double ratio;  // heed's speed relative to the fastest other library; NaN if there is none
};

ProductRow measure_product(const ProductShape& p, int threads,
                           const std::vector<ProductLibrary>& libraries) {
  constexpr Index kPage = 4096 / sizeof(float);  // values in a page of memory
  const kernels::Scratch<float> a(p.m * p.k + kPage), b(p.k * p.n + kPage), c(p.m * p.n + kPage);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::generate_n(a.get(), p.m * p.k + kPage, [&] { return normal(random); });
  std::generate_n(b.get(), p.k * p.n + kPage, [&] { return normal(random); });
  // Speed depends on where A, B and C are relative to cache lines and pages. Each turn therefore
  // has other addresses: multiples of 64 bytes, like those of tensors, in even turns, and multiples
  // of 16 bytes, like those of malloc(), in odd turns. All libraries have the same addresses.
  Index at[3];
  const auto place = [&](int turn) {
    const Index unit = turn % 2 == 0 ? 16 : 4;
    for (Index& i : at) i = Index(random()) % (kPage / unit) * unit;
  };
  const auto multiply = [&](const ProductLibrary& library) {
    library.multiply(p, a.get() + at[0], b.get() + at[1], c.get() + at[2]);
  };
  place(1);
  multiply(libraries[0]);
  if (!agrees(p, a.get() + at[0], b.get() + at[1], c.get() + at[2]))
    throw std::logic_error(fmt::format("bench: the {} x {} x {} product is wrong", p.m, p.n, p.k));
  std::vector<std::function<void()>> calls;
  for (const ProductLibrary& library : libraries) calls.emplace_back([&] { multiply(library); });
  const auto times = seconds_by_turn(calls, 11, 2e-3, place);
  const auto gflops = [&](std::size_t i) { return p.flop() / median(times[i]) / 1e9; };
  double ratio = NAN;
  const std::string forms = fmt::format("{}{}", p.trans_a ? 'T' : 'N', p.trans_b ? 'T' : 'N');
  Value of_others = Value::object();
  Cells cells;
  for (const auto& [name, key] : {std::pair{"oneDNN", "reference"},
                                  std::pair{"OpenBLAS", "openblas"}, std::pair{"MKL", "mkl"}}) {
    const auto found = std::ranges::find(libraries, name, &ProductLibrary::name);
    const auto i = std::size_t(found - libraries.begin());
    const bool is_there = found != libraries.end();
    const double speed = is_there ? gflops(i) : NAN,
                 to_this = is_there ? median_ratio(times[i], times[0]) : NAN;
    ratio = std::fmin(ratio, to_this);  // fmin ignores NaN
    of_others.append(key + std::string("_gflops"), speed);
    of_others.append(key + std::string("_ratio"), to_this);
    cells.push_back(number_text("{:.1f}", speed));
  }
  cells.insert(cells.begin(), {std::to_string(p.m), std::to_string(p.n), std::to_string(p.k), forms,
                               std::to_string(threads), fmt::format("{:.1f}", gflops(0)),
                               number_text("{:.2f}", ratio)});
  Value json = Value::object({{"m", p.m},
                              {"n", p.n},
                              {"k", p.k},
                              {"trans_a", p.trans_a},
                              {"trans_b", p.trans_b},
                              {"threads", threads},
                              {"gflops", gflops(0)},
                              {"ratio", ratio}});
  json.update(of_others);
  return {std::move(json), std::move(cells), ratio};
}

std::string mean_text(int threads, const std::vector<double>& ratios) {
  double logs = 0;
  for (const double ratio : ratios) logs += std::log(std::min(ratio, 1.0));
  return fmt::format(
      "{}: geometric mean of min(ratio, 1) {:.3f}, smallest ratio {:.2f}, {} products\n",
      counted(threads, "thread"), std::exp(logs / double(ratios.size())), std::ranges::min(ratios),
      ratios.size());
}

}  // namespace

Out bench_gemm(const BenchOptions& options) {
  const std::vector<ProductLibrary> libraries = load_product_libraries();
  const std::vector<ProductShape> list = products();
  Value rows = Value::array();
  std::vector<Cells> table;
  std::string means;
  Progress progress(false);
  for (const int threads : options.threads) {
    for (const ProductLibrary& library : libraries) library.set_threads(threads);
    std::vector<double> ratios;
    for (const ProductShape& p : list) {
      progress.at_work(fmt::format("Timing products: {} of {}", table.size() + 1,
                                   list.size() * options.threads.size()));
      ProductRow row = measure_product(p, threads, libraries);
      rows.push_back(row.json);
      table.push_back(std::move(row.cells));
      ratios.push_back(row.ratio);
    }
    if (libraries.size() > 1) means += mean_text(threads, ratios);
  }
  if (libraries.size() == 1)
    means =
        "Ratios are missing, because neither oneDNN (Debian: libdnnl2 or libdnnl3) nor OpenBLAS "
        "nor MKL is installed.";
  Out out;
  out.set("rows", rows);
  out.text("float32, GFLOP/s; ratio = speed of heed / speed of the fastest other library");
  out.table({"m", "n", "k", "T/N", "threads", "heed", "ratio", "oneDNN", "OpenBLAS", "MKL"}, table);
  out.text("\n{}", means);
  return out;
}

}  // namespace heed
