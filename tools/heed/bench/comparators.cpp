#include "tools/heed/bench/comparators.h"

#include <dlfcn.h>

#include <cstdlib>
#include <initializer_list>
#include <utility>

namespace heed {
namespace {

void* open_first(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

template <class F>
F* function(void* library, const char* name) {
  return library ? reinterpret_cast<F*>(dlsym(library, name)) : nullptr;
}

using SetThreads = void(int);

std::function<void(int)> thread_setter(void* library, const char* name) {
  auto* set = function<SetThreads>(library, name);
  return [set](int n) {
    if (set) set(n);
  };
}

// By themselves their threads spin for up to 200 ms after a product, on cores that the next one to
// be timed needs; ours do for half a millisecond. Read when a library is loaded; what the user has
// set stands.
void spin_as_briefly_as_ours() {
  setenv("GOMP_SPINCOUNT", "20000", 0);
  setenv("KMP_BLOCKTIME", "1", 0);
  setenv("OPENBLAS_THREAD_TIMEOUT", "20", 0);
}

// CBLAS: row-major is 101, no transposition 111, transposition 112.
std::optional<Comparator> load_cblas(const char* name, std::initializer_list<const char*> files,
                                     const char* set_threads) {
  using Sgemm = void(int, int, int, int, int, int, float, const float*, int, const float*, int,
                     float, float*, int);
  spin_as_briefly_as_ours();
  void* library = open_first(files);
  auto* sgemm = function<Sgemm>(library, "cblas_sgemm");
  if (!sgemm) return std::nullopt;
  return Comparator{name,
                    [sgemm](bool trans_a, bool trans_b, auto m, auto n, auto k, const float* a,
                            const float* b, float* c) {
                      sgemm(101, trans_a ? 112 : 111, trans_b ? 112 : 111, int(m), int(n), int(k),
                            1.0f, a, int(trans_a ? m : k), b, int(trans_b ? k : n), 0.0f, c,
                            int(n));
                    },
                    thread_setter(library, set_threads)};
}

}  // namespace

std::optional<Comparator> load_onednn() {
  // Its C interface: row-major, 'N' or 'T', 0 for success.
  using Sgemm = int(char, char, std::int64_t, std::int64_t, std::int64_t, float, const float*,
                    std::int64_t, const float*, std::int64_t, float, float*, std::int64_t);
  spin_as_briefly_as_ours();
  void* library = open_first({"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"});
  auto* sgemm = function<Sgemm>(library, "dnnl_sgemm");
  if (!sgemm) return std::nullopt;
  // Debian's build runs on OpenMP, whose runtime counts the threads.
  return Comparator{
      "oneDNN",
      [sgemm](bool trans_a, bool trans_b, auto m, auto n, auto k, const float* a, const float* b,
              float* c) {
        sgemm(trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', m, n, k, 1.0f, a, trans_a ? m : k, b,
              trans_b ? k : n, 0.0f, c, n);
      },
      thread_setter(open_first({"libgomp.so.1", "libomp.so.5"}), "omp_set_num_threads")};
}

std::vector<Comparator> load_comparators() {
  std::vector<Comparator> list;
  for (const std::optional<Comparator>& library :
       {load_onednn(),
        load_cblas("OpenBLAS", {"libopenblas.so.0", "libopenblas.so"}, "openblas_set_num_threads"),
        load_cblas("MKL", {"libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so"},
                   "MKL_Set_Num_Threads")})
    if (library) list.push_back(*library);
  return list;
}

}  // namespace heed
