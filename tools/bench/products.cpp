#include "tools/bench/products.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <initializer_list>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/parallel.h"
#include "autograd/kernels/kernels.h"
#include "autograd/kernels/simd/scratch.h"

namespace heed {
namespace {

namespace kernels = autograd::kernels;

// Opens the first library that exists. By default, the threads of these libraries spin for up to
// 200 ms after a product, and would occupy cores that the next product needs (heed's threads spin
// for 0.5 ms). The environment variables shorten the spinning. A library reads them when it is
// loaded. Values that the user has set are kept.
void* open_first(std::initializer_list<const char*> names) {
  setenv("GOMP_SPINCOUNT", "20000", 0);
  setenv("KMP_BLOCKTIME", "1", 0);
  setenv("OPENBLAS_THREAD_TIMEOUT", "20", 0);
  for (const char* name : names)
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

template <class F>
F* function(void* library, const char* name) {
  return library ? reinterpret_cast<F*>(dlsym(library, name)) : nullptr;
}

// Throws IoError if the system cannot start n more threads.
void require_threads(int n) {
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  std::vector<std::jthread> threads;
  try {
    while (std::ssize(threads) < n) threads.emplace_back([ended] { ended.wait(); });
  } catch (const std::system_error& e) {
    end.set_value();
    fail<autograd::IoError>("bench", "the system can start only ", threads.size(), " of ", n,
                            " threads for a library of matrix products (", e.what(),
                            "); lower `threads`, or raise the limit of processes (ulimit -u)");
  }
  end.set_value();
}

// Returns a function that sets the number of threads of a library. It throws IoError if they cannot
// be started, because the library itself would end the process.
std::function<void(int)> thread_setter(void* library, const char* name) {
  auto* set = function<void(int)>(library, name);
  return [set, started = 1](int n) mutable {
    if (!set) return;
    if (n > started) require_threads(n - 1);
    started = std::max(started, n);
    set(n);
  };
}

// Loads a CBLAS library. The CBLAS constants are 101 = row-major, 111 = no transposition, 112 =
// transposition.
std::optional<ProductLibrary> load_cblas(const char* name, std::initializer_list<const char*> files,
                                         const char* set_threads) {
  using Sgemm = void(int, int, int, int, int, int, float, const float*, int, const float*, int,
                     float, float*, int);
  void* library = open_first(files);
  auto* sgemm = function<Sgemm>(library, "cblas_sgemm");
  if (!sgemm) return std::nullopt;
  return ProductLibrary{name,
                        [sgemm](const ProductShape& p, const float* a, const float* b, float* c) {
                          sgemm(101, p.trans_a ? 112 : 111, p.trans_b ? 112 : 111, int(p.m),
                                int(p.n), int(p.k), 1.0f, a, int(p.trans_a ? p.m : p.k), b,
                                int(p.trans_b ? p.k : p.n), 0.0f, c, int(p.n));
                        },
                        thread_setter(library, set_threads)};
}

std::optional<ProductLibrary> load_onednn() {
  // dnnl_sgemm uses row-major matrices, 'N' or 'T' for transposition, and returns 0 on success.
  using Sgemm = int(char, char, Index, Index, Index, float, const float*, Index, const float*,
                    Index, float, float*, Index);
  void* library = open_first({"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"});
  auto* sgemm = function<Sgemm>(library, "dnnl_sgemm");
  if (!sgemm) return std::nullopt;
  // Debian's build uses OpenMP, so the number of threads is set in the OpenMP runtime.
  return ProductLibrary{
      "oneDNN",
      [sgemm](const ProductShape& p, const float* a, const float* b, float* c) {
        sgemm(p.trans_a ? 'T' : 'N', p.trans_b ? 'T' : 'N', p.m, p.n, p.k, 1.0f, a,
              p.trans_a ? p.m : p.k, b, p.trans_b ? p.k : p.n, 0.0f, c, p.n);
      },
      thread_setter(open_first({"libgomp.so.1", "libomp.so.5"}), "omp_set_num_threads")};
}

std::vector<ProductLibrary> heed_and(std::initializer_list<std::optional<ProductLibrary>> others) {
  std::vector<ProductLibrary> list = {{"heed",
                                       [](const ProductShape& p, const float* a, const float* b,
                                          float* c) { kernels::gemm(gemm_of(p, a, b, c)); },
                                       autograd::set_num_threads}};
  for (const std::optional<ProductLibrary>& library : others)
    if (library) list.push_back(*library);
  return list;
}

}  // namespace

kernels::Gemm<float> gemm_of(const ProductShape& p, const float* a, const float* b, float* c) {
  kernels::Gemm<float> g;
  g.m = p.m, g.n = p.n, g.k = p.k;
  g.a = a, g.a_row = p.trans_a ? 1 : p.k, g.a_col = p.trans_a ? p.m : 1;
  g.b = b, g.b_row = p.trans_b ? 1 : p.n, g.b_col = p.trans_b ? p.k : 1;
  g.c = c, g.c_row = p.n, g.c_col = 1;
  return g;
}

std::vector<ModelProduct> forward_products(const lab::RunConfig& config, Index vocabulary,
                                           Index sequences, Index queries) {
  const Index layers = config.model.layers, context = config.model.context;
  const Index d = config.model.attention.d_model, heads = config.model.attention.heads,
              h = d / heads, rows = sequences * queries,
              half = (layers * sequences * heads + 1) / 2;
  std::vector<ModelProduct> list;
  for (const auto& [out, in] : {std::pair{3 * d, d}, {d, d}, {4 * d, d}, {d, 4 * d}})
    list.push_back({{rows, out, in, false, true}, layers});           // y = x W^T
  list.push_back({{rows, vocabulary, d, false, true}, 1});            // logits
  list.push_back({{queries, context, h, false, true}, half, true});   // scores S = q k^T
  list.push_back({{queries, h, context, false, false}, half, true});  // output O = softmax(S) v
  return list;
}

std::vector<ModelProduct> training_products(const lab::RunConfig& config, Index vocabulary,
                                            Index sequences) {
  std::vector<ModelProduct> list;
  for (const auto& [c, count, attention] :
       forward_products(config, vocabulary, sequences, config.model.context)) {
    // If c = a b, then da = dc b^T and db = a^T dc. If c = a b^T, then da = dc b and db = dc^T a.
    const ProductShape da{c.m, c.k, c.n, false, !c.trans_b},
        db{c.trans_b ? c.n : c.k, c.trans_b ? c.k : c.n, c.m, true, false};
    for (const ProductShape& shape : {c, da, db}) list.push_back({shape, count, attention});
  }
  return list;
}

std::function<void()> products_alone(const std::vector<ModelProduct>& list, Index shards) {
  Index size = 0;
  for (const auto& [p, count, attention] : list) size = std::max({size, p.m * p.k, p.k * p.n});
  const std::vector<float> a(std::size_t(size), 1), b(a);
  return [=] {
    autograd::parallel_for(shards, 1, [&](Index, Index) {
      for (const ModelProduct& p : list) {
        const Index threads = p.attention ? autograd::num_threads() : 1;
        autograd::parallel_for(p.count, (p.count + threads - 1) / threads, [&](Index i, Index end) {
          const kernels::Scratch<float> c(p.shape.m * p.shape.n);
          for (; i < end; ++i) kernels::gemm(gemm_of(p.shape, a.data(), b.data(), c.get()));
        });
      }
    });
  };
}

std::vector<ProductLibrary> load_product_libraries() {
  return heed_and(
      {load_onednn(),
       load_cblas("OpenBLAS", {"libopenblas.so.0", "libopenblas.so"}, "openblas_set_num_threads"),
       load_cblas("MKL", {"libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so"},
                  "MKL_Set_Num_Threads")});
}

std::vector<ProductLibrary> load_peak_libraries() { return heed_and({load_onednn()}); }

}  // namespace heed
