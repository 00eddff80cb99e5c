// The program heed-bench: measures the speed of matrix products, training steps and generation on
// this machine. Matrix products are compared with a reference before they are timed, and training
// steps must reduce the loss. Times that are compared are measured alternately, within one
// run of the program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/heed/command_line/command.h"
#include "tools/heed/report/report.h"

namespace heed {

/// Returns the command of the program.
Commands bench_program();

/// Options of heed-bench.
struct BenchOptions {
  std::string what;          ///< the mode: gemm, train or generate
  std::string preset;        ///< model of train and generate; empty: each of bench_presets()
  std::vector<int> threads;  ///< thread counts to measure
};

Report bench_gemm(const BenchOptions& options);
Report bench_train(const BenchOptions& options);
Report bench_generate(const BenchOptions& options);

/// Returns how often operator new was called in this program so far, on all threads. In a build
/// with a sanitizer, calls are not counted and the result is 0.
std::uint64_t allocations();

// Keys of the reports that the functions above return.
inline constexpr Column kGemmColumns[] = {{"m", "m"},
                                          {"n", "n"},
                                          {"k", "k"},
                                          {"trans_a"},
                                          {"trans_b"},
                                          {"", "T/N"},
                                          {"threads", "threads"},
                                          {"gflops", "heed", "", "{:.1f}"},
                                          {"ratio", "ratio", "", "{:.2f}"},
                                          {"reference_gflops", "oneDNN", "", "{:.1f}"},
                                          {"reference_ratio"},
                                          {"openblas_gflops", "OpenBLAS", "", "{:.1f}"},
                                          {"openblas_ratio"},
                                          {"mkl_gflops", "MKL", "", "{:.1f}"},
                                          {"mkl_ratio"}};
inline constexpr Column kGemmKeys[] = {rows("rows", kGemmColumns)};

inline constexpr Column kTrainStepColumns[] = {
    {"preset", "preset"},
    {"threads", "threads"},
    {"ms_per_step", "ms/step", "", "{:.3f}"},
    {"products_ms", "products", "", "{:.3f}"},
    {"traffic_ms", "traffic", "", "{:.3f}"},
    {"over_bound", "x bound", "", "{:.2f}"},
    {"pool_jobs_per_step", "jobs"},
    {"traffic_bytes"},
    {"tokens_per_s", "tokens/s", "", "commas", 1},
    {"mfu", "MFU", "", "percent"},
    {"peak_bytes", "peak", "", "bytes"},
    {"mallocs_per_step", "mallocs/step", "", "{:.1f}", 2},
    {"peak_gflops"},
    {"peak_of"}};
inline constexpr Column kBenchTrainKeys[] = {rows("rows", kTrainStepColumns)};

inline constexpr Column kGenerationColumns[] = {{"preset", "preset"},
                                                {"threads", "threads"},
                                                {"tokens_per_s", "tokens/s", "", "commas"},
                                                {"us_per_token", "us/token", "", "{:.1f}"},
                                                {"products_us", "products", "", "{:.1f}"},
                                                {"read_us", "read", "", "{:.1f}"},
                                                {"over_bound", "x bound", "", "{:.2f}"},
                                                {"pool_jobs_per_token", "jobs", "", "{:.1f}"},
                                                {"weight_bytes", "weights", "", "bytes"},
                                                {"gb_per_s", "GB/s", "", "{:.2f}", 1},
                                                {"read_share"}};
inline constexpr Column kGenerationKeys[] = {rows("rows", kGenerationColumns)};

}  // namespace heed
