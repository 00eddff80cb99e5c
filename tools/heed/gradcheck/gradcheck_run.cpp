// heed gradcheck --run: are the gradients of a trained model right, in every parameter tensor?
#include <algorithm>
#include <cmath>
#include <optional>

#include "autograd/check/float32.h"
#include "autograd/kernels/simd/simd.h"
#include "autograd/ops/ops.h"
#include "nn/run/run_folder.h"
#include "tools/heed/find_run.h"
#include "tools/heed/gradcheck/gradcheck_report.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"

namespace heed {

using autograd::Oracle;

namespace {

// One parameter tensor and what its checks found.
struct Parameter {
  std::string name;
  std::int64_t size = 0;
  std::int64_t entries = 0;              // asked one by one
  std::optional<double> digits[2] = {};  // by oracle, of all orders; NaN is fewest
  std::string failure = {};              // empty: none
};

void take(Parameter& p, const autograd::CheckReport& report, const GradcheckRequest& request) {
  for (const Oracle oracle : autograd::kAllOracles) {
    if (!(oracle == Oracle::kDual ? request.dual : request.differences)) continue;
    double fewest = p.digits[int(oracle)].value_or(16);
    for (int order = 1; order <= report.order; ++order) {
      const autograd::OracleReport& found = report.by(order, oracle);
      if (order == 1) p.entries += found.checked;
      for (const autograd::CheckedEntry* e : {&found.worst, &found.direction})
        if (!(e->digits() >= fewest)) fewest = e->digits();
    }
    p.digits[int(oracle)] = fewest;
  }
  if (!report.ok() && p.failure.empty()) p.failure = report.message;
}

// The model's mean loss on two sequences as a function of its parameters, in their dtype.
autograd::DifferentiableFunction loss_function(const nn::LoadedRun& run) {
  nn::Transformer::Options options = run.model.options;
  options.attention.dropout = 0;
  return [options, batch = run.task->evaluation(0, 2)](autograd::Args t) mutable {
    options.attention.dtype =
        t[0].dtype() == autograd::float32 ? autograd::float32 : autograd::float64;
    autograd::Generator scratch;  // the draws are replaced by the values
    nn::Transformer model(options, scratch);
    std::size_t next = 0;
    nn::for_each_parameter(model, [&](const std::string&, autograd::Tensor& p) { p = t[next++]; });
    return autograd::cross_entropy(model.forward(batch.inputs), batch.targets);
  };
}

std::vector<autograd::Tensor> weights_of(const nn::LoadedRun& run) {
  std::vector<autograd::Tensor> weights;
  for (const nn::NamedTensor& p : nn::parameters(run.model))
    weights.push_back(autograd::to(p.tensor.detach(), autograd::float64));
  return weights;
}

// Every tensor by itself: one direction through all its entries and one entry by each oracle, again
// and again with other seeds until request.seconds of the clock are up.
std::vector<Parameter> check_parameters(const nn::LoadedRun& run, const GradcheckRequest& request,
                                        const Stopwatch& clock) {
  const std::vector<autograd::Tensor> values = weights_of(run);
  std::vector<Parameter> parameters;
  for (const nn::NamedTensor& p : nn::parameters(run.model))
    parameters.push_back({p.name, p.tensor.numel()});
  const autograd::DifferentiableFunction loss = loss_function(run);
  autograd::GradcheckOptions how;
  how.order = int(request.order);
  how.use_differences = request.differences;
  how.use_dual = request.dual;
  how.dual_entries = how.difference_entries = 1;
  Progress progress(false);
  for (std::int64_t round = 0; round == 0 || clock.seconds() < double(request.seconds); ++round)
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (round > 0 && clock.seconds() >= double(request.seconds)) break;
      progress.at_work(fmt::format("round {}, {} of {}: {}", round + 1, i + 1, values.size(),
                                   parameters[i].name));
      const auto of_one = [&](autograd::Args t) {
        std::vector<autograd::Tensor> all = values;
        all[i] = t[0];
        return loss(all);
      };
      how.seed = std::uint64_t(request.seed + round);
      take(parameters[i], gradcheck(of_one, std::vector{values[i]}, how), request);
    }
  progress.clear();
  return parameters;
}

// What check_run_in_float32 costs: its passes run the references, with roundings.
std::int64_t float32_seconds(const nn::LoadedRun& run) {
  constexpr std::int64_t kProductsPerSecond = 4'000'000;  // parameters times tokens
  const std::int64_t tokens = run.task->evaluation(0, 2).inputs.numel();
  return nn::count_parameters(run.model) * tokens / kProductsPerSecond + 1;
}

// What trained the run: its loss and gradients in float32 on this machine's kernels. None if it
// was float64, or if it costs more than --seconds.
std::optional<autograd::Float32Report> check_run_in_float32(const nn::LoadedRun& run,
                                                            const GradcheckRequest& request) {
  if (run.model.options.attention.dtype != autograd::float32) return {};
  Progress progress(false);
  if (float32_seconds(run) > request.seconds) {
    progress.line(fmt::format("not checked in float32, which takes long; --seconds {} does it",
                              float32_seconds(run)));
    return {};
  }
  progress.at_work("float32 against float64");
  const std::string target = autograd::kernels::simd_target();
  const auto report = check_float32(loss_function(run), weights_of(run), {target}, 1)[0];
  progress.clear();
  return report;
}

Value float32_value(const std::optional<autograd::Float32Report>& report) {
  if (!report) return {};
  return object_of(kFloat32Keys,
                   {report->ok, report->target, report->entries, report->worst, report->message});
}

Value digits_cell(const std::optional<double>& digits) {
  return digits ? Value(digits_text(*digits)) : Value();
}

void add_tensors(Report& report, const std::vector<Parameter>& parameters) {
  Table& table = report.table("tensors");
  for (const Parameter& p : parameters) {
    const std::optional<double>&dual = p.digits[int(Oracle::kDual)],
          &differences = p.digits[int(Oracle::kDifferences)];
    table.add({p.name, p.size, p.entries, digits_cell(dual), digits_cell(differences), dual,
               differences, p.failure, p.failure.empty() ? "" : "FAILED"});
  }
  for (const Parameter& p : parameters)
    if (!p.failure.empty()) report.block("FAILED " + p.name + ": " + p.failure);
}

}  // namespace

Report report_run_gradcheck(const GradcheckRequest& request) {
  const nn::LoadedRun run =
      open_run(find_run(request.run), nn::RunFolder::kModel, nn::Use::kSequences);
  const Stopwatch clock;
  const std::optional<autograd::Float32Report> float32 = check_run_in_float32(run, request);
  const std::vector<Parameter> parameters = check_parameters(run, request, clock);
  std::int64_t failed = 0, entries = 0, count = 0;
  double fewest = 16;
  std::string message;
  for (const Parameter& p : parameters) {
    failed += !p.failure.empty();
    entries += p.entries;
    count += p.size;
    if (!p.failure.empty() && message.empty()) message = p.name + ": " + p.failure;
    for (const std::optional<double>& digits : p.digits)
      if (digits && !(*digits >= fewest)) fewest = *digits;
  }
  Report report(kRunGradcheckKeys);
  report.set("run", request.run);
  report.set("parameters", count);
  report.set("failed", failed);
  report.set("error", std::pow(10.0, -fewest));
  report.set("message", message);
  report.set("entries", entries);
  report.set("seconds", clock.seconds());
  report.set("float32", float32_value(float32));
  add_tensors(report, parameters);
  report.line(
      "{}: {} parameters in {} tensors, each in random directions; {} entries one by one, "
      "{};\n{} tensors failed",
      request.run, with_commas(count), parameters.size(), entries, seconds_text(clock.seconds()),
      failed);
  if (float32)
    report.line(
        "in float32{} on {} the loss and its {}\n  gradients err by at most {:.2f} of the bound",
        run.model.options.matmul == autograd::Precision::kFloat32
            ? ""
            : ", products of " + nn::enum_name(run.model.options.matmul) + ",",
        float32->target, with_commas(count), float32->worst);
  if (float32 && !float32->ok) report.line("FAILED {}", float32->message);
  report.fail(failed == 0 && (!float32 || float32->ok) ? kOk : kCheckFailed);
  return report;
}

}  // namespace heed
