// heed bench: how fast kernels, ops and training steps are here. Products, and the forward of ops,
// are compared with their references before they are timed, and training steps must learn; figures
// to compare are measured alternately in one run.
#pragma once

#include <string>
#include <vector>

#include "autograd/ops/ops.h"

namespace heed {

struct BenchOptions {
  std::string preset;        ///< of train and generate; empty: all four
  std::vector<int> threads;  ///< thread counts to measure at
  bool json = false;
  autograd::Precision matmul = autograd::Precision::kFloat32;  ///< of train
};

// Each prints a table, or with json one object, and returns an exit code.
int bench_gemm(const BenchOptions& options);
int bench_ops(const BenchOptions& options);
int bench_train(const BenchOptions& options);
int bench_generate(const BenchOptions& options);

}  // namespace heed
