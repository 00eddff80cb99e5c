#include "nn/lab/study/components.h"

#include <algorithm>

namespace heed::lab {

namespace {

// Returns a + b - c by sequence, as an effect.
Effect interaction(const Effect& both, const Effect& a, const Effect& b,
                   const std::vector<double>& weights) {
  std::vector<double> changes = both.changes;
  for (std::size_t i = 0; i < changes.size(); ++i) changes[i] -= a.changes[i] + b.changes[i];
  return effect_of(changes, weights);
}

}  // namespace

ComponentStudy study_components(const BaseRun& run, const Donors& donors, double smallest,
                                bool checks, const ProgressCallback& progress) {
  const Transformer& model = run.model();
  ComponentStudy s;
  s.value = effect_of(run.values, run.counts);
  s.components = all_components(model.options);
  const auto resample = replacements(model, donors),
             zero = replacements(model, donors, Ablation::kZero),
             mean = replacements(model, donors, Ablation::kMean);
  const std::vector<Component> heads = other_components(model, {});
  s.value.accuracy = ablate(run, {}, zero).accuracy;
  s.no_heads = ablate(run, heads, resample);
  const Donors used = attribution_work(run, donors, {}) <= kStudyWork || donors.rows.size() == 1
                          ? donors
                          : donors.first();
  s.path_donors = used.rows.size();
  const bool with_pairs = checks && heads.size() <= kMostPairedHeads;
  const Index steps =
      std::ssize(s.components) + Index(with_pairs ? heads.size() * (heads.size() - 1) / 2 : 0);
  Index done = 0;
  const auto step = [&] {
    if (progress) progress(++done, steps);
  };
  s.attribution = attribute(run, used);
  for (std::size_t i = 0; i < s.components.size(); ++i) {
    const Component& c = s.components[i];
    const auto predicted = [&](const std::vector<std::vector<double>>& by_row) {
      return effect_of(by_row[i], run.counts).mean;
    };
    s.rows.push_back({component_name(c), ablate(run, {c}, resample),
                      predicted(s.attribution.components.path),
                      predicted(s.attribution.components.gradient)});
    if (checks) s.zero.push_back(ablate(run, {c}, zero)), s.mean.push_back(ablate(run, {c}, mean));
    step();
  }
  s.judgement = judge(s.rows, smallest);
  for (std::size_t a = 0; with_pairs && a < heads.size(); ++a)
    for (std::size_t b = a + 1; b < heads.size(); ++b, step())
      s.pairs.push_back({a, b,
                         interaction(ablate(run, {heads[a], heads[b]}, resample), s.rows[a].effect,
                                     s.rows[b].effect, run.counts)});
  return s;
}

std::vector<Redundancy> ComponentStudy::redundant() const {
  std::vector<Redundancy> found;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (judgement.counts[row]) continue;
    std::optional<Redundancy> largest;
    for (const Interaction& pair : pairs) {
      if (pair.a != row && pair.b != row) continue;
      const double size = std::abs(pair.effect.mean);
      if (!(size >= judgement.floor_of(pair.effect))) continue;
      if (!largest || size > std::abs(largest->interaction))
        largest = {row, pair.a == row ? pair.b : pair.a, pair.effect.mean};
    }
    if (largest) found.push_back(*largest);
  }
  return found;
}

bool ComponentStudy::depends(std::size_t row) const {
  if (zero.empty()) return false;
  const double a = zero[row].mean / judgement.floor_of(zero[row]),
               b = mean[row].mean / judgement.floor_of(mean[row]);  // in floors
  const double small = std::min(std::abs(a), std::abs(b)),
               large = std::max(std::abs(a), std::abs(b));
  return (small >= 1 && a * b < 0) || (large >= 2 && small <= 0.5);
}

}  // namespace heed::lab
