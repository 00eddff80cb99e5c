// heed bench: speed, measured.
#include "autograd/base/parallel.h"
#include "nn/io/nearest.h"
#include "tools/heed/bench/bench.h"
#include "tools/heed/commands.h"
#include "tools/heed/output.h"

namespace heed {
namespace {

struct BenchArguments {
  std::string what, preset;
};

int bench(const BenchArguments& a, const Command& c) {
  const std::vector<std::string> kinds = {"gemm", "ops", "train"};
  if (a.what.empty()) usage_error("bench: needs gemm, ops or train; try heed bench train");
  if (std::find(kinds.begin(), kinds.end(), a.what) == kinds.end())
    usage_error("bench: '{}' is not gemm, ops or train; did you mean '{}'?", a.what,
                nn::nearest(a.what, kinds));
  const std::vector<std::string> presets = {"micro", "toy", "chargpt", "small"};
  if (c.given("preset")) {
    if (a.what != "train") usage_error("--preset goes with heed bench train");
    if (std::find(presets.begin(), presets.end(), a.preset) == presets.end())
      usage_error("--preset: '{}' is not micro, toy, chargpt or small; did you mean '{}'?",
                  a.preset, nn::nearest(a.preset, presets));
  }
  // By itself: one thread for products, as their ratios are stated; both counts for steps.
  const int threads = autograd::num_threads();
  BenchOptions options{a.preset, {threads}, c.json};
  if (!c.given("threads") && a.what == "gemm") options.threads = {1};
  if (!c.given("threads") && a.what == "train" && threads > 1) options.threads = {1, threads};
  if (a.what == "gemm") return bench_gemm(options);
  return a.what == "ops" ? bench_ops(options) : bench_train(options);
}

}  // namespace

std::unique_ptr<Command> bench_command(CLI::App& app) {
  auto command = std::make_unique<Command>(
      app, "bench", "time matrix products, ops or training steps",
      "  heed bench train\n"
      "  heed bench train --preset chargpt --threads 1\n"
      "  heed bench gemm --json",
      "gemm   matrix products, GFLOP/s beside oneDNN's and OpenBLAS's where installed (1 thread)\n"
      "ops    the cost of one op, row kernels in GB/s, long attention\n"
      "train  steps of micro, toy, chargpt and small (on 1 thread and on all): ms, tokens/s, MFU\n"
      "Medians. Leave the machine alone meanwhile.");
  auto a = std::make_shared<BenchArguments>();
  Command* c = command.get();
  c->positional("what", a->what, "gemm, ops or train");
  c->text("preset", a->preset, "NAME", "of train: micro, toy, chargpt or small (default: all)");
  c->threads_option();
  c->json_option();
  c->run = [a, c] { return bench(*a, *c); };
  return command;
}

}  // namespace heed
