// Calls of the callbacks of a heed_problem (heed_check.h), with the arrays in any memory layout.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "autograd/check/array_layout.h"
#include "autograd/check/checker.h"
#include "autograd/check/heed_check.h"

namespace heed::autograd {

/// Ends a check because a callback has returned this code.
struct CallbackFailed {
  const char* callback;
  int code;
};

/// How often the callbacks were called. A call of any derivative counts as one of backward.
struct Calls {
  std::int64_t forward = 0, backward = 0;
};

/// Arrays of one kind that are passed to a callback. Their addresses do not change.
template <class T>
class Buffers {
 public:
  /// The array at `index` has the layout `placed`. Before and after each array lie `gap` NaNs.
  explicit Buffers(const std::vector<Shape>& shapes, std::size_t index = 0,
                   ArrayLayout placed = ArrayLayout::kContiguous, std::int64_t gap = 0)
      : has_gaps_(gap > 0) {
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
    each_element([next = values.begin()](T& e, std::size_t, std::int64_t) mutable {
      e = T(*next++);
      return true;
    });
    if (has_gaps_) before_ = buffers_;
    return arrays_.data();
  }
  /// Fills the arrays with NaN, so that an element that a callback does not write is found.
  const heed_array* cleared() {
    for (std::vector<T>& b : buffers_) std::ranges::fill(b, kNan);
    return arrays_.data();
  }
  Values values() {
    Values all;
    std::size_t n = 0;
    for (const std::vector<T>& b : buffers_) n += b.size();
    all.reserve(n);
    each_element(
        [&](const T& e, std::size_t, std::int64_t) { return all.push_back(double(e)), true; });
    return all;
  }
  /// Returns the name of the first element that differs from `values` in a bit, such as
  /// "input 0 at [2]" for the kind "input". Returns "" if there is none.
  std::string changed(const char* kind, const Values& values) {
    std::string found;
    std::size_t array = 0;
    std::int64_t at = -1;
    each_element([&, next = values.begin()](const T& e, std::size_t i, std::int64_t k) mutable {
      const auto right = T(*next++);
      // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): it compares the bits, also of NaN.
      if (std::memcmp(&e, &right, sizeof e) == 0) return true;
      array = i, at = k;
      return false;
    });
    if (at >= 0)
      found = kind + (" " + std::to_string(array)) + " at " +
              to_text(unravel(at, placements_[array].elements.shape));
    for (std::size_t i = 0; has_gaps_ && found.empty() && i < buffers_.size(); ++i)
      if (std::memcmp(buffers_[i].data(), before_[i].data(), buffers_[i].size() * sizeof(T)) != 0)
        found = std::string("memory beside ") + kind + " " + std::to_string(i);
    return found;
  }

 private:
  static inline const T kNan = T(std::numeric_limits<double>::quiet_NaN());

  // Calls f(element, index of the array, row-major position) until it returns false.
  template <class F>
  void each_element(F f) {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const Layout& l = placements_[i].elements;
      const bool contiguous = l.is_contiguous();
      T* const first = buffers_[i].data() + l.offset;
      const std::int64_t n = l.shape.numel();
      for (std::int64_t k = 0; k < n; ++k)
        if (!f(first[contiguous ? k : l.offset_of(unravel(k, l.shape))], i, k)) return;
    }
  }

  const bool has_gaps_;
  std::vector<Placement> placements_;
  std::vector<std::vector<T>> buffers_, before_;  // before_: a copy after filled(), if has_gaps_
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
      if (placed.layout != ArrayLayout::kContiguous) return run_placed(x, v, placed);
      ready_ = !v || (ready_ && inputs_.changed("input", x).empty());
      return run(x, v, inputs_, grad_outputs_);
    };
  }
  /// Calls backward. Calls forward before it if the last call of forward had other inputs, or if
  /// backward refuses a second call after one forward. Returns NaNs if forward is undefined.
  Values backward(const Values& x, const Values& v) {
    if ((single_use || !ready_ || !inputs_.changed("input", x).empty()) &&
        (call(x, nullptr, {}), undefined))
      return Values(x.size(), std::nan(""));
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
    std::int64_t gap = 1;
    for (const std::vector<Shape>& shapes : shapes_)
      for (const Shape& s : shapes) gap = std::max(gap, 2 * s.numel() + 1);
    const auto buffers = [&](bool is_gradient) {
      const bool is_placed = placed.is_gradient == is_gradient;
      return Buffers<T>(shapes_[is_gradient], placed.index,
                        is_placed ? placed.layout : ArrayLayout::kContiguous, gap);
    };
    Buffers<T> inputs = buffers(false), grad_outputs = buffers(true);
    ready_ = false;
    return run(x, v, inputs, grad_outputs);
  }

  // Calls forward, or backward if v is not null, and finds the arrays that the call has changed.
  Values run(const Values& x, const Values* v, Buffers<T>& inputs, Buffers<T>& grad_outputs) {
    const heed_array* const xs = inputs.filled(x);
    const int last = turn_;
    Buffers<T>* result = &outputs_;
    if (!v) {
      run_forward(xs);
    } else {
      turn_ = 1 - turn_;
      result = &gradients_[turn_];
      run_backward(xs, grad_outputs.filled(*v), result->cleared());
      find_changed(grad_outputs.changed("the gradient of output", *v), "backward", kMustKeep);
    }
    find_changed(inputs.changed("input", x), v ? "backward" : "forward", kMustKeep);
    if (!earlier_.empty())
      find_changed(gradients_[last].changed("the gradient of input", earlier_),
                   v ? "backward" : "forward",
                   ", which an earlier backward returned; it must return a new array");
    Values values = result->values();
    if (v) earlier_ = values;
    return values;
  }

  void run_forward(const heed_array* xs) {
    ++calls_.forward;
    finish("forward", p_.forward(p_.user, xs, outputs_.cleared()));
    ready_ = ready_ && !undefined;
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
  bool ready_ = false;  // true if inputs_ has the inputs of the last call of forward
  Buffers<T> inputs_, outputs_, grad_outputs_;
  Buffers<T> tangents_, by_inputs_, by_grad_outputs_;  // of backward2 and jvp
  Buffers<T> gradients_[2];                            // results of the last two calls of backward
  int turn_ = 0;                                       // index of the last call in gradients_
  Values earlier_;                                     // copy of gradients_[turn_]; empty before
};

}  // namespace heed::autograd
