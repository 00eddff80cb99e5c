#include "nn/study/patching.h"

#include <algorithm>
#include <cmath>

#include "autograd/engine/engine.h"
#include "nn/layers/probe.h"
#include "nn/layers/sites.h"
#include "nn/study/forward_passes.h"

namespace heed::nn {

using namespace autograd;

namespace {

struct PatchSite {
  const char* name;
  bool by_head;
};

std::vector<PatchSite> patched_sites(const Transformer::Options& o) {
  std::vector<PatchSite> sites{{"hook_resid_pre", false}, {"hook_attn_out", false}};
  if (o.mlp) sites.push_back({"hook_mlp_out", false});
  sites.push_back({"attn.hook_z", true});
  return sites;
}

struct PromptRun {
  double value;                         // L of the prompt
  std::vector<std::vector<Tensor>> at;  // by site, then by layer: [1, T, ...]
};

// Runs `prompt` and computes L with the targets of `clean`. Then L is the same function of the
// logits for the two prompts.
PromptRun run_prompt(const Transformer& model, const Batch& prompt, const Batch& clean,
                     const Objective& objective) {
  const NoGrad guard;
  std::vector<std::string_view> sites;
  for (const PatchSite& site : patched_sites(model.options)) sites.push_back(site.name);
  RecordedForward run = record_forward(model, prompt.inputs, sites);
  return {objective_values(run.logits, clean, objective).item(), std::move(run.at)};
}

// L of n copies of the corrupt prompt as a function of a, [n]. Copy i adds a[i] * (clean - corrupt)
// to the activation at its place. So a[i] = 1 patches the place, and the estimates use the
// derivatives at a = 0.
struct PatchShares {
  const Transformer& model;
  const Batch& copies;
  const Objective& objective;
  std::string site;
  Tensor difference;  // [n, T, ...], clean - corrupt at each copy's place, 0 elsewhere

  Tensor values(const Tensor& a) const {  // a: [n]; returns [n]
    Shape shape = difference.shape();
    for (int i = 1; i < shape.rank(); ++i) shape[i] = 1;
    Probe probe;
    probe.replace(site, [&](const Tensor& x) { return x + reshape(a, shape) * difference; });
    return objective_values(model(copies.inputs, {.probe = &probe}), copies, objective);
  }
};

struct PatchOrders {
  std::vector<double> patched, first, second;  // by place: L(1), dL/da(0), d2L/da2(0)
};

void add_orders(PatchOrders& o, const PatchShares& s) {
  const std::int64_t n = s.difference.size(0);
  const DType dtype = s.difference.dtype();
  const auto append = [](std::vector<double>& to, const Tensor& x) {
    for (const double value : to_doubles(x)) to.push_back(value);
  };
  {
    const NoGrad guard;
    append(o.patched, s.values(ones({n}, dtype)));
  }
  const GradMode recording(true);
  const Tensor a = zeros({n}, dtype).requires_grad_();
  const Tensor first = grad(sum(s.values(a)), a, {.create_graph = true});
  append(o.first, first);
  // If L is linear in a and no weight requires a gradient, the first derivative has no graph. Then
  // the second derivative is 0.
  append(o.second,
         first.requires_grad() ? grad(sum(first), a, {.allow_unused = true}) : zeros_like(a));
}

// Computes L and its derivatives for all places of one site.
PatchOrders orders_of(const Transformer& model, const Batch& corrupt, const Objective& objective,
                      const std::string& site, bool by_head, const Tensor& difference) {
  const std::int64_t axis = by_head ? 2 : 1, places = difference.size(axis);
  PatchOrders o;
  for (std::int64_t begin = 0; begin < places; begin += kMaxCopies) {
    const std::int64_t count = std::min(kMaxCopies, places - begin);
    Shape own = difference.shape();
    for (int i = 0; i < own.rank(); ++i) own[i] = 1;
    own[0] = count, own[int(axis)] = places;
    const Tensor here = reshape(
        eq(unsqueeze(arange(double(begin), double(begin + count)), 1), arange(places)), own);
    const Tensor of_copies = where(here, difference, zeros({1}, difference.dtype()));
    const Batch copies = repeat_batch(corrupt, count);
    add_orders(o, {model, copies, objective, site, of_copies});
  }
  return o;
}

void check_prompts(const Batch& clean, const Batch& corrupt) {
  check_one_sequence("patching", clean), check_one_sequence("patching", corrupt);
  check<ValueError>(clean.inputs.size(1) == corrupt.inputs.size(1), "patching",
                    "the clean prompt has ", clean.inputs.size(1), " tokens, the corrupt prompt ",
                    corrupt.inputs.size(1),
                    "; give prompts of equal length, so that positions correspond");
}

}  // namespace

Patching patching(const Transformer& model, const Batch& clean, const Batch& corrupt,
                  const Objective& objective) {
  check_prompts(clean, corrupt);
  const PromptRun whole = run_prompt(model, clean, clean, objective),
                  broken = run_prompt(model, corrupt, clean, objective);
  const double gap = whole.value - broken.value;
  check<ValueError>(std::abs(gap) > 1e-6, "patching", "L is ", whole.value,
                    " on both prompts, so a patch has nothing to restore; change a token that L "
                    "depends on");
  Batch start;  // the corrupt prompt with the clean prompt's targets
  start.inputs = corrupt.inputs, start.targets = clean.targets;
  const std::vector<PatchSite> sites = patched_sites(model.options);
  Patching result{whole.value, broken.value, {}, {}, {}};
  for (std::size_t s = 0; s < sites.size(); ++s) {
    const std::int64_t columns = broken.at[s][0].size(sites[s].by_head ? 2 : 1);
    PatchMap map{sites[s].name, sites[s].by_head, model.options.layers, columns, {}, {}, {}};
    for (std::int64_t layer = 0; layer < map.layers; ++layer) {
      const std::size_t l = std::size_t(layer);
      const PatchOrders o = orders_of(model, start, objective, block_site(layer, map.site),
                                      map.by_head, whole.at[s][l] - broken.at[s][l]);
      for (std::size_t i = 0; i < o.patched.size(); ++i) {
        map.effect.push_back((o.patched[i] - broken.value) / gap);
        map.first_order.push_back(o.first[i] / gap);
        map.second_order.push_back((o.first[i] + o.second[i] / 2) / gap);
      }
    }
    result.maps.push_back(map);
  }
  result.first_order = estimate_fit(result.maps, &PatchMap::first_order);
  result.second_order = estimate_fit(result.maps, &PatchMap::second_order);
  return result;
}

EstimateFit estimate_fit(const std::vector<PatchMap>& maps,
                         std::vector<double> PatchMap::*estimate) {
  EstimateFit fit{};
  double n = 0, mean_x = 0, mean_y = 0, xx = 0, yy = 0, xy = 0, worst = -1;
  for (const PatchMap& map : maps) {
    const std::vector<double>& estimates = map.*estimate;
    check(estimates.size() == map.effect.size(), "estimate_fit", map.site, " has ",
          map.effect.size(), " effects and ", estimates.size(), " estimates");
    for (std::size_t i = 0; i < estimates.size(); ++i) {
      const double x = map.effect[i], y = estimates[i];
      const double from_x = x - mean_x, from_y = y - mean_y;  // Welford's running moments
      ++n, mean_x += from_x / n, mean_y += from_y / n;
      xx += from_x * (x - mean_x), yy += from_y * (y - mean_y), xy += from_x * (y - mean_y);
      if (std::abs(y - x) <= worst) continue;
      worst = std::abs(y - x);
      fit.worst = {map.site, std::int64_t(i) / map.columns, std::int64_t(i) % map.columns, x, y};
    }
  }
  fit.r = xy / std::sqrt(xx * yy), fit.slope = xy / xx;
  return fit;
}

}  // namespace heed::nn
