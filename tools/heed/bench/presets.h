// The presets that are timed, and rows for each and for numbers of threads.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/base/parallel.h"
#include "tools/heed/bench/bench.h"
#include "tools/heed/report/progress.h"

namespace heed {

/// Those of nn::preset that are there for speed (nn/train/README.md).
std::vector<std::string> bench_presets();
/// The vocabulary that one of these is timed with.
std::int64_t bench_vocabulary(std::string_view preset);

/// show(measure(preset, threads)) for each preset and number of threads asked for; `what` is being
/// done meanwhile, on as many threads.
template <class Measure, class Show>
void for_presets(const BenchOptions& options, const std::string& what, Measure measure, Show show) {
  Progress progress(false);
  for (const std::string& preset : bench_presets()) {
    if (!options.preset.empty() && preset != options.preset) continue;
    for (const int threads : options.threads) {
      progress.at_work(fmt::format("{}: {}, {} threads", what, preset, threads));
      autograd::set_num_threads(threads);
      const auto row = measure(preset, threads);
      progress.clear();
      show(row);
    }
  }
}

}  // namespace heed
