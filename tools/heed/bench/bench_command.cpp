// heed bench: speed, measured.
#include "autograd/base/parallel.h"
#include "nn/train/config.h"
#include "tools/heed/bench/bench.h"
#include "tools/heed/bench/works.h"
#include "tools/heed/commands.h"

namespace heed {
namespace {

constexpr const char* kBenchNotes =
    R"(  gemm      matrix products, GFLOP/s beside those of oneDNN, OpenBLAS and MKL
            where the loader finds them (1 thread)
  ops       the cost of one op, row kernels in GB/s, long attention
  train     steps of micro, toy, chargpt and small (on 1 thread and on all): ms,
            tokens/s, MFU
  generate  tokens/s of these models, one sequence from one token to a full
            context; GB/s of weights read, also as a share of what a sum over as
            much memory reads

Medians of turns that alternate. Leave the machine alone meanwhile.)";

}  // namespace

void bench_command(Command& c) {
  c.name = "bench", c.what = "time matrix products, ops, training steps or generation";
  c.examples =
      "  heed bench train\n"
      "  heed bench train chargpt --threads 1\n"
      "  heed bench gemm --json";
  c.notes = kBenchNotes;
  auto o = std::make_shared<BenchOptions>();
  c.arguments = 2;
  c.add("Options",
        {nn::Setting("what", o->what, {"gemm", "ops", "train", "generate"}, "what to time"),
         nn::Setting("preset", o->preset, bench_presets(), "of train, generate").shows("all"),
         nn::Setting("matmul", o->matmul, "of train: operands of linear layers")});
  c.add_common(Command::kThreads | Command::kJson | Command::kCsv);
  // Without --threads: one thread for products, as their ratios are stated; both counts for steps.
  const auto mode = [&](const char* what, std::vector<std::string> accepts, Columns keys,
                        Report (*f)(const BenchOptions&)) {
    c.modes.push_back({.key = "what",
                       .values = {what},
                       .accepts = c.only(std::move(accepts)),
                       .result = keys,
                       .run = [o, f](const Command& command) {
                         const int threads = autograd::num_threads();
                         o->threads = {threads};
                         if (command.given("threads") || o->what == "ops") return f(*o);
                         if (o->what == "gemm" || threads == 1)
                           o->threads = {1};
                         else
                           o->threads = {1, threads};
                         return f(*o);
                       }});
  };
  mode("gemm", {}, kGemmKeys, bench_gemm);
  mode("ops", {}, kOpsKeys, bench_ops);
  mode("train", {"preset", "matmul"}, kBenchTrainKeys, bench_train);
  mode("generate", {"preset"}, kGenerationKeys, bench_generate);
}

}  // namespace heed
