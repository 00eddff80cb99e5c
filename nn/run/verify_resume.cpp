#include "nn/run/verify_resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "autograd/base/parallel.h"
#include "nn/io/tensor_difference.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr std::int64_t kMostSteps = 40, kMostSequences = 32;

// Sets the number of threads for the lifetime of the object.
class Threads {
 public:
  explicit Threads(int n) : before_(num_threads()) { set_num_threads(n); }
  ~Threads() {
    try {
      set_num_threads(before_);
    } catch (const IoError&) {  // the system has no more threads; the results do not depend on it
    }
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

// Returns a sentence about the first difference between two snapshots, or "" if they are equal.
std::string difference_of(const Snapshot& a, const Snapshot& b) {
  if (a.history.size() != b.history.size())
    return fmt::format("the history has {} rows, not {}", b.history.size(), a.history.size());
  for (std::size_t i = 0; i < a.history.size(); ++i)
    for (const auto& [name, value] : kMetricsColumns) {
      const double x = a.history[i].*value, y = b.history[i].*value;
      if (std::memcmp(&x, &y, sizeof x) != 0)
        return fmt::format("{} of step {} is {:.17g}, not {:.17g}", name, a.history[i].step, y, x);
    }
  for (const NamedDifference& d :
       compare_files({.path = {}, .tensors = a.tensors}, {.path = {}, .tensors = b.tensors}))
    if (const std::string text = d.text(); !text.empty()) return d.name + " " + text;
  if (a.data_stream != b.data_stream) return "data_stream differs";
  if (a.dropout_stream != b.dropout_stream) return "dropout_stream differs";
  return a.best_step == b.best_step && a.best_loss == b.best_loss ? "" : "the best loss differs";
}

}  // namespace

ResumeCheck verify_resume(RunConfig config, const RunFolder& folder,
                          const ProgressCallback& progress,
                          const std::function<void(const RunFolder&)>& changed) {
  if (config.schedule != Decay::kConstant)
    config.schedule_steps = schedule(config).total_steps;  // as in the whole run
  config.eval_batch = std::min(config.eval_batch, kMostSequences);
  const std::int64_t steps = config.steps = std::min(config.steps, kMostSteps), half = steps / 2;
  const auto train = [&](int leg, int threads, bool stopped, int save_every) {
    const Threads guard(threads);
    Trainer t(config);
    for (std::int64_t s = 0; s <= steps; ++s) {
      if (progress) progress(leg * steps + s, 2 * steps);
      if (s > 0) t.step();
      if (s % 5 == 0 || s == steps) t.evaluate(false);
      if (s % save_every == save_every - 1) folder.save(t.snapshot());
      if (!stopped || s != half) continue;
      folder.save(t.snapshot());
      if (changed) changed(folder);
      t = folder.resume();
    }
    return t;
  };
  const Trainer straight = train(0, 1, false, 9), resumed = train(1, 2, true, 7);
  const Snapshot a = straight.snapshot(), b = resumed.snapshot();
  return {steps,
          {{fmt::format("1 thread, {} steps", steps), hash_of(a), ""},
           {fmt::format("2 threads, {} + {} steps", half, steps - half), hash_of(b),
            difference_of(a, b)}}};
}

}  // namespace heed::nn
