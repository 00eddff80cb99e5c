// heed bench gemm: our matrix product beside other libraries', on every product that a training
// step of the four presets makes, and on squares.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "autograd/base/parallel.h"
#include "autograd/kernels/kernels.h"
#include "nn/train/config.h"
#include "tools/heed/bench/bench.h"
#include "tools/heed/bench/comparators.h"
#include "tools/heed/bench/presets.h"
#include "tools/heed/bench/turns.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"

namespace heed {
namespace {

namespace kernels = autograd::kernels;

struct Product {
  std::int64_t m, n, k;
  bool trans_a, trans_b;
  bool operator==(const Product&) const = default;
  double flop() const { return 2.0 * double(m) * double(n * k); }
};

std::vector<Product> products() {
  std::vector<Product> list;
  const auto add = [&](const Product& p) {
    if (std::find(list.begin(), list.end(), p) == list.end()) list.push_back(p);
  };
  for (const std::string& name : bench_presets()) {
    const nn::RunConfig p = nn::preset(name);
    const std::int64_t rows = p.batch * p.model.context, d = p.model.attention.d_model,
                       t = p.model.context, h = d / p.model.attention.heads;
    for (const auto& [out, in] :
         {std::pair{3 * d, d}, {d, d}, {4 * d, d}, {d, 4 * d}, {bench_vocabulary(name), d}}) {
      add({rows, out, in, false, true});   // y = x W^T
      add({rows, in, out, false, false});  // dx = dy W
      add({out, in, rows, true, false});   // dW = dy^T x
    }
    add({t, t, h, false, true});   // scores = q k^T, and dP = dO v^T
    add({t, h, t, false, false});  // out = P v, and dq = dS k
    add({t, h, t, true, false});   // dv = P^T dO, and dk = dS^T q
  }
  for (const auto& [m, n, k] : std::initializer_list<std::tuple<int, int, int>>{
           {32, 32, 16}, {64, 64, 64}, {256, 256, 256}, {1024, 1024, 1024}, {2048, 2048, 2048}})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) add({m, n, k, ta, tb});
  return list;
}

kernels::Gemm<float> arguments(const Product& p, const float* a, const float* b, float* c) {
  kernels::Gemm<float> g;
  g.m = p.m, g.n = p.n, g.k = p.k;
  g.a = a, g.a_row = p.trans_a ? 1 : p.k, g.a_col = p.trans_a ? p.m : 1;
  g.b = b, g.b_row = p.trans_b ? 1 : p.n, g.b_col = p.trans_b ? p.k : 1;
  g.c = c, g.c_row = p.n, g.c_col = 1;
  return g;
}

// Rows at the start, in the middle and at the end, whole, against the plain loops.
bool agrees(const Product& p, const std::vector<float>& a, const std::vector<float>& b,
            const std::vector<float>& c) {
  std::vector<float> row(std::size_t(p.n));
  for (const std::int64_t i : {std::int64_t{0}, p.m / 3, p.m / 2, p.m - 1}) {
    kernels::Gemm<float> g = arguments(p, a.data(), b.data(), row.data());
    g.m = 1;
    g.a += i * g.a_row;
    kernels::reference::gemm(g);
    for (std::int64_t j = 0; j < p.n; ++j) {
      const float got = c[std::size_t(i * p.n + j)];
      // Entries are N(0, 1): two sums of k roundings each, with room.
      if (!(std::abs(got - row[std::size_t(j)]) <= 2e-6f * float(p.k))) return false;
    }
  }
  return true;
}

struct ProductRow {
  Product product;
  int threads;
  double gflops;
  std::vector<double> others;  // GFLOP/s of each library
  std::vector<double> ratios;  // ours to each, of the same turns
  // To the fastest of them, the smallest; NaN without any: fmin takes what is no NaN.
  double ratio() const {
    return std::accumulate(ratios.begin(), ratios.end(), double(NAN),
                           [](double a, double b) { return std::fmin(a, b); });
  }
};

using Libraries = std::vector<Comparator>;

ProductRow measure_product(const Product& p, int threads, const Libraries& libraries) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> a(std::size_t(p.m * p.k)), b(std::size_t(p.k * p.n)),
      c(std::size_t(p.m * p.n));
  for (float& x : a) x = normal(random);
  for (float& x : b) x = normal(random);
  const kernels::Gemm<float> g = arguments(p, a.data(), b.data(), c.data());
  kernels::gemm(g);
  if (!agrees(p, a, b, c))
    throw std::logic_error(fmt::format("bench: the {} x {} x {} product is wrong", p.m, p.n, p.k));
  std::vector<std::function<void()>> run = {[&] { kernels::gemm(g); }};
  for (const auto& library : libraries)
    run.emplace_back(
        [&] { library.sgemm(p.trans_a, p.trans_b, p.m, p.n, p.k, a.data(), b.data(), c.data()); });
  const auto times = seconds_by_turn(run);
  ProductRow row{p, threads, p.flop() / median(times[0]) / 1e9, {}, {}};
  for (std::size_t i = 1; i < times.size(); ++i) {
    row.others.push_back(p.flop() / median(times[i]) / 1e9);
    row.ratios.push_back(median_ratio(times[i], times[0]));
  }
  return row;
}

// The columns of a library, or nothing where it is not installed.
std::vector<Value> cells_of(const std::string& name, const ProductRow& r,
                            const Libraries& libraries) {
  for (std::size_t i = 0; i < libraries.size(); ++i)
    if (libraries[i].name == name) return {r.others[i], r.ratios[i]};
  return {nullptr, nullptr};
}

void add_rows(Report& report, const std::vector<ProductRow>& rows, const Libraries& libraries) {
  Table& table = report.table("rows");
  table.title = "float32, GFLOP/s; ratio: to the fastest library";
  for (const ProductRow& r : rows) {
    const Product& p = r.product;
    const std::string forms = fmt::format("{}{}", p.trans_a ? 'T' : 'N', p.trans_b ? 'T' : 'N');
    std::vector<Value> cells = {p.m,   p.n,       p.k,      p.trans_a, p.trans_b,
                                forms, r.threads, r.gflops, r.ratio()};
    for (const char* name : {"oneDNN", "OpenBLAS", "MKL"})
      for (const Value& cell : cells_of(name, r, libraries)) cells.push_back(cell);
    table.add(std::move(cells));
  }
}

void add_means(Report& report, const std::vector<ProductRow>& rows, const Libraries& libraries) {
  if (libraries.empty())
    return report.line(
        "Found neither oneDNN (Debian: libdnnl2 or libdnnl3), OpenBLAS nor MKL: no ratios");
  std::map<int, std::vector<double>> ratios;  // by threads
  for (const ProductRow& r : rows) ratios[r.threads].push_back(r.ratio());
  for (const auto& [threads, list] : ratios) {
    double logs = 0;
    for (const double ratio : list) logs += std::log(std::min(ratio, 1.0));
    report.line(
        "{} thread{}: geometric mean of min(ratio, 1) {:.3f}, smallest ratio {:.2f}, {} products",
        threads, threads == 1 ? "" : "s", std::exp(logs / double(list.size())),
        *std::min_element(list.begin(), list.end()), list.size());
  }
}

}  // namespace

Report bench_gemm(const BenchOptions& options) {
  const Libraries libraries = load_comparators();
  const std::vector<Product> list = products();
  std::vector<ProductRow> rows;
  Progress progress(false);
  for (const int threads : options.threads) {
    autograd::set_num_threads(threads);
    for (const auto& library : libraries) library.set_threads(threads);
    for (const Product& p : list) {
      progress.at_work(fmt::format("bench gemm: {} of {} products", rows.size() + 1,
                                   list.size() * options.threads.size()));
      rows.push_back(measure_product(p, threads, libraries));
    }
  }
  progress.clear();
  Report report(kGemmKeys);
  add_rows(report, rows, libraries);
  add_means(report, rows, libraries);
  return report;
}

}  // namespace heed
