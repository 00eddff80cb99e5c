// Ablation measures the change of the objective L when the outputs of components (heads, MLPs, the
// embedding) are replaced.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "nn/lab/settings/setting.h"
#include "nn/lab/study/donors.h"
#include "nn/lab/study/forward_passes.h"
#include "nn/layers/sites.h"

namespace heed::lab {

/// The effect of an intervention: the change of the objective L, summarized over sequences. All
/// numbers except `sequences` and `accuracy` have the unit of L.
struct Effect {
  double mean = 0;            ///< change of L, mean over the positions of L in all sequences
  double standard_error = 0;  ///< of `mean`, by a jackknife over sequences; NaN for one sequence
  Index sequences = 0;        ///< number of sequences
  /// Standard deviation of the mean change over donors; NaN for one donor.
  double donor_deviation = NAN;
  /// accuracy() with the intervention, 0 to 1; NaN if it was not measured or no position counts
  double accuracy = NAN;
  std::vector<double> changes = {};  ///< by sequence, mean over the donors
};
/// Returns the sum of the numerators divided by the sum of the denominators, with its jackknife
/// standard error (NaN for one entry). Both lists have equal, positive sizes.
Effect ratio_of_sums(const std::vector<double>& numerators,
                     const std::vector<double>& denominators);
/// Returns the effect with these changes of L by sequence, weighted by BaseRun::counts. An empty
/// list of weights stands for equal weights. Throws ValueError if `changes` is empty.
Effect effect_of(const std::vector<double>& changes, const std::vector<double>& weights = {});

/// The value that replaces the output of a component. The output of a head is z, before the
/// output projection. The values come from a run of the model without any replacement.
enum class Ablation {
  kResample,  ///< the output on a donor (Donors) at the same position
  kZero,      ///< zeros
  kMean,      ///< mean over the sequences that hold a token at the position
};
/// Names of the kinds of ablation in configurations.

/// The outputs of all components that replace those of the studied sequences.
class Replacement {
 public:
  ///@{
  /// Returns what replaces z, the output of the MLP, the stream before the first block, and the
  /// values. It broadcasts to their shapes.
  Tensor z(Index layer) const { return of(z_[std::size_t(layer)]); }
  Tensor mlp(Index layer) const { return of(mlp_[std::size_t(layer)]); }
  Tensor embed() const { return of(embed_); }
  Tensor v(Index layer) const { return of(v_[std::size_t(layer)]); }
  ///@}
  /// Returns the change of what a component adds to the stream, [B, T, D]. `embed`, and `z` and
  /// `mlp` by layer, are the replaced values.
  Tensor change_of(const Component& c, const Transformer& model, const Tensor& embed,
                   const std::vector<Tensor>& z, const std::vector<Tensor>& mlp) const;
  /// Returns the replacements of the sequences [first, first + count).
  Replacement of(Index first, Index count) const;

 private:
  friend std::vector<Replacement> replacements(const Transformer&, const Donors&, Ablation);
  Tensor of(const Tensor& x) const;
  std::vector<Tensor> z_, v_, mlp_;
  Tensor embed_;
  Tensor rows_;  // [B], rows of the tensors; undefined: they broadcast
};
/// Runs the model on the source of the donors and returns the replacements of this kind: one for
/// each donor for kResample, and otherwise one.
std::vector<Replacement> replacements(const Transformer& model, const Donors& donors,
                                      Ablation how = Ablation::kResample);

/// Returns L of each sequence, [B], if the outputs of all components in `cut` are replaced at once.
/// `cut` may be empty. Sets *accuracy to accuracy(), unless it is null. Throws ValueError if `cut`
/// contains a component that the model does not have.
std::vector<double> values_without(const BaseRun& run, const std::vector<Component>& cut,
                                   const Replacement& replaced, double* accuracy = nullptr);
/// Returns the effect of an intervention with each of the replacements, from L of each sequence
/// with the intervention: values(replacement, accuracy). Throws NumericError if it is not finite;
/// `what` names it.
template <class Values>
Effect effect_over(const BaseRun& run, const std::vector<Replacement>& replaced,
                   const std::string& what, const Values& values);
/// Returns the change of L, and the accuracy, if the outputs of all components in `cut` are
/// replaced at once. Throws the errors of values_without() and effect_over().
Effect ablate(const BaseRun& run, const std::vector<Component>& cut,
              const std::vector<Replacement>& replaced);

/// Returns the heads of the model, then its MLPs, by layer.
std::vector<Component> all_components(const Transformer::Options& model);
/// Returns the heads of the model that are not in `kept`. If `kept` contains an MLP, also returns
/// the MLPs that are not in `kept`.
std::vector<Component> other_components(const Transformer& model,
                                        const std::vector<Component>& kept);

/// Returns the effect with the changes of each donor, by donor and then by sequence, and sets its
/// deviation over donors.
Effect effect_of_donors(const std::vector<std::vector<double>>& changes,
                        const std::vector<double>& weights);

template <class Values>
Effect effect_over(const BaseRun& run, const std::vector<Replacement>& replaced,
                   const std::string& what, const Values& values) {
  std::vector<std::vector<double>> changes;
  double total = 0;
  for (const Replacement& r : replaced) {
    double accuracy = NAN;
    changes.push_back(run.changes(values(r, &accuracy)));
    total += accuracy;
  }
  Effect effect = effect_of_donors(changes, run.counts);
  effect.accuracy = total / double(replaced.size());
  check_finite(effect.mean, "study", "the effect of " + what);
  return effect;
}

}  // namespace heed::lab

template <>
inline constexpr auto heed::nn::kEnumNames<heed::lab::Ablation> = std::to_array({"resample", "zero",
                                                                                 "mean"});
