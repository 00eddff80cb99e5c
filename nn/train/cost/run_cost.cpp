#include "nn/train/cost/run_cost.h"

#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <limits>

#include "autograd/engine/engine.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/copy.h"
#include "autograd/tensor/create.h"
#include "nn/train/checks/invariants.h"
#include "nn/train/cost/memory.h"
#include "nn/train/cost/model_cost.h"
#include "nn/train/cost/timing.h"
#include "nn/train/training_loss.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Runs evaluations and passes of a run on a given number of sequences.
class Rehearsal {
 public:
  explicit Rehearsal(Trainer& t)
      : t_(t),
        all_(final_evaluation_size(*t.task)),
        some_(std::min(t.config().eval_batch, t.task->evaluation_size())) {}

  /// Returns the number of sequences in a shard.
  std::int64_t rows() const { return t_.config().batch / t_.config().shards; }
  /// Returns the number of sequences in the final evaluation.
  std::int64_t all() const { return all_; }
  /// Returns the number of sequences in an evaluation during the run.
  std::int64_t some() const { return some_; }
  /// Returns the number of training sequences that are evaluated with them.
  std::int64_t training() const {
    return t_.task->holds_out() ? std::min(t_.config().eval_train, t_.task->training_size()) : 0;
  }
  /// Returns the number of sequences in a forward pass of an evaluation.
  std::int64_t chunk() const { return std::min(evaluation_chunk(t_.model, t_.task->info()), all_); }

  /// Returns the number of steps that check invariants.
  std::int64_t checked_steps() const {
    const std::int64_t every = t_.config().check_invariants;
    return every > 0 ? t_.config().steps / every : 0;
  }

  void run_evaluation(std::int64_t n) { evaluate(t_.model, *t_.task, n); }
  void run_training_evaluation(std::int64_t n) { evaluate_training(t_.model, *t_.task, n); }

  /// Runs the forward and backward pass of n sequences, with or without a check of invariants.
  void run_passes(std::int64_t n, bool checked) {
    for (const NamedTensor& p : parameters(t_.model)) p.tensor.zero_grad();
    const Batch batch = t_.task->sample(n, g_);
    Probe probe;
    if (checked) record_invariants(probe, t_.model);
    backward(
        training_loss(t_.model, batch.inputs, batch.targets,
                      {.training = true, .generator = &g_, .probe = checked ? &probe : nullptr}));
    if (checked) broken_invariant(probe, t_.model);
  }
  /// Computes the gradients of n shards side by side, on n threads or n teams, and adds them.
  void run_shards(std::int64_t n) {
    const Batch batch = t_.task->sample(n * rows(), g_);
    const Transformer::Options& o = t_.model.options;
    threads_.sum(t_.model, 0, n, n, shards_need_teams(t_.config(), o.vocab, o.classes),
                 [&](Transformer& own, std::int64_t shard) {
                   Generator dropout = shard_dropout(1, 0, shard);
                   return shard_gradients(own, batch, shard, n, dropout);
                 });
  }

 private:
  Trainer& t_;
  Generator g_ = Generator(1);
  ShardThreads threads_;
  std::int64_t all_, some_;
};

// Returns the peak of resident memory during f(). f runs in a new thread, because the memory pool
// frees a thread's buffers when the thread ends. If no thread can be started, f runs in this one.
double peak_of(const std::function<void()>& f) {
  const double peak = std::async([&] {
                        reset_resident_peak();
                        f();
                        return resident_peak();
                      }).get();
  malloc_trim(0);
  return peak;
}

double run_bytes(Trainer& t, Rehearsal& r, const std::function<void()>& pictures, double available,
                 bool can_reset) {
  const auto part = [](double share, std::int64_t whole) {
    return std::max<std::int64_t>(1, std::llround(share * double(whole)));
  };
  const std::int64_t rows = r.rows(), chunk = r.chunk();
  const std::int64_t largest = evaluation_chunk(t.model, t.task->info());
  const auto groups = double(t.shards_side_by_side());
  const auto measured = [&](double share) {
    const auto pass = [&] { r.run_passes(part(share, rows), r.checked_steps() > 0); };
    // Threads beside this one only run passes. They are measured first, because a peak that cannot
    // be reset never falls.
    double others = 0;
    if (groups > 1) {
      const double idle = peak_of([] {});
      others = (groups - 1) * std::max(0.0, peak_of(pass) - idle);
    }
    return others + peak_of([&] {
             // The last chunk of an evaluation may be smaller, so its buffers have other sizes.
             for (const std::int64_t n :
                  {std::min(chunk, r.some()), r.some() % chunk, chunk, r.all() % chunk})
               if (n > 0) r.run_evaluation(part(share, n));
             for (const std::int64_t n : {std::min(largest, r.training()), r.training() % largest})
               if (n > 0) r.run_training_evaluation(part(share, n));
             pass();
             pictures();
           });
  };
  double peak = measured(rows < 4 ? 1 : 0.5);
  if (rows >= 4 && 2 * peak < available) {
    peak = measured(1);
  } else if (rows >= 4 && !can_reset) {
    // Without a reset the peak never falls, so that the peaks of a quarter and of half a shard
    // cannot be compared.
    peak = 2 * peak;
  } else if (rows >= 4) {
    const double low = double(rows / 4) / double(rows), high = 2 * low;
    const double a = measured(low), b = measured(high);
    peak = b + (b - a) / (high - low) * (1 - high);
  }
  double weights = 0;
  for (const NamedTensor& p : parameters(t.model))
    weights += double(p.tensor.numel()) * double(element_size(p.tensor.dtype()));
  // A run also keeps other arrays of the size of the weights: the best weights, the weights before
  // its first step (StepAudit), and partial sums of the gradients of shards.
  const double sums = groups * std::log2(double(t.config().shards) / groups);
  return peak + (2 + sums) * weights;
}

// Returns the seconds of one call of f. This is the median of the calls in a quarter of a second,
// or the first call if it takes longer than that.
double call_seconds(const std::function<void()>& f) {
  constexpr double kLong = 0.25;
  const double first = seconds_of(f);
  return first >= kLong ? first : median_call(f, kLong);
}

// Returns the seconds of an update of the weights. With a learning rate of 0 an update can only
// change the sign of zeros; the weights are restored afterwards.
double update_seconds(Trainer& t) {
  std::vector<std::pair<Tensor, Tensor>> kept;
  for (const NamedTensor& p : parameters(t.model))
    kept.emplace_back(p.tensor, detached_copy(p.tensor));
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(t.config(), t.model);
  const double seconds = call_seconds([&] { clipped_step(*optimizer, t.config(), 0); });
  const NoGrad guard;
  for (const auto& [weight, before] : kept) copy_(weight, before);
  return seconds;
}

// Returns the seconds of all forward and backward passes of a step, as a mean over the steps of the
// run.
double pass_seconds(const RunConfig& c, Rehearsal& r, std::int64_t side_by_side) {
  const double some = call_seconds([&] { r.run_shards(side_by_side); });
  const double seconds = some * double(c.shards / side_by_side);
  if (r.checked_steps() == 0) return seconds;
  const double plain = call_seconds([&] { r.run_passes(r.rows(), false); });
  const double checked = call_seconds([&] { r.run_passes(r.rows(), true); });
  return seconds * (1 + (checked / plain - 1) * double(r.checked_steps()) / double(c.steps));
}

// Returns the FLOP per second of a matrix product, the best of several, because other programs may
// slow a few of them down.
double product_speed(DType dtype) {
  constexpr std::int64_t kSize = 512;
  constexpr int kProducts = 10;
  const NoGrad guard;
  const Tensor a = ones({kSize, kSize}, dtype);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kProducts; ++i) least = std::min(least, seconds_of([&] { matmul(a, a); }));
  return 2.0 * kSize * kSize * kSize / least;
}

// Returns flops_per_token() without the scores that causality and a window hide.
double visible_flops(const Transformer& model) {
  const Transformer::Options& o = model.options;
  const MultiHeadAttention::Options& a = o.attention;
  const auto T = double(o.context);
  const double keys = a.window > 0 ? std::min(double(a.window), T / 2) : T / 2;  // of a query
  return flops_per_token(model) -
         6.0 * double(o.layers * a.heads * (a.d_head + a.d_value)) * (T - keys);
}

}  // namespace

RunCost run_cost(Trainer& t, const std::function<void()>& pictures, double available,
                 bool can_reset, double longest) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const RunConfig& c = t.config();
  Rehearsal r(t);
  const double groups = double(t.shards_side_by_side());
  const double per_sequence =
      visible_flops(t.model) * double(c.model.context) / product_speed(c.model.attention.dtype);
  if ((4 * groups * double(r.rows()) + 2 * double(r.chunk())) * per_sequence > longest) {
    const std::int64_t vocab = t.model.options.vocab, classes = t.model.options.classes;
    return {3 * weight_bytes(c.model, vocab, classes) + groups * shard_bytes(c, vocab, classes),
            kNan, kNan, per_sequence * double(c.batch) * double(c.steps)};
  }
  RunCost cost{run_bytes(t, r, pictures, available, can_reset), kNan, kNan, kNan};
  if (cost.bytes <= available) {
    cost.seconds_per_step = pass_seconds(c, r, t.shards_side_by_side()) + update_seconds(t);
    const std::int64_t sequences = std::min(r.chunk(), r.some());
    const double evaluated = call_seconds([&] { r.run_evaluation(sequences); }) / double(sequences);
    // One evaluation is before the first step. The last one, of the whole set, is added below.
    const double evaluations = c.eval_every > 0 ? double(c.steps / c.eval_every + 1) : 1;
    cost.seconds = cost.seconds_per_step * double(c.steps) + call_seconds(pictures) +
                   evaluated * (evaluations * double(r.some() + r.training()) + double(r.all()));
  }
  for (const NamedTensor& p : parameters(t.model)) p.tensor.zero_grad();
  return cost;
}

}  // namespace heed::nn
