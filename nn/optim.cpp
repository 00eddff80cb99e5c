#include "nn/optim.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <type_traits>
#include <utility>

#include "autograd/parallel.h"

namespace heed::nn {
namespace {

constexpr std::int64_t kGrain = 1 << 13;  // elements a thread takes at once

template <class T>
using PoolVector = std::vector<T, PoolAllocator<T>>;

// In eight partial sums, so that the additions of one do not wait for another's.
template <class T>
double sum_of_squares(const T* x, std::int64_t n) {
  constexpr int kLanes = 8;
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int k = 0; k < kLanes; ++k) lanes[k] += double(x[i + k]) * double(x[i + k]);
  for (; i < n; ++i) lanes[i % kLanes] += double(x[i]) * double(x[i]);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

double sum_of_squares(const Tensor& x) {
  return dispatch_floating(x.dtype(), "clip_grad_norm", [&]<class T> {
    if constexpr (std::is_same_v<T, Dual>) {
      fail<DTypeError>("clip_grad_norm", "needs float32 or float64, got dual64");
      return 0.0;
    } else {
      const T* values = x.data<T>();
      const std::int64_t n = x.numel();
      PoolVector<double> partial(std::size_t((n + kGrain - 1) / kGrain));
      parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
        partial[std::size_t(begin / kGrain)] = sum_of_squares(values + begin, end - begin);
      });
      double sum = 0;
      for (const double part : partial) sum += part;
      return sum;
    }
  });
}

// "nan at [3, 5]" for the first element that is not finite, or "".
std::string first_non_finite(const Tensor& x) {
  const std::vector<double> values = to(x, float64).to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    Dims index = x.shape();
    auto rest = std::int64_t(i);
    for (int axis = x.rank() - 1; axis >= 0; --axis) {
      index[axis] = rest % x.shape()[axis];
      rest /= x.shape()[axis];
    }
    std::ostringstream text;
    text << values[i] << " at " << index;
    return text.str();
  }
  return {};
}

[[noreturn]] void fail_non_finite(const std::vector<NamedParameter>& parameters, double norm) {
  for (const auto& [name, p] : parameters) {
    const Tensor g = p.grad();
    const std::string what = g.defined() ? first_non_finite(g) : "";
    if (!what.empty())
      fail<NumericError>("clip_grad_norm", "the gradient of ", name, " ", p.shape(), " is ", what,
                         "; lower the learning rate, or look for the op that made it");
  }
  fail<NumericError>("clip_grad_norm", "the norm of the gradients is ", norm,
                     ": finite, but too large for float64");
}

}  // namespace

std::vector<ParameterGroup> decay_groups(const std::vector<NamedParameter>& parameters,
                                         double weight_decay) {
  ParameterGroup matrices{{}, weight_decay}, vectors{{}, 0};
  for (const NamedParameter& p : parameters)
    (p.tensor.rank() >= 2 ? matrices : vectors).parameters.push_back(p);
  return {matrices, vectors};
}

double clip_grad_norm(const std::vector<NamedParameter>& parameters, double max_norm) {
  check<ValueError>(max_norm > 0, "clip_grad_norm", "needs max_norm > 0, got ", max_norm);
  const NoGrad guard;
  double sum = 0;
  for (const auto& [name, p] : parameters)
    if (const Tensor g = p.grad(); g.defined()) sum += sum_of_squares(contiguous(g));
  const double norm = std::sqrt(sum);
  if (!std::isfinite(norm)) fail_non_finite(parameters, norm);
  const double scale = max_norm / (norm + 1e-6);
  if (!(scale < 1)) return norm;
  // Not in place: the engine hands one tensor to several owners (both leaves of a + b, a probe).
  for (const auto& [name, p] : parameters)
    if (const Tensor g = p.grad(); g.defined()) p.node()->extras().grad = g.detach() * scale;
  return norm;
}

Optimizer::Optimizer(std::string_view name, const std::vector<ParameterGroup>& groups,
                     std::vector<std::string_view> buffer_names)
    : name_(name), buffer_names_(std::move(buffer_names)) {
  for (const ParameterGroup& group : groups) {
    check<ValueError>(group.weight_decay >= 0 && std::isfinite(group.weight_decay), name_,
                      "needs a weight decay >= 0, got ", group.weight_decay);
    for (const NamedParameter& p : group.parameters) {
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
      const std::int64_t n = p.tensor.numel();
      for (std::int64_t begin = 0; begin < n; begin += kGrain)
        chunks_.push_back({slots_.size(), begin, std::min(begin + kGrain, n)});
      slots_.push_back(std::move(slot));
    }
  }
}

void Optimizer::step(double lr) {
  check<ValueError>(lr >= 0 && std::isfinite(lr), name_, "needs a learning rate >= 0, got ", lr);
  const NoGrad guard;
  skipped_.clear();
  for (Slot& slot : slots_) {
    slot.grad = slot.parameter.tensor.grad();
    if (!slot.grad.defined()) {
      skipped_.push_back(slot.parameter.name);
      continue;
    }
    slot.grad = contiguous(slot.grad);
    prepare_in_place(name_, slot.parameter.tensor);
    ++*slot.step.mutable_data<std::int64_t>();
  }
  parallel_for(std::int64_t(chunks_.size()), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const Chunk& c = chunks_[std::size_t(i)];
      if (slots_[c.slot].grad.defined()) update(slots_[c.slot], c.begin, c.end, lr);
    }
  });
  for (Slot& slot : slots_) slot.grad = {};
}

void Optimizer::zero_grad() const {
  for (const Slot& slot : slots_) slot.parameter.tensor.zero_grad();
}

std::vector<NamedParameter> Optimizer::state() const {
  std::vector<NamedParameter> list;
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

void SGD::update(const Slot& slot, std::int64_t begin, std::int64_t end, double lr) const {
  const Tensor& parameter = slot.parameter.tensor;
  const auto run = [&]<class T>(T) {
    T* p = parameter.mutable_data<T>();
    const T* g = slot.grad.data<T>();
    T* b = slot.buffers.empty() ? nullptr : slot.buffers[0].mutable_data<T>();
    const T rate = T(lr), decay = T(slot.weight_decay), momentum = T(options_.momentum);
    for (std::int64_t i = begin; i < end; ++i) {
      T d = g[i] + decay * p[i];
      if (b) d = b[i] = momentum * b[i] + d;
      p[i] -= rate * d;
    }
  };
  if (parameter.dtype() == float32)
    run(float{});
  else
    run(double{});
}

AdamW::AdamW(const std::vector<ParameterGroup>& groups, const AdamWOptions& options)
    : Optimizer("AdamW", groups, {"exp_avg", "exp_avg_sq"}), options_(options) {
  check<ValueError>(
      options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1, "AdamW",
      "needs betas in [0, 1), got ", options.beta1, " and ", options.beta2);
  check<ValueError>(options.eps >= 0, "AdamW", "needs eps >= 0, got ", options.eps);
}

void AdamW::update(const Slot& slot, std::int64_t begin, std::int64_t end, double lr) const {
  const auto& [beta1, beta2, epsilon] = options_;
  const auto t = double(*slot.step.data<std::int64_t>());
  const double step_size = lr / (1 - std::pow(beta1, t));
  const double correction = std::sqrt(1 - std::pow(beta2, t));
  const double keep = 1 - lr * slot.weight_decay;
  const Tensor& parameter = slot.parameter.tensor;
  const auto run = [&]<class T>(T) {
    T* p = parameter.mutable_data<T>();
    const T* g = slot.grad.data<T>();
    T* m = slot.buffers[0].mutable_data<T>();
    T* v = slot.buffers[1].mutable_data<T>();
    const T b1 = T(beta1), b2 = T(beta2), c1 = T(1 - beta1), c2 = T(1 - beta2);
    const T rate = T(step_size), root = T(correction), eps = T(epsilon), decay = T(keep);
    for (std::int64_t i = begin; i < end; ++i) {
      m[i] = b1 * m[i] + c1 * g[i];
      v[i] = b2 * v[i] + c2 * g[i] * g[i];
      p[i] = p[i] * decay - rate * m[i] / (std::sqrt(v[i]) / root + eps);
    }
  };
  if (parameter.dtype() == float32)
    run(float{});
  else
    run(double{});
}

}  // namespace heed::nn
