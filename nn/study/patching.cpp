#include "nn/study/patching.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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
  int axis;      // of the places
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

// The runs on some of the pairs, and the values and gradients in them.
struct PairRuns {
  BaseRun clean, corrupt;
  Study clean_study, corrupt_study;
};

// Numbers of one place by pair.
struct PlaceValues {
  std::vector<double> gain, predicted;
};

// Returns [pairs, places]: the sum of (clean - corrupt) . gradient over all other axes.
Tensor predictions(const Tensor& clean, const Tensor& corrupt, const Tensor& gradient, int axis) {
  const Tensor change = to(clean, float64) - to(corrupt, float64);
  // dL/dA is not 0 where the mask hides a key, but the patterns are equal there.
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

// Appends the numbers of some pairs to those of each place. Returns the number of places.
std::size_t add_pairs(std::vector<PlaceValues>& places, const PairRuns& runs, bool denoise,
                      std::size_t first, const PatchSite& site, std::int64_t layer) {
  const LayerStudy &clean = runs.clean_study.layers[std::size_t(layer)],
                   &corrupt = runs.corrupt_study.layers[std::size_t(layer)];
  const BaseRun& run = denoise ? runs.corrupt : runs.clean;
  const auto values = patched_values(run, (denoise ? clean : corrupt).*site.value, site, layer);
  const Tensor predicted = predictions(clean.*site.value, corrupt.*site.value,
                                       (denoise ? corrupt : clean).*site.gradient, site.axis);
  if (places.size() < first + values.size()) places.resize(first + values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t pair = 0; pair < run.values.size(); ++pair) {
      const double gain = values[i][pair] - run.values[pair];
      PlaceValues& place = places[first + i];
      place.gain.push_back(denoise ? gain : -gain);
      place.predicted.push_back(predicted.at({std::int64_t(pair), std::int64_t(i)}));
    }
  return values.size();
}

void check_pairs(const Batch& clean, const Batch& corrupt) {
  check(clean.inputs.rank() == 2 && clean.inputs.shape() == corrupt.inputs.shape(), "patching",
        "needs pairs of sequences [N, T], got ", clean.inputs.shape(), " clean and ",
        corrupt.inputs.shape(),
        " corrupt tokens; give prompts of equal length, so that positions "
        "correspond");
}

// Returns the pairs whose gap is at least 10 % of the median gap.
std::vector<std::int64_t> pairs_with_gap(const std::vector<double>& clean,
                                         const std::vector<double>& corrupt) {
  std::vector<double> gaps;
  for (std::size_t i = 0; i < clean.size(); ++i) {
    gaps.push_back(std::abs(clean[i] - corrupt[i]));
    check<NumericError>(std::isfinite(gaps[i]), "patching", "L of pair ", i, " is not finite");
  }
  std::vector<double> sorted = gaps;
  std::ranges::sort(sorted);
  const std::size_t n = sorted.size();
  const double median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
  std::vector<std::int64_t> kept;
  for (std::size_t i = 0; i < n; ++i)
    if (gaps[i] >= 0.1 * median && gaps[i] > 1e-6) kept.push_back(std::int64_t(i));
  check<ValueError>(!kept.empty(), "patching", "L is ", clean[0], " on both prompts",
                    n > 1 ? " of the first pair, and no pair has a gap of 1e-6" : "",
                    ", so a patch has nothing to restore; change a token that L depends on");
  return kept;
}

// Returns "L1 resid_pre at 3", or "L1H0 z" for a head.
std::string place_name(const Patching::Place& p, const MultiHeadAttention::Options& o) {
  const std::string site = p.site.substr(p.site.find("hook_") + 5);
  if (!p.by_head) return fmt::format("L{} {} at {}", p.layer, site, p.column);
  const std::int64_t group = site == "k" || site == "v" ? o.heads / o.kv_heads : 1;
  return head_range({p.layer, p.column * group}, group) + " " + site;
}

}  // namespace

Ratio ratio_of_sums(const std::vector<double>& numerators,
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
  return {above / below, n > 1 ? std::sqrt((n - 1) / n * square) : NAN};
}

Patching patching(const Transformer& model, const Batch& clean, const Batch& corrupt,
                  const Objective& objective, const ProgressCallback& progress) {
  const NoGrad guard;
  check_pairs(clean, corrupt);
  Batch start = clean;  // the corrupt sequences with the clean targets, so that L is the same
  start.inputs = corrupt.inputs;
  const BaseRun whole(model, clean, objective), broken(model, start, objective);
  const std::vector<std::int64_t> kept = pairs_with_gap(whole.values, broken.values);
  const Transformer::Options& o = model.options;
  std::vector<PlaceValues> by_direction[2];
  std::vector<double> clean_values, gaps;
  const std::int64_t most = sequences_at_once(model, clean.inputs.size(1)),
                     parts = (std::ssize(kept) + most - 1) / most;
  const std::int64_t steps = 2 * parts * o.layers * std::int64_t(o.mlp ? 8 : 7);
  std::int64_t done = 0;
  Patching result{};
  result.left_out = std::ssize(whole.values) - std::ssize(kept);
  for (std::size_t begin = 0; begin < kept.size(); begin += std::size_t(most)) {
    const std::vector<std::int64_t> part(
        kept.begin() + std::ptrdiff_t(begin),
        kept.begin() + std::ptrdiff_t(std::min(begin + std::size_t(most), kept.size())));
    const BaseRun of_clean = whole.at(part), of_corrupt = broken.at(part);
    const PairRuns runs{of_clean, of_corrupt, study(model, of_clean.batch, of_clean.objective),
                        study(model, of_corrupt.batch, of_corrupt.objective)};
    for (std::size_t i = 0; i < part.size(); ++i) {
      clean_values.push_back(of_clean.values[i]);
      gaps.push_back(of_clean.values[i] - of_corrupt.values[i]);
    }
    std::size_t first = 0;
    for (const PatchSite& site : kPatchSites) {
      if (site.value == &L::mlp_out && !o.mlp) continue;
      for (std::int64_t layer = 0; layer < o.layers; ++layer) {
        std::size_t count = 0;
        for (const bool denoise : {false, true}) {
          count = add_pairs(by_direction[denoise], runs, denoise, first, site, layer);
          if (progress) progress(++done, steps);
        }
        for (std::size_t i = 0; begin == 0 && i < count; ++i)
          result.places.push_back({site.name, site.by_head, layer, std::int64_t(i)});
        first += count;
      }
    }
  }
  for (const bool denoise : {false, true})
    for (std::size_t i = 0; i < result.places.size(); ++i) {
      const auto& [gain, predicted] = by_direction[denoise][i];
      const Evidence e{place_name(result.places[i], o.attention),
                       effect_of(gain),
                       {{"gradient", effect_of(predicted)}}};
      const Share share{ratio_of_sums(gain, gaps), ratio_of_sums(predicted, gaps).value};
      check<NumericError>(std::isfinite(share.value + share.predicted), "patching",
                          "the effect at ", e.place, " is not finite");
      (denoise ? result.denoise : result.noise).push_back(e);
      (denoise ? result.denoise_shares : result.noise_shares).push_back(share);
    }
  result.clean = effect_of(clean_values).mean;
  result.corrupt = result.clean - effect_of(gaps).mean;
  return result;
}

}  // namespace heed::nn
