#include "autograd/check/heed_check.h"

#include <algorithm>
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
#include "autograd/check/check_vjp.h"

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

// Arrays that are passed to a callback, with a pointer to each.
template <class T>
struct Buffers {
  explicit Buffers(const std::vector<std::vector<std::int64_t>>& shapes) {
    for (const auto& shape : shapes) arrays.emplace_back(std::size_t(Shape(shape).numel()));
    for (std::vector<T>& a : arrays) pointers.push_back(a.data());
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  // Copies the values. The addresses of the elements do not change.
  void set(const Arrays<T>& values) {
    for (std::size_t i = 0; i < arrays.size(); ++i) std::ranges::copy(values[i], arrays[i].begin());
  }
  // Fills the arrays with NaN, so that an element that a callback does not write is found.
  void clear() {
    for (std::vector<T>& a : arrays) std::ranges::fill(a, std::numeric_limits<T>::quiet_NaN());
  }
  const void* const* constant() const { return const_cast<const void* const*>(pointers.data()); }
  Arrays<T> arrays;
  std::vector<void*> pointers;
};

template <class T>
CheckReport run_check(const heed_function& f, const void* const* x, const CheckOptions& options,
                      Calls& calls) {
  Buffers<T> inputs(options.input_shapes), gradients(options.input_shapes),
      outputs(options.output_shapes), cotangents(options.output_shapes);
  const auto require_success = [](const char* callback, int code) {
    if (code != 0) throw CallbackFailed{callback, code};
  };
  const auto forward = [&](const Arrays<T>& at) {
    inputs.set(at), outputs.clear(), ++calls.forward;
    require_success("forward", f.forward(f.user, inputs.constant(), outputs.pointers.data()));
    return outputs.arrays;
  };
  const auto backward = [&](const Arrays<T>& at, const Arrays<T>& v) {
    inputs.set(at), cotangents.set(v), gradients.clear(), ++calls.backward;
    require_success("backward", f.backward(f.user, inputs.constant(), cotangents.constant(),
                                           gradients.pointers.data()));
    return gradients.arrays;
  };
  Arrays<T> start = inputs.arrays;
  for (std::size_t i = 0; i < start.size(); ++i) {
    check<ValueError>(x && (x[i] || start[i].empty()), "heed_check_vjp", "x[", i, "] is NULL");
    std::copy_n(static_cast<const T*>(x[i]), start[i].size(), start[i].begin());
  }
  return check_vjp<T>(forward, backward, start, options);
}

std::vector<std::vector<std::int64_t>> checked_shapes(const char* what, const heed_shape* shapes,
                                                      std::size_t count) {
  check<ValueError>(shapes || count == 0, "heed_check_vjp", what, "_shapes is NULL");
  std::vector<std::vector<std::int64_t>> result;
  for (const heed_shape& s : std::span(shapes, count)) {
    check<ValueError>(s.axes <= std::size_t(kMaxRank), "heed_check_vjp", what, " ", result.size(),
                      " has ", s.axes, " axes, at most ", kMaxRank, " are possible");
    check<ValueError>(s.sizes || s.axes == 0, "heed_check_vjp", what, " ", result.size(),
                      ": sizes is NULL");
    result.emplace_back(s.sizes, s.sizes + s.axes);
    std::int64_t elements = 1;
    for (const std::int64_t size : result.back())
      check<ValueError>(size >= 0 && !__builtin_mul_overflow(elements, size, &elements) &&
                            elements <= kMostElements,
                        "heed_check_vjp", what, " ", result.size() - 1, " has the shape ",
                        Shape(result.back()),
                        "; needs sizes of at least 0, and at most 2^40 elements");
  }
  return result;
}

CheckReport checked(const heed_function* f, const void* const* x, const heed_check_options* given,
                    Calls& calls) {
  check<ValueError>(f != nullptr, "heed_check_vjp", "function is NULL");
  check<ValueError>(f->forward && f->backward, "heed_check_vjp",
                    f->forward ? "backward" : "forward", " is NULL");
  check<ValueError>(f->dtype == HEED_FLOAT64 || f->dtype == HEED_FLOAT32, "heed_check_vjp",
                    "dtype is ", f->dtype, "; needs HEED_FLOAT64 or HEED_FLOAT32");
  CheckOptions options;
  if (given) {
    check<ValueError>(
        given->size == sizeof *given, "heed_check_vjp", "options has size ", given->size,
        ", this library knows ", sizeof *given,
        "; initialize it with HEED_CHECK_OPTIONS, and use the header of this library");
    options.seed = given->seed, options.max_entries = given->max_entries;
  }
  options.input_shapes = checked_shapes("input", f->input_shapes, f->num_inputs);
  options.output_shapes = checked_shapes("output", f->output_shapes, f->num_outputs);
  return f->dtype == HEED_FLOAT64 ? run_check<double>(*f, x, options, calls)
                                  : run_check<float>(*f, x, options, calls);
}

Json entry_json(const CheckedEntry& e) {
  return {{"input", e.input}, {"at", e.at == CheckedEntry::kDirection ? Json() : Json(e.index)}};
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
          {"seed", r.seed}};
}

// Runs the check and writes the report. Returns the result of heed_check_vjp().
int check_and_report(const heed_function* f, const void* const* x,
                     const heed_check_options* options, heed_report& out) {
  Calls calls;
  Json json;
  int status = HEED_OK;
  const auto failed = [&](int code, const std::string& why) {
    status = code, out.text = why;
    json = {{"verdict", kVerdicts[HEED_NOT_CHECKED]}, {"message", why}};
  };
  try {
    const CheckReport report = checked(f, x, options, calls);
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
  } catch (...) {
    failed(HEED_FAILED, "a callback threw a C++ exception");
  }
  json["forward_calls"] = calls.forward, json["backward_calls"] = calls.backward;
  out.json = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return status;
}

}  // namespace
}  // namespace heed::autograd

int heed_check_vjp(const heed_function* function, const void* const* x,
                   const heed_check_options* options, heed_report** report) {
  if (report) *report = nullptr;
  try {
    auto out = std::make_unique<heed_report>();
    const int status = heed::autograd::check_and_report(function, x, options, *out);
    if (report) *report = out.release();
    return status;
  } catch (...) {  // check_and_report() has caught all other exceptions
    return HEED_OUT_OF_MEMORY;
  }
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
