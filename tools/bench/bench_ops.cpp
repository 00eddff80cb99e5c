// `heed-bench ops`: the fixed cost of one op, the speed of the row kernels, and time and memory of
// attention on long sequences.
#include <cmath>

#include "autograd/base/parallel.h"
#include "autograd/base/pool.h"
#include "autograd/engine/engine.h"
#include "autograd/graph/graph.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/create.h"
#include "tools/bench/bench.h"
#include "tools/bench/turns.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"

namespace heed {
namespace {

using autograd::Tensor;

// Throws std::logic_error if `got` differs from `exact` by more than rounding, so that the speed of
// a wrong kernel is never reported.
void check_close(const std::string& name, const Tensor& got, const Tensor& exact) {
  const double scale = autograd::max(autograd::abs(exact)).item();
  const double error =
      autograd::max(autograd::abs(autograd::to(got, autograd::float64) - exact)).item();
  if (!(error <= 1e-5 * std::max(scale, 1.0)))
    throw std::logic_error(fmt::format("bench: the error of {} is {:.2g}", name, error));
}

// Measures the cost of a graph node and of its vjp (the backward function), with an addition of 8
// numbers.
void overhead(Report& report) {
  const Tensor a = autograd::randn({8}).requires_grad_(), b = autograd::randn({8}).requires_grad_();
  const Tensor ones = autograd::ones({8});
  const std::vector<Tensor> leaves = {a, b};
  Tensor y;
  const auto forward = [&] { y = a + b; };
  const auto both = [&] {
    y = a + b;
    autograd::backward(y, {.grad_output = ones});
    a.zero_grad(), b.zero_grad();
  };
  const auto s = seconds_by_turn({forward, both}, 21);
  const double ns[] = {median(s[0]) * 1e9, median_difference(s[1], s[0]) * 1e9};
  report.set("add", object_of(kAddKeys, {ns[0], ns[1]}));
  report.line(
      "a + b of two float32 leaves of shape [8] that require grad: forward with its graph node "
      "{:.0f} ns, backward into both .grad {:.0f} ns",
      ns[0], ns[1]);
}

struct RowOp {
  const char* name;
  int passes;  // arrays of the input's size that are read or written
  std::function<Tensor(const Tensor&)> f;
};

void time_rows(Report& report, Progress& progress) {
  const Tensor x = autograd::randn({2048, 512});
  const Tensor exact_x = autograd::to(x, autograd::float64);
  const Tensor target = autograd::randint(0, 512, {2048});
  const RowOp ops[] = {
      {"add", 2, [](const Tensor& t) { return t + t; }},
      {"exp", 2, [](const Tensor& t) { return exp(t); }},
      {"tanh", 2, [](const Tensor& t) { return tanh(t); }},
      {"gelu", 2, [](const Tensor& t) { return gelu(t); }},
      {"softmax", 2, [](const Tensor& t) { return softmax(t, -1); }},
      {"layer_norm", 2, [](const Tensor& t) { return layer_norm(t, t.size(-1)); }},
      {"rms_norm", 2, [](const Tensor& t) { return rms_norm(t, {}); }},
      {"cross_entropy", 1, [&](const Tensor& t) { return cross_entropy(t, target); }}};
  Table& table = report.table("rows");
  table.title = "[2048, 512] float32, forward and forward + backward";
  for (const RowOp& op : ops) {
    progress.at_work(fmt::format("Timing {}", op.name));
    check_close(op.name, op.f(x), op.f(exact_x));
    const Tensor leaf = x.detach().requires_grad_();
    const Tensor g = autograd::randn(op.f(x).shape());
    const std::vector<double> s = median_seconds(
        {[&] { op.f(x); }, [&] { autograd::grad(op.f(leaf), {leaf}, {.grad_output = g}); }});
    const double gbs = 4.0 * op.passes * double(x.numel()) / s[0] / 1e9;
    table.add({op.name, s[0] * 1e6, gbs, s[1] * 1e6});
    progress.clear();
  }
}

// Returns the peak memory in bytes of attention forward and backward, not counting the inputs, the
// output and the gradients.
double extra_bytes(const std::function<void()>& step, std::int64_t length) {
  const auto live = autograd::pool_stats().live_bytes;
  autograd::reset_peak_bytes();
  step();
  const auto peak = autograd::pool_stats().peak_bytes - live;
  const double kept = 4.0 * 32 * 4 * double(length);  // bytes of out, dq, dk and dv
  return double(peak) - kept;
}

void time_attention(Report& report, Progress& progress) {
  Table& table = report.table("attention");
  table.title = "attention, causal, one head of 32, forward + backward";
  const autograd::AttentionOptions causal{.causal = true};
  const auto fused = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    return autograd::attention(q, k, v, causal);
  };
  const auto composite = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    return autograd::attention_with_weights(q, k, v, causal).output;
  };
  for (const std::int64_t length : {1024, 2048, 4096, 8192}) {
    progress.at_work(fmt::format("Timing attention, T = {}", length));
    const auto draw = [&] { return autograd::randn({1, 1, length, 32}); };
    const auto leaf = [&] { return draw().requires_grad_(); };
    const Tensor q = leaf(), k = leaf(), v = leaf(), g = draw();
    {
      const autograd::NoGrad guard;
      check_close("attention", fused(q, k, v), autograd::to(composite(q, k, v), autograd::float64));
    }
    const auto step = [&](const auto& f) -> std::function<void()> {
      return [&] { autograd::grad(f(q, k, v), {q, k, v}, {.grad_output = g}); };
    };
    const std::vector<std::function<void()>> steps = {step(fused), step(composite)};
    const double bytes[] = {extra_bytes(steps[0], length), extra_bytes(steps[1], length)};
    const std::vector<double> s = median_seconds(steps, 3, 0);
    progress.clear();
    table.add({length, s[0] * 1e3, bytes[0], s[1] * 1e3, bytes[1]});
  }
}

}  // namespace

Report bench_ops(const BenchOptions& options) {
  autograd::set_num_threads(options.threads.back());
  autograd::manual_seed(1);
  Progress progress(false);
  Report report(kOpsKeys);
  report.set("threads", options.threads.back());
  overhead(report);
  time_rows(report, progress);
  time_attention(report, progress);
  return report;
}

}  // namespace heed
