#include "autograd/check/heed_check.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstddef>
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
#include "autograd/check/checker.h"

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

// Arrays that are passed to a callback. Their addresses do not change.
template <class T>
class Buffers {
 public:
  explicit Buffers(const std::vector<Shape>& shapes) {
    for (const Shape& s : shapes) arrays_.emplace_back(std::size_t(s.numel()));
    for (std::vector<T>& a : arrays_) pointers_.push_back(a.data());
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  /// Copies the elements of all arrays, concatenated, into the arrays.
  const void* const* filled(const Values& values) {
    auto next = values.begin();
    for (std::vector<T>& a : arrays_)
      for (T& e : a) e = T(*next++);
    return const_cast<const void* const*>(pointers_.data());
  }
  /// Fills the arrays with NaN, so that an element that a callback does not write is found.
  void* const* cleared() {
    for (std::vector<T>& a : arrays_) std::ranges::fill(a, std::numeric_limits<T>::quiet_NaN());
    return pointers_.data();
  }
  Values values() const {
    Values all;
    for (const std::vector<T>& a : arrays_) all.insert(all.end(), a.begin(), a.end());
    return all;
  }

 private:
  std::vector<std::vector<T>> arrays_;
  std::vector<void*> pointers_;
};

template <class T>
CheckReport run_check(const heed_function& f, CheckedFunction checked, const void* const* x,
                      const CheckOptions& options, Calls& calls) {
  Buffers<T> inputs(checked.inputs), gradients(checked.inputs), outputs(checked.outputs),
      cotangents(checked.outputs);
  const auto require_success = [](const char* callback, int code) {
    if (code != 0) throw CallbackFailed{callback, code};
  };
  for (std::size_t i = 0; i < checked.inputs.size(); ++i) {
    const std::int64_t n = checked.inputs[i].numel();
    check<ValueError>(x && (x[i] || n == 0), "heed_check_vjp", "x[", i, "] is NULL");
    const auto* first = static_cast<const T*>(x[i]);
    checked.x.insert(checked.x.end(), first, first + n);
  }
  checked.single = std::is_same_v<T, float>;
  checked.forward = [&](const Values& at) {
    ++calls.forward;
    require_success("forward", f.forward(f.user, inputs.filled(at), outputs.cleared()));
    return outputs.values();
  };
  checked.backward = [&](const Values& at, const Values& v) {
    ++calls.backward;
    require_success("backward", f.backward(f.user, inputs.filled(at), cotangents.filled(v),
                                           gradients.cleared()));
    return gradients.values();
  };
  return check_function(checked, options);
}

std::vector<Shape> checked_shapes(const char* what, const heed_shape* shapes, std::size_t count) {
  check<ValueError>(shapes || count == 0, "heed_check_vjp", what, "_shapes is NULL");
  std::vector<Shape> result;
  for (const heed_shape& s : std::span(shapes, count)) {
    check<ValueError>(s.axes <= std::size_t(kMaxRank), "heed_check_vjp", what, " ", result.size(),
                      " has ", s.axes, " axes, at most ", kMaxRank, " are possible");
    check<ValueError>(s.sizes || s.axes == 0, "heed_check_vjp", what, " ", result.size(),
                      ": sizes is NULL");
    result.emplace_back(std::span(s.sizes, s.axes));
    std::int64_t elements = 1;
    for (const std::int64_t size : result.back())
      check<ValueError>(size >= 0 && !__builtin_mul_overflow(elements, size, &elements) &&
                            elements <= kMostElements,
                        "heed_check_vjp", what, " ", result.size() - 1, " has the shape ",
                        result.back(), "; needs sizes of at least 0, and at most 2^40 elements");
  }
  return result;
}

// Throws unless the caller's struct has all members of this version, and 0 in any later members.
void check_size(const heed_check_options& given) {
  constexpr std::size_t kLargest = 4096;
  check<ValueError>(given.size >= sizeof given && given.size <= kLargest, "heed_check_vjp",
                    "options has size ", given.size, ", needs ", sizeof given, " to ", kLargest,
                    "; initialize it with HEED_CHECK_OPTIONS");
  const auto* bytes = reinterpret_cast<const unsigned char*>(&given);
  check<ValueError>(
      std::all_of(bytes + sizeof given, bytes + given.size, [](unsigned char b) { return b == 0; }),
      "heed_check_vjp", "options has size ", given.size, ", this library has ", sizeof given,
      "; set the other members to 0, or use a later library");
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
    check_size(*given);
    options.seed = given->seed, options.max_entries = given->max_entries;
  }
  CheckedFunction c;
  c.inputs = checked_shapes("input", f->input_shapes, f->num_inputs);
  c.outputs = checked_shapes("output", f->output_shapes, f->num_outputs);
  return f->dtype == HEED_FLOAT64 ? run_check<double>(*f, c, x, options, calls)
                                  : run_check<float>(*f, c, x, options, calls);
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
  Json diagnosis;
  if (const Diagnosis& d = r.diagnosis; !d.kind.empty()) {
    diagnosis = {{"kind", d.kind}, {"factor", Json()}, {"input", Json()}};
    if (d.factor) diagnosis["factor"] = *d.factor;
    if (d.input) diagnosis["input"] = *d.input;
    diagnosis["agree"] = d.agree, diagnosis["of"] = d.of, diagnosis["text"] = d.text;
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
          {"diagnosis", diagnosis},
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
  } catch (const abi::__forced_unwind&) {  // pthread_exit() or the end of Python ends this thread
    throw;
  } catch (...) {
    failed(HEED_FAILED, "a callback threw a C++ exception; return a positive number instead");
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
  } catch (const abi::__forced_unwind&) {
    throw;
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
