// Optimizers and gradient clipping, with PyTorch's formulas and its names for their state. One
// step:
//   optimizer.zero_grad(); backward(loss);
//   optimizer.step({.lr = schedule.lr_at(step), .clip_norm = 1.0});
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "nn/layers/module.h"

namespace heed::nn {

struct ParameterGroup {
  std::vector<NamedTensor> parameters;
  double weight_decay = 0;
};

/// nanoGPT's rule: weight decay on tensors of rank 2 and more, none on norms and biases (per-head
/// ones, b_Q [H, d], have rank 2). PyTorch's
/// default, everything decays, is AdamW({{parameters(model), weight_decay}}).
std::vector<ParameterGroup> decay_groups(const std::vector<NamedTensor>& parameters,
                                         double weight_decay);

/// One update's learning rate and limits of the gradients.
struct StepOptions {
  double lr;  ///< finite, >= 0
  /// > 0: largest norm of all gradients as one vector. They count times min(1, clip_norm / (norm +
  /// 1e-6)), as with PyTorch's clip_grad_norm_, and stay unchanged in .grad.
  double clip_norm = std::numeric_limits<double>::infinity();
  /// > 0: first, every element is brought into [-clip_value, clip_value], as by clip_grad_value_.
  double clip_value = std::numeric_limits<double>::infinity();
};

/// Base of the optimizers: parameters in groups, and their state. Results have the same bits at any
/// thread count.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(Optimizer&&) = default;
  Optimizer& operator=(Optimizer&&) = default;

  /// One update from the parameters' gradients, in place. A parameter without a gradient is left
  /// alone, state and decay included, as in PyTorch. Returns the norm of all gradients as one
  /// vector before clip_norm, accumulated in float64. Throws NumericError, and changes nothing, if
  /// a gradient is not finite or the update would make a parameter so; the text names the parameter
  /// and the place. Throws ValueError for options out of range.
  double step(const StepOptions& options);
  /// The norm of the gradients that the last step() took, after clipping.
  double clipped_norm() const { return clipped_norm_; }
  /// Forgets the gradients of all parameters.
  void zero_grad() const;
  /// Names of the parameters that had no gradient in the last step().
  const std::vector<std::string>& skipped() const { return skipped_; }
  /// The state as handles, "<parameter>.step" (int64, updates so far) and the buffers below: save
  /// them, or load into them, for an exact resume.
  std::vector<NamedTensor> state() const;

 protected:
  struct Slot {
    NamedTensor parameter;
    double weight_decay;
    Tensor step;                  // int64, rank 0
    std::vector<Tensor> buffers;  // of the parameter's shape and dtype, 0 at first
    Tensor grad = {};             // row-major; only during step()
  };

  /// ValueError for a parameter that is listed twice or not row-major, or a weight decay below 0;
  /// DTypeError unless float32 or float64.
  /// `divisor`: the least that update() divides by.
  Optimizer(std::string_view name, const std::vector<ParameterGroup>& groups,
            std::vector<std::string_view> buffer_names, double divisor = 1);
  /// Updates elements [begin, end) of one parameter and its buffers, from gradients times
  /// grad_scale. Must not throw.
  virtual void update(const Slot& slot, std::int64_t begin, std::int64_t end, double lr,
                      double grad_scale) const = 0;

 private:
  struct Chunk {
    std::size_t slot;
    std::int64_t begin, end;
    double squares = 0;  // of this step's gradient, then of the updated parameter
  };
  // f(slot, chunk) in parallel, for those that have a gradient.
  template <class F>
  void for_each_chunk(F f);
  static double squares_in(const Tensor& x, const Chunk& chunk);
  double norm_of_chunks() const;
  double size_of_parameters();
  double measure();
  bool stays_finite(double lr) const;
  std::vector<NamedTensor> all_state() const;
  void check_update(const std::vector<Tensor>& before, double lr) const;
  std::string name_;
  std::vector<std::string_view> buffer_names_;
  std::vector<Slot> slots_;
  std::vector<Chunk> chunks_;
  std::vector<std::string> skipped_;
  double clipped_norm_ = 0, divisor_;
  // The norm of the parameters that are updated; infinite: not known.
  double size_ = std::numeric_limits<double>::infinity();
};

struct SGDOptions {
  double momentum = 0;  ///< in [0, 1)
};
/// Stochastic gradient descent: g += weight_decay * p; b = momentum * b + g; p -= lr * b.
/// State: momentum_buffer (b), if momentum > 0.
class SGD final : public Optimizer {
 public:
  explicit SGD(const std::vector<ParameterGroup>& groups, const SGDOptions& options = {});

 private:
  void update(const Slot& slot, std::int64_t begin, std::int64_t end, double lr,
              double grad_scale) const override;
  SGDOptions options_;
};

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999;  ///< in [0, 1)
  double eps = 1e-8;                  ///< >= 0
};
/// Adam with decoupled weight decay (Loshchilov & Hutter 2019). At update t = 1, 2, ...:
///   p *= 1 - lr * weight_decay;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
///   p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
/// State: exp_avg (m), exp_avg_sq (v).
class AdamW final : public Optimizer {
 public:
  explicit AdamW(const std::vector<ParameterGroup>& groups, const AdamWOptions& options = {});

 private:
  void update(const Slot& slot, std::int64_t begin, std::int64_t end, double lr,
              double grad_scale) const override;
  AdamWOptions options_;
};

}  // namespace heed::nn
