// The program heed-bench: options, help and modes.
#include "autograd/base/parallel.h"
#include "nn/lab/train/config.h"
#include "tools/bench/bench.h"
#include "tools/bench/workloads.h"
#include "tools/heed/command_line/command.h"

namespace heed {
namespace {

constexpr const char* kBenchNotes =
    R"(  gemm      matrix products in GFLOP/s (1 thread), compared with oneDNN,
            OpenBLAS and MKL if they are installed; median of 11 placements of
            the operands in memory
  train     training steps of micro, toy, chargpt and small (on 1 thread and on
            all threads): ms, tokens/s, MFU, and how many times as long as the
            larger of two bounds: the matrix products alone, and a loop over as
            much memory
  generate  tokens/s of these models, for one sequence from one token to a full
            context; GB/s of weights read, also as a share of the speed at which
            a plain sum reads the same amount of memory; the same two bounds

Times are medians, measured alternately. Run nothing else meanwhile.)";

}  // namespace

Commands bench_program() {
  Commands commands;
  Command& c = *commands.emplace_back(std::make_unique<Command>());
  c.name = "bench", c.is_program = true;
  c.what = "time matrix products, training steps or generation";
  c.examples =
      "  heed-bench train\n"
      "  heed-bench train chargpt --threads 1\n"
      "  heed-bench gemm --json";
  c.notes = kBenchNotes;
  auto o = std::make_shared<BenchOptions>();
  c.arguments = 2;
  c.add("Options",
        {lab::Setting("what", o->what, {"gemm", "train", "generate"}, "what to time"),
         lab::Setting("preset", o->preset, bench_presets(), "model of train and generate")
             .shows("all")});
  c.add_common(Command::kThreads | Command::kJson);
  c.mark(&lab::Setting::required, {"what"});
  // Without --threads, `heed-bench gemm` uses one thread, because its published ratios are for one
  // thread; train and generate are measured with one thread and then with all threads.
  const auto mode = [&](const char* what, std::vector<std::string> accepts, const char* keys,
                        Out (*f)(const BenchOptions&)) {
    c.modes.push_back({.key = "what",
                       .values = {what},
                       .accepts = c.only(std::move(accepts)),
                       .keys = keys,
                       .run = [o, f](const Command& command) {
                         const int threads = autograd::num_threads();
                         o->threads = {threads};
                         if (command.given("threads")) return f(*o);
                         if (o->what == "gemm" || threads == 1)
                           o->threads = {1};
                         else
                           o->threads = {1, threads};
                         return f(*o);
                       }});
  };
  mode("gemm", {},
       "rows (m n k trans_a trans_b threads gflops ratio reference_gflops reference_ratio "
       "openblas_gflops openblas_ratio mkl_gflops mkl_ratio)",
       bench_gemm);
  mode("train", {"preset"},
       "rows (preset threads ms_per_step products_ms traffic_ms over_bound pool_jobs_per_step "
       "traffic_bytes tokens_per_s mfu peak_bytes mallocs_per_step peak_gflops peak_of)",
       bench_train);
  mode("generate", {"preset"},
       "rows (preset threads tokens_per_s us_per_token products_us read_us over_bound "
       "pool_jobs_per_token weight_bytes gb_per_s read_share)",
       bench_generate);
  return commands;
}

}  // namespace heed
