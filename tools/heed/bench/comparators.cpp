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

// oneDNN's C interface: row-major, 'N' or 'T', 0 for success.
using DnnlSgemm = int(char, char, std::int64_t, std::int64_t, std::int64_t, float, const float*,
                      std::int64_t, const float*, std::int64_t, float, float*, std::int64_t);
using SetThreads = void(int);

class OneDnn final : public Comparator {
 public:
  OneDnn(DnnlSgemm* product, SetThreads* threads) : sgemm_(product), threads_(threads) {}
  std::string name() const override { return "oneDNN"; }
  void sgemm(bool trans_a, bool trans_b, std::int64_t m, std::int64_t n, std::int64_t k,
             const float* a, const float* b, float* c) const override {
    sgemm_(trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', m, n, k, 1.0f, a, trans_a ? m : k, b,
           trans_b ? k : n, 0.0f, c, n);
  }
  void set_threads(int n) const override {
    if (threads_) threads_(n);
  }

 private:
  DnnlSgemm* sgemm_;
  SetThreads* threads_;
};

// CBLAS: row-major is 101, no transposition 111, transposition 112.
using CblasSgemm = void(int, int, int, int, int, int, float, const float*, int, const float*, int,
                        float, float*, int);

class Cblas final : public Comparator {
 public:
  Cblas(std::string name, CblasSgemm* product, SetThreads* threads)
      : name_(std::move(name)), sgemm_(product), threads_(threads) {}
  std::string name() const override { return name_; }
  void sgemm(bool trans_a, bool trans_b, std::int64_t m, std::int64_t n, std::int64_t k,
             const float* a, const float* b, float* c) const override {
    sgemm_(101, trans_a ? 112 : 111, trans_b ? 112 : 111, int(m), int(n), int(k), 1.0f, a,
           int(trans_a ? m : k), b, int(trans_b ? k : n), 0.0f, c, int(n));
  }
  void set_threads(int n) const override {
    if (threads_) threads_(n);
  }

 private:
  std::string name_;
  CblasSgemm* sgemm_;
  SetThreads* threads_;
};

// By themselves their threads spin for up to 200 ms after a product, on cores that the next one to
// be timed needs; ours do for half a millisecond. Read when a library is loaded; what the user has
// set stands.
void spin_as_briefly_as_ours() {
  setenv("GOMP_SPINCOUNT", "20000", 0);
  setenv("KMP_BLOCKTIME", "1", 0);
  setenv("OPENBLAS_THREAD_TIMEOUT", "20", 0);
}

std::unique_ptr<Comparator> load_cblas(const char* name, std::initializer_list<const char*> files,
                                       const char* set_threads) {
  spin_as_briefly_as_ours();
  void* library = open_first(files);
  auto* sgemm = function<CblasSgemm>(library, "cblas_sgemm");
  if (!sgemm) return nullptr;
  return std::make_unique<Cblas>(name, sgemm, function<SetThreads>(library, set_threads));
}

}  // namespace

std::unique_ptr<Comparator> load_onednn() {
  spin_as_briefly_as_ours();
  void* library = open_first({"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"});
  auto* sgemm = function<DnnlSgemm>(library, "dnnl_sgemm");
  if (!sgemm) return nullptr;
  // Debian's build runs on OpenMP, whose runtime counts the threads.
  return std::make_unique<OneDnn>(
      sgemm,
      function<SetThreads>(open_first({"libgomp.so.1", "libomp.so.5"}), "omp_set_num_threads"));
}

std::vector<std::unique_ptr<Comparator>> load_comparators() {
  std::vector<std::unique_ptr<Comparator>> list;
  list.push_back(load_onednn());
  list.push_back(
      load_cblas("OpenBLAS", {"libopenblas.so.0", "libopenblas.so"}, "openblas_set_num_threads"));
  list.push_back(load_cblas("MKL", {"libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so"},
                            "MKL_Set_Num_Threads"));
  std::erase(list, nullptr);
  return list;
}

}  // namespace heed
