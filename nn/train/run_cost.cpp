#include "nn/train/run_cost.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <limits>
#include <thread>

#include "autograd/engine/engine.h"
#include "nn/train/invariants.h"
#include "nn/train/memory.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Parts of a run, as it would do them, on as many sequences as one says.
class Rehearsal {
 public:
  explicit Rehearsal(Trainer& t)
      : t_(t), all_(t.task->evaluation_size()), some_(std::min(t.config().eval_batch, all_)) {}

  std::int64_t rows() const { return t_.config().batch / t_.config().accumulate; }
  std::int64_t all() const { return all_; }
  std::int64_t some() const { return some_; }
  /// Of an evaluation at once.
  std::int64_t chunk() const {
    return std::min(evaluation_chunk(t_.model, t_.task->facts()), all_);
  }

  void evaluates(std::int64_t n) { evaluate(t_.model, *t_.task, n); }

  void learns(std::int64_t n) {
    for (const NamedTensor& p : parameters(t_.model)) p.tensor.zero_grad();
    const bool watched = t_.config().check_invariants > 0;
    const Batch batch = t_.task->sample(n, g_);
    Probe probe;
    if (watched) record_invariants(probe, t_.model);
    const Tensor logits = t_.model.forward(
        batch.inputs, {.training = true, .generator = &g_, .probe = watched ? &probe : nullptr});
    backward(cross_entropy(logits, batch.targets));
    if (watched) broken_invariant(probe, t_.model);
  }

 private:
  Trainer& t_;
  Generator g_ = Generator(1);
  std::int64_t all_, some_;
};

// The resident peak of f(), in a thread of its own, whose end gives back what the pool keeps for
// it.
double peak_of(const std::function<void()>& f) {
  double peak = 0;
  std::exception_ptr failed;
  std::thread([&] {
    try {
      peak = resident_peak(f);
    } catch (...) {
      failed = std::current_exception();
    }
  }).join();
  malloc_trim(0);
  if (failed) std::rethrow_exception(failed);
  return peak;
}

double run_bytes(Trainer& t, Rehearsal& r, const std::function<void()>& pictures) {
  const auto part = [](double share, std::int64_t whole) {
    return std::max<std::int64_t>(1, std::llround(share * double(whole)));
  };
  const std::int64_t rows = r.rows(), chunk = r.chunk();
  const auto measured = [&](double share) {
    return peak_of([&] {
      // Evaluations come in chunks and what is left, whose buffers are of other sizes.
      for (const std::int64_t n :
           {std::min(chunk, r.some()), r.some() % chunk, chunk, r.all() % chunk})
        if (n > 0) r.evaluates(part(share, n));
      r.learns(part(share, rows));
      pictures();
    });
  };
  double peak = measured(rows < 4 ? 1 : 0.5);
  if (rows >= 4) {
    const double low = double(rows / 4) / double(rows), high = 2 * low;
    const double a = measured(low), b = measured(high);
    peak = b + (b - a) / (high - low) * (1 - high);
  }
  double weights = 0;
  for (const NamedTensor& p : parameters(t.model))
    weights += double(p.tensor.numel()) * double(element_size(p.tensor.dtype()));
  // Beside these a run keeps the best weights, those before its first step (StepAudit), and sums of
  // shards where there are some.
  const auto shards = double(t.config().accumulate);
  const double copies = 2 + (shards > 1 ? std::log2(shards) + 1 : 0);
  return peak + copies * weights;
}

// The median of what f() takes for a quarter of a second; a long one, once, is not warmed up.
double seconds_of(const std::function<void()>& f) {
  constexpr double kLong = 0.25;
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  double total = 0;
  for (bool warm = false; total < kLong;) {
    const auto start = Clock::now();
    f();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (warm || seconds >= kLong) total += seconds, times.push_back(seconds);
    warm = true;
  }
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  return times[times.size() / 2];
}

}  // namespace

RunCost run_cost(Trainer& t, const std::function<void()>& pictures) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const RunConfig& c = t.config();
  Rehearsal r(t);
  RunCost cost{run_bytes(t, r, pictures), kNan, kNan};
  if (cost.bytes <= available_memory()) {
    // A step of AdamW at learning rate 0 leaves the weights as they are.
    AdamW update(decay_groups(parameters(t.model), 0));
    const double learns = seconds_of([&] { r.learns(r.rows()); });
    const double updates = seconds_of([&] { update.step(0, 1); });
    const std::int64_t looked_at = std::min(r.chunk(), r.some());
    const double evaluates = seconds_of([&] { r.evaluates(looked_at); }) / double(looked_at);
    // One before the first step, one of everything at the end.
    const double evaluations = c.eval_every > 0 ? double(c.steps / c.eval_every + 1) : 1;
    cost.seconds_per_step = learns * double(c.accumulate) + updates;
    cost.seconds = cost.seconds_per_step * double(c.steps) + seconds_of(pictures) +
                   evaluates * (evaluations * double(r.some()) + double(r.all()));
  }
  for (const NamedTensor& p : parameters(t.model)) p.tensor.zero_grad();
  return cost;
}

}  // namespace heed::nn
