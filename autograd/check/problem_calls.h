// Calls of the callbacks of a heed_problem (heed_check.h), with the arrays in any memory layout.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "autograd/check/array_layout.h"
#include "autograd/check/heed_check.h"
#include "autograd/check/point.h"

namespace heed::autograd {

/// Ends a check because a callback has returned this code.
struct CallbackFailed {
  const char* callback;
  int code;
};

/// How often the callbacks were called. A call of any derivative counts as one of backward.
struct Calls {
  Index forward = 0, backward = 0;
};

/// Arrays of one kind that are passed to a callback. Their addresses do not change.
template <class T>
class Buffers {
 public:
  /// The array at `index` has the layout `placed`. Before and after each array lie `gap` NaNs.
  explicit Buffers(const std::vector<Shape>& shapes, std::size_t index = 0,
                   ArrayLayout placed = ArrayLayout::kContiguous, Index gap = 0) {
    for (const Shape& s : shapes)
      placements_.push_back(
          place(s, placements_.size() == index ? placed : ArrayLayout::kContiguous, gap));
    for (const auto& [elements, size] : placements_) {
      buffers_.emplace_back(std::size_t(size), kNan);
      arrays_.push_back({buffers_.back().data() + elements.offset,
                         elements.is_contiguous() ? nullptr : elements.strides.data()});
    }
    if (placed == ArrayLayout::kMissing) arrays_[index].data = nullptr;
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  /// Copies `values`, the concatenated elements of all arrays, into the arrays.
  const heed_array* filled(const Values& values) {
    each_element([next = values.begin()](T& e) mutable { e = T(*next++); });
    keep();
    return arrays_.data();
  }
  /// Fills the arrays with NaN, so that an element that a callback does not write is found.
  const heed_array* cleared() {
    for (std::vector<T>& b : buffers_) std::ranges::fill(b, kNan);
    return arrays_.data();
  }
  Values values() {
    Values all;
    each_element([&](const T& e) { all.push_back(double(e)); });
    return all;
  }
  /// Copies the arrays, for changed().
  void keep() { kept_ = buffers_; }
  /// Returns the name of the first element that has other bits than after the last keep() or
  /// filled(), such as "input 0 at [2]" for the kind "input". Returns "" if there is none.
  std::string changed(const std::string& kind) const {
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      const auto differs = [&](Index begin, std::size_t count) {
        const auto at = std::size_t(begin);
        return std::memcmp(&buffers_[i][at], &kept_[i][at], count * sizeof(T)) != 0;
      };
      if (buffers_[i].empty() || !differs(0, buffers_[i].size())) continue;
      const std::string name = kind + " " + std::to_string(i);
      const Layout& l = placements_[i].elements;
      for (Index k = 0; k < l.shape.numel(); ++k)
        if (const Dims index = unravel(k, l.shape); differs(l.offset + l.offset_of(index), 1))
          return name + " at " + to_text(index);
      return "memory beside " + name;
    }
    return "";
  }

 private:
  static inline const T kNan = T(std::numeric_limits<double>::quiet_NaN());

  // Calls f with each element, in the row-major order of each array.
  template <class F>
  void each_element(F f) {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const Layout& l = placements_[i].elements;
      const bool contiguous = l.is_contiguous();
      T* const first = buffers_[i].data() + l.offset;
      const Index n = l.shape.numel();
      for (Index k = 0; k < n; ++k) f(first[contiguous ? k : l.offset_of(unravel(k, l.shape))]);
    }
  }

  std::vector<Placement> placements_;
  std::vector<std::vector<T>> buffers_, kept_;
  std::vector<heed_array> arrays_;
};

/// Calls the callbacks of a problem with arrays of elements of type T.
template <class T>
class ProblemCalls : public ForeignCalls {
 public:
  ProblemCalls(const heed_problem& p, const CheckedFunction& shapes, Calls& calls)
      : p_(p),
        calls_(calls),
        shapes_{shapes.inputs, shapes.outputs},
        inputs_(shapes.inputs),
        outputs_(shapes.outputs),
        grad_outputs_(shapes.outputs),
        tangents_(p.backward2 || p.jvp ? shapes.inputs : std::vector<Shape>()),
        by_inputs_(p.backward2 ? shapes.inputs : std::vector<Shape>()),
        by_grad_outputs_(p.backward2 || p.jvp ? shapes.outputs : std::vector<Shape>()),
        gradients_{Buffers<T>(shapes.inputs), Buffers<T>(shapes.inputs)} {
    caller = p.caller ? p.caller : "", layouts = p.layouts;
    call = [this](const Values& x, const Values* v, const PlacedArray& placed) {
      return placed.layout == ArrayLayout::kContiguous ? run(x, v, inputs_, grad_outputs_)
                                                       : run_placed(x, v, placed);
    };
  }
  /// Calls backward. Calls forward before it if the last call of forward had other inputs, or if
  /// backward refuses a second call after one forward. Returns NaNs if forward is undefined.
  Values backward(const Values& x, const Values& v) {
    if (single_use || x != x_) {
      call(x, nullptr, {});
      if (undefined) return Values(x.size(), std::nan(""));
    }
    return call(x, &v, {});
  }
  /// Calls backward2, after forward. Throws NoSecondDerivative if it returns HEED_NO_DERIVATIVE.
  Values backward2(const Values& x, const Values& v, const Values& t) {
    call(x, nullptr, {});
    const int code =
        p_.backward2(p_.user, inputs_.filled(x), grad_outputs_.filled(v), tangents_.filled(t),
                     by_inputs_.cleared(), by_grad_outputs_.cleared());
    if (code == HEED_NO_DERIVATIVE) throw NoSecondDerivative();
    finish_derivative("backward2", code);
    Values all = by_inputs_.values();
    for (const double e : by_grad_outputs_.values()) all.push_back(e);
    return all;
  }
  /// Calls jvp, after forward.
  Values jvp(const Values& x, const Values& t) {
    call(x, nullptr, {});
    finish_derivative(
        "jvp", p_.jvp(p_.user, inputs_.filled(x), tangents_.filled(t), by_grad_outputs_.cleared()));
    return by_grad_outputs_.values();
  }

 private:
  void finish_derivative(const char* callback, int code) {
    ++calls_.backward;
    finish(callback, code);
  }
  void finish(const char* callback, int code) {
    undefined = code == HEED_UNDEFINED;
    if (code != 0 && !undefined) throw CallbackFailed{callback, code};
  }

  // Calls forward or backward with one array in another layout. The gaps are so long that a
  // callback that uses the strides of one array for another array reads NaN.
  Values run_placed(const Values& x, const Values* v, const PlacedArray& placed) {
    Index gap = 1;
    for (const std::vector<Shape>& shapes : shapes_)
      for (const Shape& s : shapes) gap = std::max(gap, 2 * s.numel() + 1);
    const auto buffers = [&](bool is_gradient) {
      const bool is_placed = placed.is_gradient == is_gradient;
      return Buffers<T>(shapes_[is_gradient], placed.index,
                        is_placed ? placed.layout : ArrayLayout::kContiguous, gap);
    };
    Buffers<T> inputs = buffers(false), grad_outputs = buffers(true);
    Values results = run(x, v, inputs, grad_outputs);
    x_.clear();
    return results;
  }

  // Calls forward, or backward if v is not null, and finds the arrays that the call has changed.
  Values run(const Values& x, const Values* v, Buffers<T>& inputs, Buffers<T>& grad_outputs) {
    const heed_array* const xs = inputs.filled(x);
    const int last = turn_;
    Buffers<T>* result = &outputs_;
    if (!v) {
      run_forward(xs);
      x_ = undefined ? Values() : x;
    } else {
      turn_ = 1 - turn_;
      result = &gradients_[turn_];
      run_backward(xs, grad_outputs.filled(*v), result->cleared());
      result->keep();
      find_changed(grad_outputs.changed("the gradient of output"), "backward", kMustKeep);
    }
    find_changed(inputs.changed("input"), v ? "backward" : "forward", kMustKeep);
    find_changed(gradients_[last].changed("the gradient of input"), v ? "backward" : "forward",
                 ", which an earlier backward returned; it must return a new array");
    return result->values();
  }

  void run_forward(const heed_array* xs) {
    ++calls_.forward;
    finish("forward", p_.forward(p_.user, xs, outputs_.cleared()));
  }

  // Calls backward, and again after forward if it refuses a second call after one forward.
  void run_backward(const heed_array* xs, const heed_array* dys, const heed_array* gradients) {
    const auto call_backward = [&] {
      return ++calls_.backward, p_.backward(p_.user, xs, dys, gradients);
    };
    int code = call_backward();
    if (code == HEED_SINGLE_USE) {
      single_use = true;
      run_forward(xs);
      code = call_backward();
    }
    finish("backward", code);
  }

  void find_changed(const std::string& array, const char* callback, const char* rule) {
    if (changed.empty() && !array.empty()) changed = callback + (" changes " + array) + rule;
  }

  static constexpr const char* kMustKeep = "; it must only read its arguments";

  const heed_problem& p_;
  Calls& calls_;
  const std::vector<Shape> shapes_[2];  // of the inputs and of the outputs
  Values x_;  // inputs of the last call of forward; empty if it was undefined or had a layout
  Buffers<T> inputs_, outputs_, grad_outputs_;
  Buffers<T> tangents_, by_inputs_, by_grad_outputs_;  // of backward2 and jvp
  Buffers<T> gradients_[2];                            // results of the last two calls of backward
  int turn_ = 0;                                       // index of the last call in gradients_
};

}  // namespace heed::autograd
