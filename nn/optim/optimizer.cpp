#include "nn/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "autograd/base/parallel.h"
#include "autograd/kernels/kernels.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/copy.h"
#include "autograd/tensor/create.h"
#include "nn/optim/first_non_finite.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr Index kGrain = 1 << 13;  // elements per chunk

}  // namespace

std::vector<ParameterGroup> decay_groups(const std::vector<NamedTensor>& parameters,
                                         double weight_decay) {
  ParameterGroup matrices{{}, weight_decay}, vectors{{}, 0};
  for (const NamedTensor& p : parameters)
    (p.tensor.rank() >= 2 ? matrices : vectors).parameters.push_back(p);
  return {matrices, vectors};
}

Optimizer::Optimizer(std::string_view name, const std::vector<ParameterGroup>& groups,
                     std::vector<std::string_view> buffer_names, double divisor)
    : name_(name), buffer_names_(std::move(buffer_names)), divisor_(divisor) {
  for (const ParameterGroup& group : groups) {
    check<ValueError>(group.weight_decay >= 0 && std::isfinite(group.weight_decay), name_,
                      "needs a finite weight decay >= 0, got ", group.weight_decay);
    for (const NamedTensor& p : group.parameters) {
      const DType dtype = p.tensor.dtype();
      check<DTypeError>(dtype == float32 || dtype == float64, name_, "needs float32 or float64, ",
                        p.name, " is ", dtype);
      check<ValueError>(p.tensor.is_contiguous(), name_, "needs row-major parameters, ", p.name,
                        " ", p.tensor.shape(), " is a view with other strides");
      for (const Slot& other : slots_)
        check<ValueError>(!other.parameter.tensor.is_same(p.tensor), name_, p.name, " and ",
                          other.parameter.name, " are the same parameter; list it once");
      Slot slot{p, group.weight_decay, zeros({}, int64), {}};
      for (std::size_t i = 0; i < buffer_names_.size(); ++i)
        slot.buffers.push_back(zeros_like(p.tensor));
      const Index n = p.tensor.numel();
      for (Index begin = 0; begin < n; begin += kGrain)
        chunks_.push_back({slots_.size(), begin, std::min(begin + kGrain, n)});
      slots_.push_back(std::move(slot));
    }
  }
}

template <class F>
void Optimizer::for_each_chunk(F f) {
  parallel_for(Index(chunks_.size()), 1, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) {
      Chunk& c = chunks_[std::size_t(i)];
      if (slots_[c.slot].grad.defined()) f(slots_[c.slot], c);
    }
  });
}

double Optimizer::step(const StepOptions& options) {
  const auto [lr, clip_norm] = options;
  check<ValueError>(lr >= 0 && std::isfinite(lr), name_, "needs a finite learning rate >= 0, got ",
                    lr);
  check<ValueError>(clip_norm > 0, name_, "needs clip_norm > 0, got ", clip_norm);
  const NoGrad guard;
  for (Slot& slot : slots_) {
    slot.grad = slot.parameter.tensor.grad();
    if (slot.grad.defined()) slot.grad = contiguous(slot.grad);
  }
  const double norm = measure();
  const double scale = std::min(1.0, clip_norm / (norm + 1e-6));
  clipped_norm_ = norm * scale;
  std::vector<Tensor> before;
  if (!stays_finite(lr))
    for (const NamedTensor& x : all_state()) before.push_back(detached_copy(x.tensor));
  for (const Slot& slot : slots_)
    if (slot.grad.defined()) prepare_in_place(name_, slot.parameter.tensor);
  for (const Slot& slot : slots_)
    if (slot.grad.defined()) ++*slot.step.mutable_data<std::int64_t>();
  for_each_chunk([&](const Slot& slot, Chunk& c) {
    update(slot, c.begin, c.end, lr, scale);
    c.squares = squares_in(slot.parameter.tensor, c);  // while the data is in the CPU cache
  });
  for (Slot& slot : slots_) {
    if (slot.grad.defined()) slot.measured = before.empty() ? version(slot) : kUnknown;
    slot.grad = {};
  }
  if (!before.empty()) check_update(before, lr);
  return norm;
}

// Returns true if the update cannot exceed the largest float (3.4e38):
// - the norm of the gradients is below 1e15, and so is that of the parameters and their buffers,
// - lr and the weight decay are below 1e3,
// - update() divides by more than 1e-15.
// If it returns false, step() copies parameters and state before the update and checks the result.
//
// The buffers are measured only before the first update, after such a check, and after a write from
// outside of the optimizer. This suffices, because an update within the limits adds at most 1e18 to
// a momentum and 1e30 to a mean of squares. Both are far below the largest float.
bool Optimizer::stays_finite(double lr) const {
  constexpr double kLarge = 1e15;
  double decay = 1;
  for (const Slot& slot : slots_) decay = std::max(decay, slot.weight_decay);
  return norm_of_chunks(&Chunk::squares) < kLarge && clipped_norm_ < kLarge &&
         std::max(lr, decay) < 1e3 && divisor_ > 1 / kLarge;
}

std::vector<NamedTensor> Optimizer::all_state() const {
  std::vector<NamedTensor> all = state();
  for (const Slot& slot : slots_) all.push_back(slot.parameter);
  return all;
}

// If the update made a tensor non-finite, restores parameters and state and throws NumericError.
void Optimizer::check_update(const std::vector<Tensor>& before, double lr) const {
  const std::vector<NamedTensor> all = all_state();
  const NamedTensor* bad = nullptr;
  std::string what;
  for (std::size_t i = 0; i < all.size() && !bad; ++i)
    if (is_floating(all[i].tensor.dtype()) && !(what = first_non_finite(all[i].tensor)).empty())
      bad = &all[i];
  if (!bad) return;
  for (std::size_t i = 0; i < all.size(); ++i) copy_(all[i].tensor, before[i]);
  fail<NumericError>(name_, "the update makes ", bad->name, " ", bad->tensor.shape(), " ", what,
                     "; lower the learning rate (now ", lr, ") or the weight decay");
}

double Optimizer::norm_of_chunks(double Chunk::*squares) const {
  double sum = 0;
  for (const Chunk& c : chunks_)
    if (slots_[c.slot].grad.defined()) sum += c.*squares;
  return std::sqrt(sum);
}

double Optimizer::squares_in(const Tensor& x, const Chunk& c) {
  return dispatch_parameter(
      x, [&]<class T> { return kernels::sum_of_squares(x.data<T>() + c.begin, c.end - c.begin); });
}

// Returns the sum of the versions of the parameter and its buffers. Each in-place write from
// outside of the optimizer increases this sum.
std::uint64_t Optimizer::version(const Slot& slot) {
  std::uint64_t sum = slot.parameter.tensor.version();
  for (const Tensor& buffer : slot.buffers) sum += buffer.version();
  return sum;
}

// Returns the norm of all gradients as one vector. If it is not finite, clears all Slot::grad and
// throws NumericError. Also computes Chunk::squares again if Slot::measured is not the current
// version of the slot.
double Optimizer::measure() {
  for_each_chunk([](const Slot& slot, Chunk& c) {
    c.grad_squares = squares_in(slot.grad, c);
    if (slot.measured == version(slot)) return;
    c.squares = squares_in(slot.parameter.tensor, c);
    for (const Tensor& buffer : slot.buffers) c.squares += squares_in(buffer, c);
  });
  const double norm = norm_of_chunks(&Chunk::grad_squares);
  if (std::isfinite(norm)) return norm;
  for (Slot& slot : slots_) slot.grad = {};
  for (const Slot& slot : slots_) {
    const auto& [name, p] = slot.parameter;
    const std::string what = p.grad().defined() ? first_non_finite(p.grad()) : "";
    check<NumericError>(what.empty(), name_, "the gradient of ", name, " ", p.shape(), " is ", what,
                        "; lower the learning rate, or find the op that produced it");
  }
  fail<NumericError>(
      name_, "the norm of the gradients is ", norm,
      ", too large for float64, although every gradient is finite; lower the learning rate");
}

void Optimizer::zero_grad() const {
  for (const Slot& slot : slots_) slot.parameter.tensor.zero_grad();
}

std::vector<NamedTensor> Optimizer::state() const {
  std::vector<NamedTensor> list;
  for (const Slot& slot : slots_) {
    const std::string prefix = slot.parameter.name + ".";
    list.push_back({prefix + "step", slot.step});
    for (std::size_t i = 0; i < slot.buffers.size(); ++i)
      list.push_back({prefix + std::string(buffer_names_[i]), slot.buffers[i]});
  }
  return list;
}

SGD::SGD(const std::vector<ParameterGroup>& groups, const SGDOptions& options)
    : Optimizer("SGD", groups,
                options.momentum > 0 ? std::vector<std::string_view>{"momentum_buffer"}
                                     : std::vector<std::string_view>{}),
      options_(options) {
  check<ValueError>(options.momentum >= 0 && options.momentum < 1, "SGD",
                    "needs momentum in [0, 1), got ", options.momentum);
}

void SGD::update(const Slot& slot, Index begin, Index end, double lr, double grad_scale) const {
  const Tensor& parameter = slot.parameter.tensor;
  dispatch_parameter(parameter, [&]<class T> {
    T* p = parameter.mutable_data<T>();
    const T* g = slot.grad.data<T>();
    T* b = slot.buffers.empty() ? nullptr : slot.buffers[0].mutable_data<T>();
    const T rate = T(lr), decay = T(slot.weight_decay), momentum = T(options_.momentum);
    const T scale = T(grad_scale);
    for (Index i = begin; i < end; ++i) {
      T d = g[i] * scale + decay * p[i];
      if (b) d = b[i] = momentum * b[i] + d;
      p[i] -= rate * d;
    }
  });
}

AdamW::AdamW(const std::vector<ParameterGroup>& groups, const AdamWOptions& options)
    : Optimizer("AdamW", groups, {"exp_avg", "exp_avg_sq"}, options.eps * (1 - options.beta1)),
      options_(options) {
  check<ValueError>(
      options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1, "AdamW",
      "needs betas in [0, 1), got ", options.beta1, " and ", options.beta2);
  check<ValueError>(options.eps >= 0, "AdamW", "needs eps >= 0, got ", options.eps);
  for (const ParameterGroup& group : groups)
    for (const auto& [name, tensor] : group.parameters)
      check<ValueError>(!rounds_to_zero(options.eps, tensor.dtype()), "AdamW", "`eps` ",
                        options.eps, " is rounded to 0 in ", tensor.dtype(), ", the dtype of ",
                        name, "; needs 0 or at least 1e-37");
}

void AdamW::update(const Slot& slot, Index begin, Index end, double lr, double grad_scale) const {
  const auto t = double(*slot.step.data<std::int64_t>());
  const kernels::AdamWStep step{.beta1 = options_.beta1,
                                .beta2 = options_.beta2,
                                .eps = options_.eps,
                                .grad_scale = grad_scale,
                                .keep = 1 - lr * slot.weight_decay,
                                .step_size = lr / (1 - std::pow(options_.beta1, t)),
                                .root = std::sqrt(1 - std::pow(options_.beta2, t))};
  dispatch_parameter(slot.parameter.tensor, [&]<class T> {
    kernels::adamw(slot.parameter.tensor.mutable_data<T>() + begin, slot.grad.data<T>() + begin,
                   slot.buffers[0].mutable_data<T>() + begin,
                   slot.buffers[1].mutable_data<T>() + begin, end - begin, step);
  });
}

}  // namespace heed::nn
