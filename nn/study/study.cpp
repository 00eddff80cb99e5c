#include "nn/study/study.h"

#include <cmath>
#include <limits>
#include <string>

#include "autograd/engine/engine.h"
#include "nn/layers/probe.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr const char* kSites[] = {"hook_q", "hook_k",           "hook_v",
                                  "hook_z", "hook_attn_scores", "hook_pattern"};

std::string attention_site(std::int64_t layer, const std::string& name) {
  return "blocks." + std::to_string(layer) + ".attn." + name;
}

// Norm of head h of x [1, T, H, d].
double head_norm(const Tensor& x, std::int64_t h) {
  const Tensor one = to(select(x, 2, h), float64);
  return std::sqrt(sum(one * one).item());
}

}  // namespace

HeadReport head_scores(std::span<const float> pattern, std::span<const std::int64_t> tokens) {
  const std::size_t n = tokens.size();
  check(pattern.size() == n * n, "head_scores", "needs ", n, " x ", n, " weights, got ",
        pattern.size());
  double entropy = 0, previous = 0, duplicate = 0, induction = 0;
  std::int64_t repeats = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const float* row = pattern.data() + i * n;
    bool seen = false;
    for (std::size_t j = 0; j < n; ++j)
      if (row[j] > 0) entropy -= double(row[j]) * std::log(double(row[j]));
    if (i > 0) previous += double(row[i - 1]);
    for (std::size_t j = 0; j < i; ++j) {
      if (tokens[j] != tokens[i]) continue;
      seen = true;
      duplicate += double(row[j]);
      induction += double(row[j + 1]);
    }
    repeats += seen;
  }
  const auto mean = [](double sum, double count) {
    return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
  };
  HeadReport r{};
  r.entropy = mean(entropy, double(n));
  r.previous_token = mean(previous, double(n) - 1);
  r.duplicate_token = mean(duplicate, double(repeats));
  r.induction = mean(induction, double(repeats));
  return r;
}

Study study(const Transformer& model, const Batch& one, const Objective& objective) {
  check(one.inputs.rank() == 2 && one.inputs.size(0) == 1, "study",
        "needs one sequence [1, T], got ", one.inputs.shape());
  Probe probe;
  const Transformer::Options& o = model.options;
  for (std::int64_t layer = 0; layer < o.layers; ++layer)
    for (const char* site : kSites) probe.record(attention_site(layer, site));
  const GradMode recording(true);
  const Tensor value = mean(objective_values(model(one.inputs, {.probe = &probe}), one, objective));
  Study s;
  s.value = value.item();
  std::vector<Tensor> weights;  // the walk must pass every site; no .grad is touched
  for (const NamedTensor& p : parameters(model))
    if (p.tensor.needs_grad()) weights.push_back(p.tensor);
  grad(value, weights, {.allow_unused = true});
  const auto tokens = one.inputs.to_vector<std::int64_t>();
  for (std::int64_t layer = 0; layer < o.layers; ++layer) {
    for (const char* site : kSites) {
      const std::string name = attention_site(layer, site);
      s.arrays.push_back({name, probe.value(name)});
      s.arrays.push_back({name + "_grad", probe.value(name + "_grad")});
    }
    const Tensor patterns =
        contiguous(to(probe.value(attention_site(layer, "hook_pattern")), float32));
    const std::size_t size = tokens.size() * tokens.size();
    const std::int64_t group =  // of heads that share keys and values
        o.heads / model.blocks[std::size_t(layer)].attn.options.kv_heads;
    for (std::int64_t head = 0; head < o.heads; ++head) {
      HeadReport r = head_scores({patterns.data<float>() + std::size_t(head) * size, size}, tokens);
      r.layer = layer, r.head = head;
      r.dq = head_norm(probe.value(attention_site(layer, "hook_q_grad")), head);
      r.dk = head_norm(probe.value(attention_site(layer, "hook_k_grad")), head / group);
      r.dv = head_norm(probe.value(attention_site(layer, "hook_v_grad")), head / group);
      s.heads.push_back(r);
    }
  }
  return s;
}

}  // namespace heed::nn
