// heed bench blocks: a process that stays and works when asked to, for tools/peers/compare.
#include <cstdio>
#include <iostream>
#include <map>
#include <sstream>

#include "autograd/base/parallel.h"
#include "autograd/base/pool.h"
#include "nn/train/timing.h"
#include "tools/heed/bench/bench.h"
#include "tools/heed/bench/works.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

using Call = std::function<void()>;

Call make_call(const std::string& work, const std::string& size) {
  if (work == "train") return [w = std::make_shared<TrainingStep>(size)] { (*w)(); };
  if (work == "generate") return [w = std::make_shared<Generation>(size)] { (*w)(); };
  if (work == "attention") return attention_call(size);
  usage_error("bench blocks: no work '{}'; there are train, generate and attention", work);
}

}  // namespace

Report bench_blocks(const BenchOptions& options) {
  autograd::set_num_threads(options.threads.back());
  std::map<std::string, Call> calls;  // what was made stays, warm
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string work, size;
    double seconds = 0;
    if (!(words >> work >> size >> seconds) || !(seconds >= 0 && seconds <= 3600) ||
        (words >> std::ws).peek() != EOF)
      usage_error("bench blocks: a line is WORK SIZE SECONDS, such as train toy 1, got '{}'", line);
    Call& call = calls[work + " " + size];
    if (!call) call = make_call(work, size);
    autograd::reset_peak_bytes();
    const double median_seconds = nn::median_call(call, seconds);
    print("{:.9g} {}\n", median_seconds, autograd::pool_stats().peak_bytes);
    if (std::fflush(stdout) != 0) throw autograd::IoError("bench blocks: cannot write to stdout");
  }
  return {};
}

}  // namespace heed
