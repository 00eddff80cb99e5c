// `heed gradcheck --run`: checks the gradients of a trained model with respect to every parameter
// tensor.
#include <cmath>
#include <optional>

#include "autograd/base/error.h"
#include "nn/lab/run/run_folder.h"
#include "nn/lab/train/checks/check_parameters.h"
#include "nn/optim/first_non_finite.h"
#include "tools/heed/find_run.h"
#include "tools/heed/gradcheck/gradcheck.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"

namespace heed {

using autograd::Oracle;

namespace {

// Time limits in seconds. One round of checks of all tensors always runs.
constexpr double kSeconds = 2;
constexpr Index kFloat32Seconds = 5;

std::vector<lab::CheckedParameter> check_run(const lab::LoadedRun& run, const lab::Batch& batch,
                                             const GradcheckRequest& request) {
  const std::vector<nn::NamedTensor> tensors = nn::parameters(run.model);
  Progress progress(false);
  return check_parameters(
      run.model, batch, request.options(), kSeconds, [&](Index done, Index total) {
        const Index i = done % total;
        progress.at_work(fmt::format("Checking round {}, {} of {}: {}", done / total + 1, i + 1,
                                     total, tensors[std::size_t(i)].name));
      });
}

// Computes loss and gradients in float32 by the kernels of this machine, and compares them with
// float64. Returns nothing if the run was not trained in float32, or if the check would take more
// than kFloat32Seconds.
std::optional<autograd::Float32Report> check_run_in_float32(const lab::LoadedRun& run,
                                                            const lab::Batch& batch) {
  if (run.model.options.attention.dtype != autograd::float32) return {};
  Progress progress(false);
  const std::int64_t needed = float32_check_seconds(run.model, batch);
  if (needed > kFloat32Seconds) {
    progress.line(
        fmt::format("float32 is not checked, because it would take about {} seconds", needed));
    return {};
  }
  progress.at_work("Comparing float32 with float64");
  return check_float32(run.model, batch);
}

void add_tensors(Out& out, const std::vector<lab::CheckedParameter>& parameters) {
  Value list = Value::array();
  std::vector<Cells> rows;
  for (const lab::CheckedParameter& p : parameters) {
    const auto digits = [&](Oracle oracle) { return p.digits[int(oracle)]; };
    const auto cell = [&](Oracle oracle) {
      return digits(oracle) ? digits_text(*digits(oracle)) : "-";
    };
    list.push_back(Value::object({{"name", p.name},
                                  {"parameters", p.size},
                                  {"entries", p.entries},
                                  {"digits_dual", digits(Oracle::kDual)},
                                  {"digits_differences", digits(Oracle::kDifferences)},
                                  {"message", p.failure}}));
    rows.push_back({p.name, with_commas(p.size), std::to_string(p.entries), cell(Oracle::kDual),
                    cell(Oracle::kDifferences), p.failure.empty() ? "" : "FAILED"});
  }
  out.set("tensors", list);
  out.table({"loss of 2 sequences, float64", "parameters", "entries", "dual", "diff", "failed"},
            rows);
  out.gap();
  for (const lab::CheckedParameter& p : parameters)
    if (!p.failure.empty()) out.block("FAILED " + p.name + ": " + p.failure + "\n");
}

}  // namespace

Out report_run_gradcheck(const GradcheckRequest& request) {
  const lab::LoadedRun run = open_run(find_run(request.run), request.weights, lab::Use::kSequences);
  const std::string bad = nn::first_non_finite(nn::parameters(run.model));
  heed::check<autograd::NumericError>(bad.empty(), "gradcheck", bad, " in ", request.weights,
                                      "; check other weights (--weights)");
  const lab::Batch batch = run.task->evaluation(0, 2);
  const Stopwatch clock;
  const std::optional<autograd::Float32Report> float32 = check_run_in_float32(run, batch);
  const std::vector<lab::CheckedParameter> parameters = check_run(run, batch, request);
  Index failed = 0, entries = 0, count = 0;
  double fewest = 16;
  std::string message;
  for (const lab::CheckedParameter& p : parameters) {
    failed += !p.failure.empty();
    entries += p.entries;
    count += p.size;
    if (!p.failure.empty() && message.empty()) message = p.name + ": " + p.failure;
    for (const std::optional<double>& digits : p.digits)
      if (digits && !(*digits >= fewest)) fewest = *digits;
  }
  Out out;
  out.set("run", request.run);
  out.set("parameters", count);
  out.set("failed", failed);
  out.set("error", std::pow(10.0, -fewest));
  out.set("message", message);
  out.set("entries", entries);
  out.set("seconds", clock.seconds());
  out.set("float32", float32 ? Value::object({{"ok", float32->ok},
                                              {"target", float32->target},
                                              {"entries", float32->entries},
                                              {"error_of_bound", float32->worst},
                                              {"message", float32->message}})
                             : Value());
  add_tensors(out, parameters);
  out.text(
      "{}: {} parameters in {} tensors, each checked in random directions; {} entries one by one; "
      "{};\n{} tensors failed",
      request.run, with_commas(count), parameters.size(), entries, seconds_text(clock.seconds()),
      failed);
  if (float32)
    out.text(
        "in float32 on {}: errors up to {:.2f} times the bound, in the loss and its {} gradients",
        float32->target, float32->worst, with_commas(count));
  if (float32 && !float32->ok) out.text("FAILED {}", float32->message);
  out.fail(failed == 0 && (!float32 || float32->ok) ? kOk : kCheckFailed);
  return out;
}

}  // namespace heed
