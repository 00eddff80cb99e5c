#include "nn/train/cost/run_cost.h"

#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <thread>

#include "autograd/engine/engine.h"
#include "autograd/tensor/copy.h"
#include "nn/train/checks/invariants.h"
#include "nn/train/cost/memory.h"
#include "nn/train/cost/timing.h"

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
  std::int64_t chunk() const { return std::min(evaluation_chunk(t_.model, t_.task->info()), all_); }

  /// Of the run's steps those whose invariants are looked at.
  std::int64_t watched_steps() const {
    const std::int64_t every = t_.config().check_invariants;
    return every > 0 ? t_.config().steps / every : 0;
  }

  void evaluates(std::int64_t n) { evaluate(t_.model, *t_.task, n); }

  void learns(std::int64_t n, bool watched) {
    for (const NamedTensor& p : parameters(t_.model)) p.tensor.zero_grad();
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

// Returns the resident peak of f(), which runs in a thread: its end gives back what the memory pool
// keeps for a thread.
double peak_of(const std::function<void()>& f) {
  double peak = 0;
  std::exception_ptr failed;
  std::thread([&] {
    try {
      reset_resident_peak();
      f();
      peak = resident_peak();
    } catch (...) {
      failed = std::current_exception();
    }
  }).join();
  malloc_trim(0);
  if (failed) std::rethrow_exception(failed);
  return peak;
}

double run_bytes(Trainer& t, Rehearsal& r, const std::function<void()>& pictures, double available,
                 bool can_reset) {
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
      r.learns(part(share, rows), r.watched_steps() > 0);
      pictures();
    });
  };
  double peak = measured(rows < 4 ? 1 : 0.5);
  if (rows >= 4 && !can_reset) {
    // The peak never falls, so two parts of a batch have no difference.
    peak = 2 * peak < available ? measured(1) : 2 * peak;
  } else if (rows >= 4) {
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

// For a quarter of a second; a long call, once, is not warmed up.
double moment_of(const std::function<void()>& f) {
  constexpr double kLong = 0.25;
  const double first = seconds_of(f);
  return first >= kLong ? first : median_call(f, kLong);
}

// Of an update. At learning rate 0 it leaves all weights but some zeros, whose sign it turns: they
// are put back.
double update_seconds(Trainer& t) {
  std::vector<std::pair<Tensor, Tensor>> kept;
  for (const NamedTensor& p : parameters(t.model))
    kept.emplace_back(p.tensor, detached_copy(p.tensor));
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(t.config(), t.model);
  const double seconds = moment_of([&] { clipped_step(*optimizer, t.config(), 0); });
  const NoGrad guard;
  for (const auto& [weight, before] : kept) copy_(weight, before);
  return seconds;
}

// Of the passes of a mean step.
double pass_seconds(const RunConfig& c, Rehearsal& r) {
  const double plain = moment_of([&] { r.learns(r.rows(), false); });
  if (r.watched_steps() == 0) return plain * double(c.accumulate);
  const double watched = moment_of([&] { r.learns(r.rows(), true); });
  const double share = double(r.watched_steps()) / double(c.steps);
  return (plain + (watched - plain) * share) * double(c.accumulate);
}

}  // namespace

RunCost run_cost(Trainer& t, const std::function<void()>& pictures, double available,
                 bool can_reset) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const RunConfig& c = t.config();
  Rehearsal r(t);
  RunCost cost{run_bytes(t, r, pictures, available, can_reset), kNan, kNan};
  if (cost.bytes <= available) {
    cost.seconds_per_step = pass_seconds(c, r) + update_seconds(t);
    const std::int64_t looked_at = std::min(r.chunk(), r.some());
    const double evaluates = moment_of([&] { r.evaluates(looked_at); }) / double(looked_at);
    // One before the first step, one of everything at the end.
    const double evaluations = c.eval_every > 0 ? double(c.steps / c.eval_every + 1) : 1;
    cost.seconds = cost.seconds_per_step * double(c.steps) + moment_of(pictures) +
                   evaluates * (evaluations * double(r.some()) + double(r.all()));
  }
  for (const NamedTensor& p : parameters(t.model)) p.tensor.zero_grad();
  return cost;
}

}  // namespace heed::nn
