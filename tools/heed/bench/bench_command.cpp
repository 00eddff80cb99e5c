// heed bench: speed, measured.
#include "autograd/base/parallel.h"
#include "nn/train/config.h"
#include "tools/heed/bench/bench.h"
#include "tools/heed/commands.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

struct BenchArguments {
  std::string what, preset;
  autograd::Precision matmul = autograd::Precision::kFloat32;
};

int bench(const BenchArguments& a, const Command& c) {
  if (a.what.empty()) usage_error("bench: needs gemm, ops or train; try heed bench train");
  for (const char* of_train : {"preset", "matmul"})
    if (c.given(of_train) && a.what != "train")
      usage_error("--{} goes with heed bench train", of_train);
  // By itself: one thread for products, as their ratios are stated; both counts for steps.
  const int threads = autograd::num_threads();
  BenchOptions options{a.preset, {threads}, c.json, a.matmul};
  if (!c.given("threads") && a.what == "gemm") options.threads = {1};
  if (!c.given("threads") && a.what == "train" && threads > 1) options.threads = {1, threads};
  if (a.what == "gemm") return bench_gemm(options);
  return a.what == "ops" ? bench_ops(options) : bench_train(options);
}

}  // namespace

void bench_command(Command& c) {
  c.name = "bench", c.what = "time matrix products, ops or training steps";
  c.json_keys["gemm"] =
      "rows (m n k trans_a trans_b threads gflops reference_gflops openblas_gflops)";
  c.json_keys["ops"] =
      "threads add (forward_ns backward_ns) rows (op us gb_per_s us_with_grad) "
      "attention (length ms extra_bytes composite_ms composite_extra_bytes)";
  c.json_keys["train"] =
      "rows (preset matmul threads ms_per_step tokens_per_s mfu peak_bytes mallocs_per_step "
      "peak_gflops)";
  c.examples =
      "  heed bench train\n"
      "  heed bench train --preset chargpt --threads 1\n"
      "  heed bench gemm --json";
  c.notes =
      "gemm   matrix products, GFLOP/s beside oneDNN's and OpenBLAS's where installed (1 thread)\n"
      "ops    the cost of one op, row kernels in GB/s, long attention\n"
      "train  steps of micro, toy, chargpt and small (on 1 thread and on all): ms, tokens/s, MFU\n"
      "Medians. Leave the machine alone meanwhile.";
  auto a = std::make_shared<BenchArguments>();
  c.arguments = 1;
  c.add("Options", {nn::Setting("what", a->what, {"gemm", "ops", "train"}, "what to time"),
                    nn::Setting("preset", a->preset, bench_presets(), "of train").shows("all"),
                    nn::Setting("matmul", a->matmul, "of train: operands of linear layers")});
  c.add_common(Command::kThreads | Command::kJson);
  c.run = [a](const Command& command) { return bench(*a, command); };
}

}  // namespace heed
