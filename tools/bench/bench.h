// The program heed-bench: measures the speed of matrix products, training steps and generation on
// this machine. Matrix products are compared with a reference before they are timed, and training
// steps must reduce the loss. Times that are compared are measured alternately, within one
// run of the program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/heed/command_line/command.h"
#include "tools/heed/report/out.h"

namespace heed {

/// Returns the command of the program.
Commands bench_program();

/// Options of heed-bench.
struct BenchOptions {
  std::string what;          ///< the mode: gemm, train or generate
  std::string preset;        ///< model of train and generate; empty: each of bench_presets()
  std::vector<int> threads;  ///< thread counts to measure
};

Out bench_gemm(const BenchOptions& options);
Out bench_train(const BenchOptions& options);
Out bench_generate(const BenchOptions& options);

/// Returns how often operator new was called in this program so far, on all threads. In a build
/// with a sanitizer, calls are not counted and the result is 0.
std::uint64_t allocations();

}  // namespace heed
