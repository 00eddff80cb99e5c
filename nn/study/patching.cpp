#include "nn/study/patching.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "autograd/ops/ops.h"
#include "nn/layers/probe.h"
#include "nn/study/forward_passes.h"
#include "nn/study/study.h"

namespace heed::nn {

using namespace autograd;

namespace {

using L = LayerStudy;

struct PatchSite {
  const char* name;
  Tensor LayerStudy::*value;
  Tensor LayerStudy::*gradient;
  int axis;      // axis of `value` whose indices are the places
  bool by_head;  // true: the places are heads; false: positions
};
constexpr PatchSite kPatchSites[] = {
    {"hook_resid_pre", &L::resid_pre, &L::resid_pre_grad, 1, false},
    {"hook_attn_out", &L::attn_out, &L::attn_out_grad, 1, false},
    {"hook_mlp_out", &L::mlp_out, &L::mlp_out_grad, 1, false},
    {"attn.hook_q", &L::q, &L::q_grad, 2, true},
    {"attn.hook_k", &L::k, &L::k_grad, 2, true},
    {"attn.hook_v", &L::v, &L::v_grad, 2, true},
    {"attn.hook_z", &L::z, &L::z_grad, 2, true},
    {"attn.hook_pattern", &L::pattern, &L::pattern_grad, 1, true}};

// Returns [pairs, places]: the sum of (other - own) . gradient over all other axes.
Tensor predictions(const Tensor& other, const Tensor& own, const Tensor& gradient, int axis) {
  const Tensor change = to(other, float64) - to(own, float64);
  // dL/dA may be nonzero where the mask hides a key, but both patterns are 0 there.
  const Tensor product = change * to(gradient, float64);
  Dims others;
  for (int i = 1; i < product.rank(); ++i)
    if (i != axis) others.push_back(i);
  return sum(product, others);
}

// Returns L of each pair, [places, pairs], if the value of `run` at each place is replaced by that
// of `other`.
std::vector<std::vector<double>> patched_values(const BaseRun& run, const Tensor& other,
                                                const PatchSite& site, std::int64_t layer) {
  const std::int64_t pairs = other.size(0), places = other.size(site.axis),
                     at_once = std::max<std::int64_t>(1, kMaxCopies / pairs);
  std::vector<std::vector<double>> values;
  for (std::int64_t begin = 0; begin < places; begin += at_once) {
    const std::int64_t count = std::min(at_once, places - begin);
    Shape here = other.shape();  // [count * pairs, 1, ..., places, ..., 1]
    for (int i = 0; i < here.rank(); ++i) here[i] = 1;
    here[0] = count * pairs, here[site.axis] = places;
    std::vector<bool> patched;
    for (std::int64_t copy = 0; copy < count; ++copy)
      for (std::int64_t i = 0; i < pairs * places; ++i)
        patched.push_back(i % places == begin + copy);
    Probe probe;
    probe.replace(block_site(layer, site.name), [&](const Tensor& x) {
      return where(from_data(patched, here), repeat_rows(other, count), x);
    });
    const auto all = to_doubles(run.repeated(count).values_from(layer, probe));
    for (auto i = all.begin(); i != all.end(); i += pairs) values.emplace_back(i, i + pairs);
  }
  return values;
}

void check_pairs(const Batch& clean, const Batch& corrupt) {
  check(clean.inputs.rank() == 2 && clean.inputs.shape() == corrupt.inputs.shape(), "patching",
        "needs pairs of sequences [N, T], got ", clean.inputs.shape(), " clean and ",
        corrupt.inputs.shape(),
        " corrupt tokens; give prompts of equal length, so that positions "
        "correspond");
}

// Returns the pairs whose gap is at least 10 % of the median gap and above 1e-6.
std::vector<std::int64_t> pairs_with_gap(const std::vector<double>& clean,
                                         const std::vector<double>& corrupt) {
  std::vector<double> gaps;
  for (std::size_t i = 0; i < clean.size(); ++i) {
    gaps.push_back(std::abs(clean[i] - corrupt[i]));
    check_finite(gaps[i], "patching", "L of pair " + std::to_string(i));
  }
  std::vector<double> sorted = gaps;
  std::ranges::sort(sorted);
  const std::size_t n = sorted.size();
  const double median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
  std::vector<std::int64_t> kept;
  for (std::size_t i = 0; i < n; ++i)
    if (gaps[i] >= 0.1 * median && gaps[i] > 1e-6) kept.push_back(std::int64_t(i));
  check<ValueError>(!kept.empty(), "patching", "L is ", clean[0], " on both prompts",
                    n > 1 ? " of the first pair, and no pair has a gap above 1e-6" : "",
                    ", so a patch has nothing to restore; change a token that L depends on");
  return kept;
}

std::vector<Patching::Place> places_of(const Transformer::Options& o, std::int64_t length) {
  std::vector<Patching::Place> places;
  for (const PatchSite& site : kPatchSites) {
    if (site.value == &L::mlp_out && !o.mlp) continue;
    const bool is_shared = site.value == &L::k || site.value == &L::v;
    const std::int64_t width = is_shared ? o.attention.heads / o.attention.kv_heads : 1,
                       count = site.by_head ? o.attention.heads / width : length;
    for (std::int64_t i = 0; i < o.layers * count; ++i)
      places.push_back({site.name, site.by_head, i / count, i % count, width});
  }
  return places;
}

// Returns "L1 resid_pre at 3", or "L1H0 z" for a head.
std::string place_name(const Patching::Place& p) {
  const std::string site = p.site.substr(p.site.find("hook_") + 5);
  if (!p.by_head) return fmt::format("L{} {} at {}", p.layer, site, p.column);
  return head_range({p.layer, p.column * p.width}, p.width) + " " + site;
}

// Patches values of `from` into `into`. Row i of `from` and row i of `into` are a pair. The gain is
// `sign` times the change of L. `step` is called after each site of each layer.
Patching::Direction patched(const BaseRun& into, const BaseRun& from, double sign,
                            const std::vector<double>& gaps,
                            const std::vector<Patching::Place>& places,
                            const std::function<void()>& step) {
  const Transformer& model = into.model();
  std::vector<std::vector<double>> gains(places.size()), predicted(places.size());  // by pair
  const std::int64_t pairs = std::ssize(gaps),
                     most = sequences_at_once(model, into.batch.inputs.size(1));
  for (std::int64_t begin = 0; begin < pairs; begin += most) {
    const std::int64_t count = std::min(most, pairs - begin);
    const BaseRun run = into.rows(begin, count), other = from.rows(begin, count);
    const Study own = study(model, run.batch, run.objective),
                others = study(model, other.batch, other.objective);
    std::size_t place = 0;
    for (const PatchSite& site : kPatchSites)
      for (std::size_t l = 0; l < own.layers.size(); ++l) {
        const LayerStudy &here = own.layers[l], &there = others.layers[l];
        if (!(here.*site.value).defined()) continue;  // no MLP
        const Tensor slopes =
            predictions(there.*site.value, here.*site.value, here.*site.gradient, site.axis);
        const auto values = patched_values(run, there.*site.value, site, std::int64_t(l));
        for (std::size_t i = 0; i < values.size(); ++i, ++place)
          for (std::int64_t pair = 0; pair < count; ++pair) {
            gains[place].push_back(sign *
                                   (values[i][std::size_t(pair)] - run.values[std::size_t(pair)]));
            predicted[place].push_back(sign * slopes.at({pair, std::int64_t(i)}));
          }
        step();
      }
  }
  Patching::Direction result;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::string name = place_name(places[i]);
    const Evidence share{
        name, ratio_of_sums(gains[i], gaps), {{"gradient", ratio_of_sums(predicted[i], gaps)}}};
    check_finite(share.effect.mean + share.predicted(), "patching", "the effect at " + name);
    result.gains.push_back({name, effect_of(gains[i]), {{"gradient", effect_of(predicted[i])}}});
    result.shares.push_back(share);
  }
  return result;
}

}  // namespace

Effect ratio_of_sums(const std::vector<double>& numerators,
                     const std::vector<double>& denominators) {
  double above = 0, below = 0;
  for (std::size_t i = 0; i < numerators.size(); ++i)
    above += numerators[i], below += denominators[i];
  const auto n = double(numerators.size());
  double mean = 0, square = 0;
  std::vector<double> without;  // the ratio without one pair
  for (std::size_t i = 0; i < numerators.size(); ++i) {
    without.push_back((above - numerators[i]) / (below - denominators[i]));
    mean += without.back() / n;
  }
  for (const double r : without) square += (r - mean) * (r - mean);
  return {above / below, n > 1 ? std::sqrt((n - 1) / n * square) : NAN, std::ssize(numerators)};
}

Patching patching(const Transformer& model, const Batch& clean, const Batch& corrupt,
                  const Objective& objective, const ProgressCallback& progress) {
  const NoGrad guard;
  check_pairs(clean, corrupt);
  Batch start = clean;  // the corrupt sequences with the clean targets, so that L is the same
  start.inputs = corrupt.inputs;
  const BaseRun whole(model, clean, objective), broken(model, start, objective);
  const std::vector<std::int64_t> kept = pairs_with_gap(whole.values, broken.values);
  const BaseRun of_clean = whole.at(kept), of_corrupt = broken.at(kept);
  const std::vector<double> gaps = of_corrupt.changes(of_clean.values);
  Patching result{.left_out = std::ssize(whole.values) - std::ssize(kept),
                  .places = places_of(model.options, clean.inputs.size(1))};
  const std::int64_t most = sequences_at_once(model, clean.inputs.size(1)),
                     parts = (std::ssize(kept) + most - 1) / most;
  const std::int64_t steps =
      2 * parts * model.options.layers * std::int64_t(model.options.mlp ? 8 : 7);
  std::int64_t done = 0;
  const auto step = [&] {
    if (progress) progress(++done, steps);
  };
  result.noise = patched(of_clean, of_corrupt, -1, gaps, result.places, step);
  result.denoise = patched(of_corrupt, of_clean, 1, gaps, result.places, step);
  result.clean = effect_of(of_clean.values).mean;
  result.corrupt = result.clean - effect_of(gaps).mean;
  return result;
}

}  // namespace heed::nn
