// Matrix products of other libraries, to measure ours against. They are never linked: what the
// system's loader finds is used, what it does not find is left out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace heed {

/// A library's single-precision product of row-major matrices.
class Comparator {
 public:
  virtual ~Comparator() = default;
  virtual std::string name() const = 0;
  /// c [m, n] = a b, with a [m, k] (or [k, m] where trans_a) and b [k, n] (or [n, k]).
  virtual void sgemm(bool trans_a, bool trans_b, std::int64_t m, std::int64_t n, std::int64_t k,
                     const float* a, const float* b, float* c) const = 0;
  virtual void set_threads(int n) const = 0;
};

/// oneDNN's, or null where libdnnl is not installed.
std::unique_ptr<Comparator> load_onednn();
/// Those that are there, in this order: oneDNN, OpenBLAS, MKL.
std::vector<std::unique_ptr<Comparator>> load_comparators();

}  // namespace heed
