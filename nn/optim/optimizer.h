// Optimizers (AdamW and SGD) and gradient clipping. The formulas and the names of the state tensors
// are those of PyTorch. A training step looks like this:
//
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

/// Parameters with the same weight decay.
struct ParameterGroup {
  std::vector<NamedTensor> parameters;  ///< float32 or float64 leaves in row-major order
  double weight_decay = 0;              ///< finite, >= 0
};

/// Returns two groups by the rule of nanoGPT: the matrices with this weight decay, and all other
/// parameters without weight decay. Here a matrix is a tensor of rank 2 or more. For PyTorch's
/// default, where all parameters decay, write AdamW({{parameters(model), weight_decay}}).
std::vector<ParameterGroup> decay_groups(const std::vector<NamedTensor>& parameters,
                                         double weight_decay);

/// Options of one optimizer step.
struct StepOptions {
  double lr;  ///< learning rate, finite, >= 0
  /// Limit for the norm of all gradients as one vector, > 0. The update uses the gradients times
  /// min(1, clip_norm / (norm + 1e-6)), as in clip_grad_norm_ of PyTorch. The gradients in .grad do
  /// not change.
  double clip_norm = std::numeric_limits<double>::infinity();
};

/// Base class of the optimizers. It has the parameters and their state. The results are bitwise
/// equal for any number of threads. An optimizer can be moved but not copied.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  ///@{
  /// Moves the handles of the parameters and the state.
  Optimizer(Optimizer&&) = default;
  Optimizer& operator=(Optimizer&&) = default;
  ///@}

  /// Updates all parameters in place from their gradients. A parameter without a gradient keeps its
  /// value and its state, as in PyTorch. Returns the norm of all gradients as one vector before any
  /// clipping, accumulated in float64.
  /// Throws NumericError if a gradient or this norm is not finite, or if the update would make a
  /// parameter or a state tensor non-finite. The error text names the tensor and the index. Throws
  /// ValueError for options out of range. If step() throws, parameters and state do not change.
  double step(const StepOptions& options);
  /// Returns the norm of the gradients of the last step() after clipping.
  double clipped_norm() const { return clipped_norm_; }
  /// Removes the gradients of all parameters.
  void zero_grad() const;
  /// Returns handles of the state, for an exact resume: save them, or load saved values into them.
  /// The names are "<parameter>.step" (int64, number of updates) and "<parameter>.<buffer>". The
  /// comment of each optimizer class lists the buffers.
  std::vector<NamedTensor> state() const;

 protected:
  static constexpr std::uint64_t kUnknown = std::uint64_t(-1);  ///< Not a version.
  /// Parameter with its state.
  struct Slot {
    NamedTensor parameter;        ///< parameter and its name
    double weight_decay;          ///< weight decay of its group
    Tensor step;                  ///< number of updates, int64 of rank 0
    std::vector<Tensor> buffers;  ///< tensors of the shape and dtype of the parameter, initially 0
    Tensor grad = {};             ///< gradient in row-major order; defined only during step()
    /// Version of parameter and buffers after the last update; kUnknown if they may be large.
    std::uint64_t measured = kUnknown;
  };

  /// Makes the state of all parameters. `name` appears in errors, and each parameter gets one
  /// buffer per buffer name. `divisor` is a lower bound for the numbers by which update() divides.
  /// step() uses this bound to decide if an update can overflow. Throws ValueError if a parameter
  /// is listed twice or is not row-major, or if a weight decay is below 0 or not finite. Throws
  /// DTypeError unless all parameters are float32 or float64.
  Optimizer(std::string_view name, const std::vector<ParameterGroup>& groups,
            std::vector<std::string_view> buffer_names, double divisor = 1);
  /// Updates the elements [begin, end) of one parameter and of its buffers. The update must use
  /// slot.grad times grad_scale as the gradient. The function must not throw. It is called from
  /// several threads, for disjoint ranges.
  virtual void update(const Slot& slot, Index begin, Index end, double lr,
                      double grad_scale) const = 0;

 private:
  // Range of elements of one parameter, which is the unit of parallel work.
  struct Chunk {
    std::size_t slot;
    Index begin, end;
    double grad_squares = 0;  // sum of squares of the gradient
    double squares = 0;       // that of the parameter; if measure() computed it, also of buffers
  };
  // Calls f(slot, chunk) in parallel for all chunks of parameters that have a gradient.
  template <class F>
  void for_each_chunk(F f);
  static double squares_in(const Tensor& x, const Chunk& chunk);
  static std::uint64_t version(const Slot& slot);
  double norm_of_chunks(double Chunk::*squares) const;
  double measure();
  bool stays_finite(double lr) const;
  std::vector<NamedTensor> all_state() const;
  void check_update(const std::vector<Tensor>& before, double lr) const;
  std::string name_;
  std::vector<std::string_view> buffer_names_;
  std::vector<Slot> slots_;
  std::vector<Chunk> chunks_;
  double clipped_norm_ = 0, divisor_;
};

/// Options of SGD.
struct SGDOptions {
  double momentum = 0;  ///< in [0, 1)
};
/// Stochastic gradient descent. For a parameter p with gradient g and buffer b:
///
///     g += weight_decay * p;  b = momentum * b + g;  p -= lr * b
///
/// The only buffer is momentum_buffer (b), which exists if momentum > 0.
class SGD final : public Optimizer {
 public:
  /// Makes an optimizer of these parameters. Throws ValueError unless 0 <= momentum < 1, for
  /// parameters that are listed twice or not row-major, and for a weight decay that is negative or
  /// not finite. Throws DTypeError unless all parameters are float32 or float64.
  explicit SGD(const std::vector<ParameterGroup>& groups, const SGDOptions& options = {});

 private:
  void update(const Slot& slot, Index begin, Index end, double lr,
              double grad_scale) const override;
  SGDOptions options_;
};

/// Options of AdamW.
struct AdamWOptions {
  double beta1 = 0.9;    ///< decay of the mean of gradients, in [0, 1)
  double beta2 = 0.999;  ///< decay of the mean of squared gradients, in [0, 1)
  double eps = 1e-8;     ///< added to the denominator, >= 0
};
/// Adam with decoupled weight decay (Loshchilov & Hutter 2019). Update t = 1, 2, ... of a parameter
/// p with gradient g and buffers m and v is:
///
///     p *= 1 - lr * weight_decay;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
///     p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
///
/// The buffers are exp_avg (m) and exp_avg_sq (v).
class AdamW final : public Optimizer {
 public:
  /// Makes an optimizer of these parameters. Throws ValueError unless 0 <= beta1 < 1,
  /// 0 <= beta2 < 1 and eps >= 0, if eps > 0 is rounded to 0 in the dtype of a parameter, for
  /// parameters that are listed twice or not row-major, and for a weight decay that is negative or
  /// not finite. Throws DTypeError unless all parameters are float32 or float64.
  explicit AdamW(const std::vector<ParameterGroup>& groups, const AdamWOptions& options = {});

 private:
  void update(const Slot& slot, Index begin, Index end, double lr,
              double grad_scale) const override;
  AdamWOptions options_;
};

}  // namespace heed::nn
