#include "autograd/check/heed_check.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/shape.h"
#include "autograd/check/array_layout.h"
#include "autograd/check/checker.h"
#include "autograd/check/narrow_float.h"

struct heed_report {
  heed_verdict verdict = HEED_NOT_CHECKED;
  std::string text, json;
};

namespace heed::autograd {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kVerdicts[] = {"not checked", "right", "wrong", "vacuous"};

constexpr std::int64_t kMostElements = std::int64_t(1) << 40;

// Ends a check because a callback has returned this code.
struct CallbackFailed {
  const char* callback;
  int code;
};

// How often the callbacks were called.
struct Calls {
  std::int64_t forward = 0, backward = 0;
};

// Arrays of one kind that are passed to a callback. Their addresses do not change.
template <class T>
class Buffers {
 public:
  // The array at `index` has the layout `placed`. Before and after each array lie `gap` NaNs.
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
  /// Copies the elements of all arrays, concatenated, into the arrays.
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
    each_element([&, next = values.begin()](const T& e, std::size_t i, std::int64_t k) mutable {
      const auto right = T(*next++);
      if (std::memcmp(&e, &right, sizeof e) == 0) return true;
      found = kind + (" " + std::to_string(i)) + " at " +
              to_text(unravel(k, placements_[i].elements.shape));
      return false;
    });
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

// Calls the callbacks of a problem with arrays of elements of type T.
template <class T>
class ProblemCalls : public ForeignCalls {
 public:
  ProblemCalls(const heed_problem& p, const CheckedFunction& shapes, Calls& calls)
      : p_(p),
        stateless_(p.size == 0),  // as_problem()
        calls_(calls),
        shapes_{shapes.inputs, shapes.outputs},
        inputs_(shapes.inputs),
        outputs_(shapes.outputs),
        grad_outputs_(shapes.outputs),
        gradients_{Buffers<T>(shapes.inputs), Buffers<T>(shapes.inputs)} {
    caller = p.caller ? p.caller : "", layouts = p.layouts;
    call = [this](const Values& x, const Values* v, const PlacedArray& placed) {
      if (placed.layout != ArrayLayout::kContiguous) return run_placed(x, v, placed);
      ready_ = !v || (ready_ && inputs_.changed("input", x).empty());
      return run(x, v, inputs_, grad_outputs_);
    };
  }
  // Calls backward, after forward if the last call of forward had other inputs.
  Values backward(const Values& x, const Values& v) {
    if (!stateless_ && (single_use || !ready_ || !inputs_.changed("input", x).empty()))
      call(x, nullptr, {});
    return call(x, &v, {});
  }

 private:
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
      if (!stateless_) turn_ = 1 - turn_;
      result = &gradients_[turn_];
      run_backward(xs, grad_outputs.filled(*v), result->cleared());
      find_changed(grad_outputs.changed("the gradient of output", *v), "backward", kMustKeep);
    }
    find_changed(inputs.changed("input", x), v ? "backward" : "forward", kMustKeep);
    if (!stateless_ && !earlier_.empty())
      find_changed(gradients_[last].changed("the gradient of input", earlier_),
                   v ? "backward" : "forward",
                   ", which an earlier backward returned; it must return a new array");
    Values values = result->values();
    if (v && !stateless_) earlier_ = values;
    return values;
  }

  void run_forward(const heed_array* xs) {
    ++calls_.forward;
    if (const int code = p_.forward(p_.user, xs, outputs_.cleared()))
      throw CallbackFailed{"forward", code};
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
    if (code != 0) throw CallbackFailed{"backward", code};
  }

  void find_changed(const std::string& array, const char* callback, const char* rule) {
    if (changed.empty() && !array.empty()) changed = callback + (" changes " + array) + rule;
  }

  static constexpr const char* kMustKeep = "; it must only read its arguments";

  const heed_problem& p_;
  const bool stateless_;  // true if backward does not depend on calls of forward
  Calls& calls_;
  const std::vector<Shape> shapes_[2];  // of the inputs and of the outputs
  bool ready_ = false;  // true if inputs_ has the inputs of the last call of forward
  Buffers<T> inputs_, outputs_, grad_outputs_;
  Buffers<T> gradients_[2];  // by the last two calls of backward
  int turn_ = 0;             // index of the last one
  Values earlier_;           // its elements
};

template <class T>
CheckReport run_check(std::string_view op, const heed_problem& p, CheckedFunction checked,
                      const void* const* x, const CheckOptions& options, Calls& calls) {
  for (std::size_t i = 0; i < checked.inputs.size(); ++i) {
    const std::int64_t n = checked.inputs[i].numel();
    check<ValueError>(x && (x[i] || n == 0), op, "x[", i, "] is NULL");
    const auto* first = static_cast<const T*>(x[i]);
    for (const T& e : std::span(first, std::size_t(n))) checked.x.push_back(double(e));
  }
  checked.single = std::is_same_v<T, float>;
  ProblemCalls<T> problem(p, checked, calls);
  checked.foreign = &problem;
  checked.forward = [&](const Values& at) { return problem.call(at, nullptr, {}); };
  checked.backward = [&](const Values& at, const Values& v) { return problem.backward(at, v); };
  checked.x.shrink_to_fit();
  return check_function(std::move(checked), options);
}

std::vector<Shape> checked_shapes(std::string_view op, const char* what, const heed_shape* shapes,
                                  std::size_t count) {
  check<ValueError>(shapes || count == 0, op, what, "_shapes is NULL");
  std::vector<Shape> result;
  for (const heed_shape& s : std::span(shapes, count)) {
    check<ValueError>(s.axes <= std::size_t(kMaxRank), op, what, " ", result.size(), " has ",
                      s.axes, " axes, at most ", kMaxRank, " are possible");
    check<ValueError>(s.sizes || s.axes == 0, op, what, " ", result.size(), ": sizes is NULL");
    result.emplace_back(std::span(s.sizes, s.axes));
    std::int64_t elements = 1;
    for (const std::int64_t size : result.back())
      check<ValueError>(size >= 0 && !__builtin_mul_overflow(elements, size, &elements) &&
                            elements <= kMostElements,
                        op, what, " ", result.size() - 1, " has the shape ", result.back(),
                        "; needs sizes of at least 0, and at most 2^40 elements");
  }
  return result;
}

// Throws unless the caller's struct has all members of this version, and 0 in any later members.
template <class Struct>
void check_size(std::string_view op, const char* name, const Struct& given, const char* how) {
  constexpr std::size_t kLargest = 4096;
  check<ValueError>(given.size >= sizeof given && given.size <= kLargest, op, name, " has size ",
                    given.size, ", needs ", sizeof given, " to ", kLargest, "; ", how);
  const auto* bytes = reinterpret_cast<const unsigned char*>(&given);
  check<ValueError>(
      std::all_of(bytes + sizeof given, bytes + given.size, [](unsigned char b) { return b == 0; }),
      op, name, " has size ", given.size, ", this library has ", sizeof given,
      "; set the other members to 0, or use a later library");
}

// Throws ValueError if heed_check() cannot check this problem.
void check_problem(std::string_view op, const heed_problem* p) {
  check<ValueError>(p != nullptr, op, "problem is NULL");
  check_size(op, "problem", *p, "set its member size to sizeof(heed_problem)");
  check<ValueError>(p->forward && p->backward, op, p->forward ? "backward" : "forward", " is NULL");
  check<ValueError>(p->dtype == HEED_FLOAT64 || p->dtype == HEED_FLOAT32, op, "dtype is ", p->dtype,
                    "; needs HEED_FLOAT64 or HEED_FLOAT32");
  check<ValueError>(p->layouts <= HEED_ALL_LAYOUTS, op, "layouts is ", p->layouts,
                    "; needs a sum of layouts, at most HEED_ALL_LAYOUTS, which is ",
                    int(HEED_ALL_LAYOUTS));
  for (const auto& [given, name] : {std::pair(p->backward2 != nullptr, "backward2"),
                                    {p->jvp != nullptr, "jvp"},
                                    {p->reference != nullptr, "reference"},
                                    {p->plain != nullptr, "plain"}})
    check<ValueError>(!given, op, name, " is not supported by this version; set it to NULL");
}

CheckReport checked(std::string_view op, const heed_problem& p, const void* const* x,
                    const heed_check_options* given, Calls& calls) {
  CheckOptions options;
  if (given) {
    check_size(op, "options", *given, "initialize it with HEED_CHECK_OPTIONS");
    options.seed = given->seed, options.max_entries = given->max_entries;
  }
  CheckedFunction c;
  c.inputs = checked_shapes(op, "input", p.input_shapes, p.num_inputs);
  c.outputs = checked_shapes(op, "output", p.output_shapes, p.num_outputs);
  constexpr decltype(&run_check<double>) kRun[] = {run_check<double>, run_check<float>,
                                                   run_check<Float16>, run_check<BFloat16>};
  return kRun[p.dtype](op, p, c, x, options, calls);
}

// Returns the addresses of contiguous arrays.
std::vector<void*> addresses(const heed_array* arrays, std::size_t count) {
  std::vector<void*> all;
  for (const heed_array& a : std::span(arrays, count)) all.push_back(a.data);
  return all;
}

// Returns a heed_function as a problem, whose `user` is the function.
heed_problem as_problem(const heed_function* f) {
  constexpr std::string_view op = "heed_check_vjp";
  check<ValueError>(f != nullptr, op, "function is NULL");
  check<ValueError>(f->forward && f->backward, op, f->forward ? "backward" : "forward", " is NULL");
  check<ValueError>(f->dtype == HEED_FLOAT64 || f->dtype == HEED_FLOAT32, op, "dtype is ", f->dtype,
                    "; needs HEED_FLOAT64 or HEED_FLOAT32");
  heed_problem p = {};
  p.dtype = f->dtype, p.user = const_cast<heed_function*>(f);
  p.num_inputs = f->num_inputs, p.input_shapes = f->input_shapes;
  p.num_outputs = f->num_outputs, p.output_shapes = f->output_shapes;
  p.forward = [](void* user, const heed_array* inputs, const heed_array* outputs) {
    const auto& function = *static_cast<const heed_function*>(user);
    return function.forward(function.user, addresses(inputs, function.num_inputs).data(),
                            addresses(outputs, function.num_outputs).data());
  };
  p.backward = [](void* user, const heed_array* inputs, const heed_array* grad_outputs,
                  const heed_array* grad_inputs) {
    const auto& function = *static_cast<const heed_function*>(user);
    return function.backward(function.user, addresses(inputs, function.num_inputs).data(),
                             addresses(grad_outputs, function.num_outputs).data(),
                             addresses(grad_inputs, function.num_inputs).data());
  };
  return p;
}

Json entry_json(const CheckedEntry& e) {
  return {{"input", e.input}, {"at", e.at == CheckedEntry::kDirection ? Json() : Json(e.index)}};
}

Json counts_json(const KindCounts& c) {
  return {{"passed", c.passed}, {"of", c.of}, {"not_applicable", c.not_applicable}};
}

Json to_json(const CheckReport& r) {
  Json worst;
  if (const CheckedEntry& e = r.worst(); e.step != 0) {  // 0 if no entry was compared
    worst = entry_json(e);
    worst["backward"] = e.given, worst["differences"] = e.expected;
    worst["tolerance"] = e.tolerance, worst["digits"] = e.digits();
  }
  Json moved = Json::array();
  for (const MovedEntry& m : r.moved) {
    moved.push_back(entry_json(m.entry));
    moved.back()["from"] = m.from, moved.back()["to"] = m.to;
  }
  return {{"verdict", kVerdicts[int(r.verdict) + 1]},
          {"message", r.message},
          {"digits", r.digits()},
          {"checked", r.checked()},
          {"entries", r.entries[0]},
          {"worst", worst},
          {"mutants", r.mutants},
          {"killed", r.killed},
          {"equivalent", r.equivalent},
          {"moved", moved},
          {"layouts", counts_json(r.layouts)},
          {"repeated", counts_json(r.repeated)},
          {"spread", r.spread},
          {"seed", r.seed}};
}

// Runs `check`, which counts the calls of the callbacks, and writes the report. Returns a result of
// heed_check().
int check_and_report(const std::function<CheckReport(Calls&)>& check, heed_report& out) {
  Calls calls;
  Json json;
  int status = HEED_OK;
  const auto failed = [&](int code, const std::string& why) {
    status = code, out.text = why;
    json = {{"verdict", kVerdicts[HEED_NOT_CHECKED]}, {"message", why}};
  };
  try {
    const CheckReport report = check(calls);
    std::ostringstream text;
    text << report;
    out.verdict = heed_verdict(int(report.verdict) + 1), out.text = text.str();
    json = to_json(report);
  } catch (const CallbackFailed& e) {
    const std::string what = std::string(e.callback) + " returned " + std::to_string(e.code);
    if (e.code > 0)
      failed(e.code, what + ", which ended the check");
    else
      failed(HEED_FAILED, what + "; it must return 0, or a positive number to end the check");
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const Error& e) {
    failed(HEED_INVALID, e.what());
  } catch (const std::exception& e) {
    failed(HEED_FAILED, e.what());
  } catch (const abi::__forced_unwind&) {  // pthread_exit() or the end of Python ends this thread
    throw;
  } catch (...) {
    failed(HEED_FAILED, "a callback threw a C++ exception; return a positive number instead");
  }
  json["forward_calls"] = calls.forward, json["backward_calls"] = calls.backward;
  out.json = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return status;
}

// Runs `check` and stores the report. Returns a result of heed_check().
int check_and_store(const std::function<CheckReport(Calls&)>& check, heed_report** report) {
  if (report) *report = nullptr;
  try {
    auto out = std::make_unique<heed_report>();
    const int status = check_and_report(check, *out);
    if (report) *report = out.release();
    return status;
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {  // check_and_report() has caught all other exceptions
    return HEED_OUT_OF_MEMORY;
  }
}

}  // namespace
}  // namespace heed::autograd

int heed_check_vjp(const heed_function* function, const void* const* x,
                   const heed_check_options* options, heed_report** report) {
  using namespace heed::autograd;
  const auto check = [&](Calls& calls) {
    return checked("heed_check_vjp", as_problem(function), x, options, calls);
  };
  return check_and_store(check, report);
}

int heed_check(const heed_problem* problem, const void* const* x, const heed_check_options* options,
               heed_report** report) {
  using namespace heed::autograd;
  const auto check = [&](Calls& calls) {
    check_problem("heed_check", problem);
    return checked("heed_check", *problem, x, options, calls);
  };
  return check_and_store(check, report);
}

heed_verdict heed_report_verdict(const heed_report* report) {
  return report ? report->verdict : HEED_NOT_CHECKED;
}

const char* heed_report_text(const heed_report* report) {
  return report ? report->text.c_str() : "";
}

const char* heed_report_json(const heed_report* report) {
  return report ? report->json.c_str() : "";
}

void heed_report_free(heed_report* report) { delete report; }
