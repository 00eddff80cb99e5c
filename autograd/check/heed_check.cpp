#include "autograd/check/heed_check.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/shape.h"
#include "autograd/base/text.h"
#include "autograd/check/low_precision.h"
#include "autograd/check/problem_calls.h"

struct heed_report {
  heed_verdict verdict = HEED_NOT_CHECKED;
  std::string text, json;
};

namespace heed::autograd {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kVerdicts[] = {"not checked", "right", "wrong", "vacuous"};

constexpr std::string_view kOp = "heed_check";
constexpr Index kMostElements = Index(1) << 40;

// Returns `shapes` with the functions of a problem.
template <class T>
CheckedFunction function_of(const heed_problem& p, ProblemCalls<T>& calls, CheckedFunction shapes) {
  shapes.foreign = &calls;
  shapes.forward = [&](const Values& x) { return calls.call(x, nullptr, {}); };
  if (p.backward)
    shapes.backward = [&](const Values& x, const Values& v) { return calls.backward(x, v); };
  if (p.backward2)
    shapes.backward2 = [&](const Values& x, const Values& v, const Values& t) {
      return calls.backward2(x, v, t);
    };
  if (p.jvp)
    shapes.exact = jvp_oracle([&](const Values& x, const Values& t) { return calls.jvp(x, t); });
  return shapes;
}

template <class T>
CheckReport run_check(const heed_problem& p, CheckedFunction checked, const void* const* x,
                      const CheckOptions& options, Calls& calls) {
  for (std::size_t i = 0; i < checked.inputs.size(); ++i) {
    const Index n = checked.inputs[i].numel();
    check<ValueError>(x && (x[i] || n == 0), kOp, "x[", i, "] is NULL");
    const auto* first = static_cast<const T*>(x[i]);
    for (const T& e : std::span(first, std::size_t(n))) checked.x.push_back(double(e));
  }
  checked.x.shrink_to_fit();
  ProblemCalls<T> problem(p, checked, calls);
  if constexpr (std::is_floating_point_v<T>) {
    checked.roundoff = std::numeric_limits<T>::epsilon() / 2;
    return check_function(function_of(p, problem, std::move(checked)), options);
  } else {
    CheckedFunction plain, reference;
    ProblemCalls<T> plain_calls(p.plain ? *p.plain : p, checked, calls);
    ProblemCalls<double> reference_calls(p.reference ? *p.reference : p, checked, calls);
    if (p.plain) plain = function_of(*p.plain, plain_calls, checked);
    if (p.reference) reference = function_of(*p.reference, reference_calls, checked);
    return check_low_precision(function_of(p, problem, std::move(checked)), plain, reference,
                               precision_of<T>(), options);
  }
}

std::vector<Shape> checked_shapes(const char* what, const heed_shape* shapes, std::size_t count) {
  check<ValueError>(shapes || count == 0, kOp, what, "_shapes is NULL");
  std::vector<Shape> result;
  for (const heed_shape& s : std::span(shapes, count)) {
    check<ValueError>(s.axes <= std::size_t(kMaxRank), kOp, what, " ", result.size(), " has ",
                      s.axes, " axes, at most ", kMaxRank, " are possible");
    check<ValueError>(s.sizes || s.axes == 0, kOp, what, " ", result.size(), ": sizes is NULL");
    result.emplace_back(std::span(s.sizes, s.axes));
    Index elements = 1;
    for (const Index size : result.back())
      check<ValueError>(size >= 0 && !__builtin_mul_overflow(elements, size, &elements) &&
                            elements <= kMostElements,
                        kOp, what, " ", result.size() - 1, " has the shape ", result.back(),
                        "; needs sizes of at least 0, and at most 2^40 elements");
  }
  return result;
}

// Throws ValueError unless the caller was compiled with this version of the struct.
template <class Struct>
void check_size(const char* name, const Struct& given, const char* how) {
  check<ValueError>(given.size == sizeof given, kOp, name, " has size ", given.size, ", needs ",
                    sizeof given, "; ", how);
}

// Returns the shapes of the inputs and outputs.
std::pair<std::vector<Shape>, std::vector<Shape>> shapes_of(const heed_problem& p) {
  return {checked_shapes("input", p.input_shapes, p.num_inputs),
          checked_shapes("output", p.output_shapes, p.num_outputs)};
}

// Throws ValueError if heed_check() cannot check this problem.
void check_problem(const heed_problem* p) {
  check<ValueError>(p != nullptr, kOp, "problem is NULL");
  check_size("problem", *p, "set its member size to sizeof(heed_problem)");
  check<ValueError>(p->forward && (p->backward || p->jvp), kOp,
                    p->forward ? "backward and jvp are" : "forward is", " NULL");
  check<ValueError>(p->dtype >= HEED_FLOAT64 && p->dtype <= HEED_BFLOAT16, kOp, "dtype is ",
                    p->dtype, "; needs a heed_dtype");
  check<ValueError>(p->layouts <= HEED_ALL_LAYOUTS, kOp, "layouts is ", p->layouts,
                    "; needs a sum of layouts, at most HEED_ALL_LAYOUTS, which is ",
                    int(HEED_ALL_LAYOUTS));
  const bool is_half = p->dtype == HEED_FLOAT16 || p->dtype == HEED_BFLOAT16;
  for (const auto& [other, name, dtype] :
       {std::tuple(p->reference, "reference", int(HEED_FLOAT64)), {p->plain, "plain", p->dtype}}) {
    if (!other) continue;
    check<ValueError>(is_half, kOp, name, " is only for float16 and bfloat16; set it to NULL");
    check_size(name, *other, "set its member size to sizeof(heed_problem)");
    check<ValueError>(other->forward && other->backward && other->dtype == dtype, kOp, name,
                      " needs forward, backward and the dtype ", dtype, ", has the dtype ",
                      other->dtype);
    check<ValueError>(shapes_of(*other) == shapes_of(*p), kOp, name,
                      " has other numbers or shapes of inputs or outputs than the problem");
  }
}

CheckReport checked(const heed_problem& p, const void* const* x, const heed_check_options* given,
                    Calls& calls) {
  CheckOptions options;
  if (given) {
    check_size("options", *given, "initialize it with HEED_CHECK_OPTIONS");
    options.seed = given->seed, options.max_entries = given->max_entries;
    options.forward_error = given->forward_error;
  }
  CheckedFunction c;
  std::tie(c.inputs, c.outputs) = shapes_of(p);
  constexpr decltype(&run_check<double>) kRun[] = {run_check<double>, run_check<float>,
                                                   run_check<Float16>, run_check<BFloat16>};
  return kRun[p.dtype](p, c, x, options, calls);
}

Json counts_json(const KindCounts& c) {
  return {{"passed", c.passed}, {"of", c.of}, {"not_applicable", c.not_applicable}};
}

// Returns the worst entry that was compared, or null.
Json worst_json(const OracleReport& found) {
  const CheckedEntry& e = found.worst;
  if (e.step == 0 && found.checked == 0) return {};
  return {
      {"input", e.input},         {"at", e.at == CheckedEntry::kDirection ? Json() : Json(e.index)},
      {"backward", e.given},      {"differences", e.expected},
      {"tolerance", e.tolerance}, {"digits", e.digits()}};
}

Json to_json(const CheckReport& r) {
  const LowPrecision& low = r.low_precision;
  Json diagnosis;
  if (const Diagnosis& d = r.diagnosis; !d.kind.empty()) {
    diagnosis = {{"kind", d.kind}, {"factor", Json()}, {"input", Json()}};
    if (d.factor) diagnosis["factor"] = *d.factor;
    if (d.input) diagnosis["input"] = *d.input;
    diagnosis["agree"] = d.agree, diagnosis["of"] = d.of, diagnosis["text"] = d.text;
  }
  return {{"verdict", kVerdicts[int(r.verdict) + 1]},
          {"message", r.message},
          {"digits", r.digits()},
          {"checked", r.checked()},
          {"entries", r.entries[0]},
          {"worst", worst_json(r.by(1, Oracle::kDifferences))},
          {"order", r.order},
          {"low_precision", low.inputs == 0 ? Json()
                                            : Json{{"R", low.ratio},
                                                   {"factor", low.factor},
                                                   {"factor_error", low.factor_error},
                                                   {"inputs", low.inputs}}},
          {"diagnosis", diagnosis},
          {"layouts", counts_json(r.layouts)},
          {"repeated", counts_json(r.repeated)},
          {"seed", r.seed}};
}

// Checks the problem and writes the report. Returns a result of heed_check().
int check_and_report(const heed_problem* problem, const void* const* x,
                     const heed_check_options* options, heed_report& out) {
  Calls calls;
  Json json;
  int status = HEED_OK;
  const auto failed = [&](int code, const std::string& why) {
    status = code, out.text = why;
    json = {{"verdict", kVerdicts[HEED_NOT_CHECKED]}, {"message", why}};
  };
  try {
    check_problem(problem);
    const CheckReport report = checked(*problem, x, options, calls);
    TextStream text;
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

int heed_check(const heed_problem* problem, const void* const* x, const heed_check_options* options,
               heed_report** report) {
  using namespace heed::autograd;
  if (report) *report = nullptr;
  try {
    auto out = std::make_unique<heed_report>();
    const int status = check_and_report(problem, x, options, *out);
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
