#include "nn/lab/study/patching.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "autograd/ops/ops.h"
#include "nn/layers/probe.h"
#include "nn/layers/sites.h"

namespace heed::lab {

using namespace autograd;

namespace {

struct PatchSite {
  const char* name;
  int axis;      // axis of the value whose indices are the places
  bool by_head;  // true: the places are heads; false: positions
};
constexpr PatchSite kPatchSites[] = {{"hook_resid_pre", 1, false},   {"hook_attn_out", 1, false},
                                     {"attn.hook_q", 2, true},       {"attn.hook_k", 2, true},
                                     {"attn.hook_v", 2, true},       {"attn.hook_z", 2, true},
                                     {"attn.hook_pattern", 1, true}, {"hook_mlp_out", 1, false}};

// Returns the sites that are patched: without an MLP, all but the last.
std::vector<PatchSite> sites_of(const Transformer::Options& o, bool heads_only) {
  std::vector<PatchSite> sites(std::begin(kPatchSites), std::end(kPatchSites) - (o.mlp ? 0 : 1));
  if (heads_only) std::erase_if(sites, [](const PatchSite& site) { return !site.by_head; });
  return sites;
}

// Returns L of each pair, [places, pairs], if the value of `run` at each place is replaced by that
// of `other`.
std::vector<std::vector<double>> patched_values(const BaseRun& run, const Tensor& other,
                                                const PatchSite& site, Index layer) {
  const Index pairs = other.size(0), places = other.size(site.axis),
              at_once = std::max<Index>(1, kMaxCopies / pairs);
  std::vector<std::vector<double>> values;
  for (Index begin = 0; begin < places; begin += at_once) {
    const Index count = std::min(at_once, places - begin);
    Shape here = other.shape();  // [count * pairs, 1, ..., places, ..., 1]
    for (int i = 0; i < here.rank(); ++i) here[i] = 1;
    here[0] = count * pairs, here[site.axis] = places;
    std::vector<bool> patched;
    for (Index copy = 0; copy < count; ++copy)
      for (Index i = 0; i < pairs * places; ++i) patched.push_back(i % places == begin + copy);
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
std::vector<Index> pairs_with_gap(const std::vector<double>& clean,
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
  std::vector<Index> kept;
  for (std::size_t i = 0; i < n; ++i)
    if (gaps[i] >= 0.1 * median && gaps[i] > 1e-6) kept.push_back(Index(i));
  check<ValueError>(!kept.empty(), "patching", "L is ", clean[0], " on both prompts",
                    n > 1 ? " of the first pair, and no pair has a gap above 1e-6" : "",
                    ", so a patch has nothing to restore; change a token that L depends on");
  return kept;
}

std::vector<Patching::Place> places_of(const Transformer::Options& o, Index length,
                                       bool heads_only) {
  std::vector<Patching::Place> places;
  for (const PatchSite& site : sites_of(o, heads_only)) {
    const std::string name = site.name;
    const bool is_shared = name.ends_with("_k") || name.ends_with("_v");
    const Index width = is_shared ? o.attention.heads / o.attention.kv_heads : 1,
                count = site.by_head ? o.attention.heads / width : length;
    for (Index i = 0; i < o.layers * count; ++i)
      places.push_back({name, site.by_head, i / count, i % count, width});
  }
  return places;
}

// Patches values of `from` into `into`. Row i of `from` and row i of `into` are a pair. The share
// of a pair is the change of L times sign[i], divided by the sum of |gap|. `step` is called after
// each site of each layer.
std::vector<Effect> patched(const BaseRun& into, const BaseRun& from,
                            const std::vector<double>& sign, const std::vector<double>& sizes,
                            const std::vector<Patching::Place>& places, bool heads_only,
                            const std::function<void()>& step) {
  const Transformer& model = into.model();
  std::vector<std::vector<double>> gains(places.size());  // by place, then by pair
  const Index pairs = std::ssize(sizes), most = sequences_at_once(model, into.batch.inputs.size(1));
  for (Index begin = 0; begin < pairs; begin += most) {
    const Index count = std::min(most, pairs - begin);
    const BaseRun run = into.rows(begin, count), other = from.rows(begin, count);
    std::size_t place = 0;
    for (const PatchSite& site : sites_of(model.options, heads_only)) {
      const auto there = record_forward(model, other.batch.inputs, {site.name}).at[0];
      for (std::size_t l = 0; l < there.size(); ++l) {
        for (const auto& values : patched_values(run, there[l], site, Index(l))) {
          const auto changes = run.changes(values);
          for (Index pair = 0; pair < count; ++pair)
            gains[place].push_back(sign[std::size_t(begin + pair)] * changes[std::size_t(pair)]);
          ++place;
        }
        step();
      }
    }
  }
  std::vector<Effect> shares;
  for (std::size_t i = 0; i < places.size(); ++i) {
    shares.push_back(ratio_of_sums(gains[i], sizes));
    check_finite(shares.back().mean, "patching", "the effect at " + places[i].name());
  }
  return shares;
}

}  // namespace

std::string Patching::Place::name() const {
  const std::string short_site = site.substr(site.find("hook_") + 5);
  if (!by_head) return fmt::format("L{} {} at {}", layer, short_site, column);
  return head_range({layer, column * width}, width) + " " + short_site;
}

Patching patching(const Transformer& model, const Batch& clean, const Batch& corrupt,
                  const Objective& objective, bool heads_only, const ProgressCallback& progress) {
  const NoGrad guard;
  check_pairs(clean, corrupt);
  Batch start = clean;  // the corrupt sequences with the clean targets, so that L is the same
  start.inputs = corrupt.inputs;
  const BaseRun whole(model, clean, objective), broken(model, start, objective);
  const std::vector<Index> kept = pairs_with_gap(whole.values, broken.values);
  const BaseRun of_clean = whole.at(kept), of_corrupt = broken.at(kept);
  std::vector<double> sizes = of_corrupt.changes(of_clean.values), noise_sign, denoise_sign;
  for (double& gap : sizes) {
    denoise_sign.push_back(gap < 0 ? -1 : 1), noise_sign.push_back(gap < 0 ? 1 : -1);
    gap = std::abs(gap);
  }
  const auto count = double(whole.values.size());
  const double right =
      objective.kind == Objective::kPair ? accuracy(model(clean.inputs), clean, objective) : 1;
  Patching result{.clean = effect_of(of_clean.values).mean,
                  .corrupt = effect_of(of_corrupt.values).mean,
                  .left_out = std::ssize(whole.values) - std::ssize(kept),
                  .wrong_clean = std::lround((1 - right) * count),
                  .places = places_of(model.options, clean.inputs.size(1), heads_only)};
  const Index most = sequences_at_once(model, clean.inputs.size(1)),
              parts = (std::ssize(kept) + most - 1) / most,
              steps = 2 * parts * model.options.layers *
                      std::ssize(sites_of(model.options, heads_only));
  Index done = 0;
  const auto step = [&] {
    if (progress) progress(++done, steps);
  };
  result.noise = patched(of_clean, of_corrupt, noise_sign, sizes, result.places, heads_only, step);
  result.denoise =
      patched(of_corrupt, of_clean, denoise_sign, sizes, result.places, heads_only, step);
  return result;
}

}  // namespace heed::lab
