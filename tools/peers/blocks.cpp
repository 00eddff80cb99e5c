// `heed_blocks [--threads N]` measures heed for tools/peers/compare. It reads lines
// `WORK SIZE SECONDS` from stdin. For each line, it repeats the work for that many seconds, at
// least once. Then it prints the median seconds of one repetition and the peak bytes of tensors.
// `WORK SIZE` is `train MODEL`, `generate MODEL`, `attention BxHxTxD` or `roundtrip cores`. MODEL
// is a speed preset with optional settings, such as `toy,context=256,batch=1`. The exit codes are
// the same as those of the program heed.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <thread>

#include "autograd/base/parallel.h"
#include "autograd/base/pool.h"
#include "autograd/base/text.h"
#include "autograd/engine/engine.h"
#include "autograd/kernels/simd/simd.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/create.h"
#include "nn/io/nearest.h"
#include "nn/lab/train/cost/timing.h"
#include "tools/bench/workloads.h"
#include "tools/heed/heed.h"
#include "tools/heed/report/output.h"

namespace {

using namespace heed;
using autograd::Tensor;
using Call = std::function<void()>;

// Parses a model such as "toy" or "toy,context=256,batch=1" into its configuration.
lab::RunConfig config_of(const std::string& model, bool train) {
  const std::vector<std::string> words = split(model, ',');
  const auto presets = bench_presets();
  if (std::find(presets.begin(), presets.end(), words[0]) == presets.end())
    usage_error("blocks: '{}' is not a speed preset; these are: {}", words[0], heed::join(presets));
  lab::RunConfig config = lab::preset(words[0]);
  std::vector<lab::Setting> settings = config.settings();
  // A single step has no schedule, data set or evaluation, so only these settings are accepted.
  std::erase_if(settings, [&](const lab::Setting& s) {
    return s.group != "Model" && !(train && (s.key == "batch" || s.key == "optimizer"));
  });
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::vector<std::string> option = split(words[i], '=');
    const lab::Setting* setting = lab::find_setting(settings, option[0]);
    if (!setting)
      usage_error("blocks: '{}' is not an option of this work; did you mean '{}'? Got '{}'",
                  option[0], nn::nearest(option[0], lab::keys(settings)), model);
    if (option.size() != 2)
      usage_error("blocks: needs PRESET,OPTION=VALUE, such as toy,context=256, got '{}'", model);
    setting->set(setting->key, option[1]);
  }
  return config;
}

// Returns a function that runs causal attention, forward and backward. `shape` is "BxHxTxD".
Call attention_call(const std::string& shape) {
  std::vector<Index> sizes;
  for (const std::string& word : split(shape, 'x'))
    sizes.push_back(heed::parse_number<std::int64_t>(word).value_or(0));
  if (sizes.size() != 4 || std::any_of(sizes.begin(), sizes.end(), [](auto n) { return n < 1; }))
    usage_error("attention needs a shape BxHxTxD such as 8x6x256x64, got '{}'", shape);
  autograd::Generator g(1);
  const auto draw = [&] { return autograd::randn(autograd::Shape(sizes), autograd::float32, g); };
  const Tensor q = draw().requires_grad_(), k = draw().requires_grad_(),
               v = draw().requires_grad_();
  return [q, k, v, out_grad = draw()] {
    autograd::grad(autograd::attention(q, k, v, {.causal = true}), {q, k, v},
                   {.grad_output = out_grad});
  };
}

// Returns the seconds that a message needs from one core to another and back: the median of batches
// that take `seconds` together.
double round_trip(double seconds) {
  if (autograd::available_cores() < 2)
    usage_error("blocks: roundtrip needs two cores; this process may use one");
  enum { kReturned, kSent, kEnd };
  alignas(64) std::atomic<int> message = kReturned;
  std::thread echo([&, here = ::sched_getcpu()] {
    cpu_set_t others;  // without this, both threads sometimes stay on one core
    ::sched_getaffinity(0, sizeof others, &others);
    CPU_CLR(here, &others);
    ::sched_setaffinity(0, sizeof others, &others);
    for (int m = kReturned; m != kEnd; m = message.load())
      if (m == kSent) message.store(kReturned);
  });
  constexpr int kTrips = 1000;  // in one batch
  const auto batch = [&] {
    for (int i = 0; i < kTrips; ++i) {
      message.store(kSent);
      while (message.load() == kSent) continue;
    }
  };
  batch();  // returns only after the other thread has started
  const double batch_seconds = lab::median_call(batch, seconds);
  message.store(kEnd);
  echo.join();
  return batch_seconds / kTrips;
}

Call make_call(const std::string& work, const std::string& size) {
  if (work == "attention") return attention_call(size);
  if (work != "train" && work != "generate")
    usage_error(
        "blocks: '{} {}' is not a work; there are train, generate, attention and 'roundtrip cores'",
        work, size);
  const lab::RunConfig config = config_of(size, work == "train");
  const Index vocabulary = bench_vocabulary(split(size, ',')[0]);
  if (work == "train") return [w = std::make_shared<TrainingStep>(config, vocabulary)] { (*w)(); };
  return [w = std::make_shared<Generation>(config, vocabulary)] { (*w)(); };
}

int blocks(const std::vector<std::string>& arguments) {
  if (const char* target = std::getenv("HEED_SIMD")) autograd::kernels::force_simd_target(target);
  if (!arguments.empty()) {
    const auto threads = arguments.size() == 2 && arguments[0] == "--threads"
                             ? heed::parse_number<int>(arguments[1]).value_or(0)
                             : 0;
    if (threads < 1) usage_error("usage: heed_blocks [--threads N]");
    autograd::set_num_threads(threads);
  }
  std::map<std::string, Call> calls;  // kept, so that a repeated line needs no warm-up
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string work, size;
    double seconds = 0;
    if (!(words >> work >> size >> seconds) || !(seconds >= 0 && seconds <= 3600) ||
        (words >> std::ws).peek() != EOF)
      usage_error("blocks: a line is WORK SIZE SECONDS, such as train toy 1, got '{}'", line);
    const bool is_round_trip = work == "roundtrip" && size == "cores";
    Call& call = calls[work + " " + size];
    if (!call && !is_round_trip) call = make_call(work, size);
    autograd::reset_peak_bytes();
    const double median_seconds =
        is_round_trip ? round_trip(seconds) : lab::median_call(call, seconds);
    print("{:.9g} {}\n", median_seconds, autograd::pool_stats().peak_bytes);
    if (std::fflush(stdout) != 0) throw autograd::IoError("blocks: cannot write to stdout");
  }
  return kOk;
}

}  // namespace

int main(int argc, char** argv) {
  return heed::exit_code_of([&] { return blocks({argv + 1, argv + argc}); });
}
