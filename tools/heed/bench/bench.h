// heed bench: how fast kernels, ops and training steps are here. A kernel is compared with its
// reference before it is timed; figures to compare are measured alternately in one run.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "autograd/ops/ops.h"

namespace heed {

struct BenchOptions {
  std::string preset;        ///< of train; empty: all four
  std::vector<int> threads;  ///< thread counts to measure at
  bool json = false;
  autograd::Precision matmul = autograd::Precision::kFloat32;  ///< of train
};

/// The presets that bench train can time.
std::vector<std::string> bench_presets();

// Each prints a table, or with json one object, and returns an exit code.
int bench_gemm(const BenchOptions& options);
int bench_ops(const BenchOptions& options);
int bench_train(const BenchOptions& options);

/// Median seconds of one call of each function. They take turns, so that what slows the machine
/// down meets all of them; a turn repeats its function for about `turn` seconds.
inline std::vector<double> median_seconds(const std::vector<std::function<void()>>& functions,
                                          int turns = 11, double turn = 2e-3) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](const std::function<void()>& f, std::int64_t repeats) {
    const auto start = Clock::now();
    for (std::int64_t i = 0; i < repeats; ++i) f();
    return std::chrono::duration<double>(Clock::now() - start).count() / double(repeats);
  };
  std::vector<std::int64_t> repeats;
  for (const auto& f : functions) {
    f();
    const double once = std::max(seconds(f, 1), 1e-9);
    repeats.push_back(std::clamp<std::int64_t>(std::int64_t(turn / once), 1, 1 << 22));
  }
  std::vector<std::vector<double>> times(functions.size());
  for (int t = 0; t < turns; ++t)
    for (std::size_t i = 0; i < functions.size(); ++i)
      times[i].push_back(seconds(functions[i], repeats[i]));
  std::vector<double> medians;
  for (auto& list : times) {
    std::nth_element(list.begin(), list.begin() + turns / 2, list.end());
    medians.push_back(list[std::size_t(turns / 2)]);
  }
  return medians;
}

}  // namespace heed
