// Matrix products of other libraries, to measure ours against. They are never linked: what the
// system's loader finds is used, what it does not find is left out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace heed {

/// A library's single-precision product of row-major matrices.
struct Comparator {
  std::string name;
  /// c [m, n] = a b, with a [m, k] (or [k, m] where trans_a) and b [k, n] (or [n, k]).
  std::function<void(bool trans_a, bool trans_b, std::int64_t m, std::int64_t n, std::int64_t k,
                     const float* a, const float* b, float* c)>
      sgemm;
  std::function<void(int)> set_threads;
};

/// oneDNN's, or nothing where libdnnl is not installed.
std::optional<Comparator> load_onednn();
/// Those that are there, in this order: oneDNN, OpenBLAS, MKL.
std::vector<Comparator> load_comparators();

}  // namespace heed
