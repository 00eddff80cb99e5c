// heed bench: speed, measured.
#include "autograd/base/parallel.h"
#include "nn/train/config.h"
#include "tools/heed/bench/bench.h"
#include "tools/heed/bench/presets.h"
#include "tools/heed/commands.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

struct BenchArguments {
  std::string what, preset;
  autograd::Precision matmul = autograd::Precision::kFloat32;
};

int bench(const BenchArguments& a, const Command& c) {
  if (a.what.empty())
    usage_error("bench: needs gemm, ops, train or generate; try heed bench train");
  const bool of_presets = a.what == "train" || a.what == "generate";
  if (c.given("preset") && !of_presets)
    usage_error("--preset goes with heed bench train or generate");
  if (c.given("matmul") && a.what != "train") usage_error("--matmul goes with heed bench train");
  // By itself: one thread for products, as their ratios are stated; both counts for steps.
  const int threads = autograd::num_threads();
  BenchOptions options{a.preset, {threads}, c.json, a.matmul};
  if (!c.given("threads") && a.what == "gemm") options.threads = {1};
  if (!c.given("threads") && of_presets && threads > 1) options.threads = {1, threads};
  if (a.what == "gemm") return bench_gemm(options);
  if (a.what == "ops") return bench_ops(options);
  return a.what == "generate" ? bench_generate(options) : bench_train(options);
}

}  // namespace

void bench_command(Command& c) {
  c.name = "bench", c.what = "time matrix products, ops, training steps or generation";
  c.json_keys["gemm"] =
      "rows (m n k trans_a trans_b threads gflops ratio reference_gflops reference_ratio "
      "openblas_gflops openblas_ratio mkl_gflops mkl_ratio)";
  c.json_keys["ops"] =
      "threads add (forward_ns backward_ns) rows (op us gb_per_s us_with_grad) "
      "attention (length ms extra_bytes composite_ms composite_extra_bytes)";
  c.json_keys["train"] =
      "rows (preset matmul threads ms_per_step tokens_per_s mfu peak_bytes mallocs_per_step "
      "peak_gflops peak_of)";
  c.json_keys["generate"] = "rows (preset threads tokens_per_s weight_bytes gb_per_s read_share)";
  c.examples =
      "  heed bench train\n"
      "  heed bench train --preset chargpt --threads 1\n"
      "  heed bench gemm --json";
  c.notes =
      "gemm      matrix products, GFLOP/s beside those of oneDNN, OpenBLAS and MKL where the "
      "loader\n"
      "          finds them (1 thread)\n"
      "ops       the cost of one op, row kernels in GB/s, long attention\n"
      "train     steps of micro, toy, chargpt and small (on 1 thread and on all): ms, tokens/s, "
      "MFU\n"
      "generate  tokens/s of these models, one sequence from one token to a full context; GB/s of\n"
      "          weights read, also as a share of what a sum over as much memory reads\n"
      "Medians of turns that alternate. Leave the machine alone meanwhile.";
  auto a = std::make_shared<BenchArguments>();
  c.arguments = 1;
  c.add("Options",
        {nn::Setting("what", a->what, {"gemm", "ops", "train", "generate"}, "what to time"),
         nn::Setting("preset", a->preset, bench_presets(), "of train, generate").shows("all"),
         nn::Setting("matmul", a->matmul, "of train: operands of linear layers")});
  c.add_common(Command::kThreads | Command::kJson);
  c.run = [a](const Command& command) { return bench(*a, command); };
}

}  // namespace heed
