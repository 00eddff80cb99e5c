// Activation patching over pairs of sequences: one activation of a run is replaced by its value in
// the run on the other sequence of the pair. `denoise` patches the clean value into the corrupt
// run and shows what is sufficient for the L of the clean sequence. `noise` patches the corrupt
// value into the clean run and shows what is necessary. Gradients predict both without a run for
// each place (attribution patching: Nanda 2023; Syed et al. 2023, arXiv 2310.10348).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/layers/transformer.h"
#include "nn/study/evidence.h"
#include "nn/study/objective.h"
#include "nn/train/progress_callback.h"

namespace heed::nn {

/// Returns the sum of the numerators divided by the sum of the denominators, with its
/// jackknife standard error (NaN for one pair). A ratio of sums depends less on pairs with a
/// small denominator than a mean of ratios does. Both lists have one entry for each pair and
/// are not empty.
Effect ratio_of_sums(const std::vector<double>& numerators,
                     const std::vector<double>& denominators);

/// The result of patching().
struct Patching {
  /// A place that is patched.
  struct Place {
    std::string site;     ///< name of the activation in its block, such as "attn.hook_z"
    bool by_head;         ///< true: `column` is a head, at all positions; false: a position
    std::int64_t layer;   ///< index of the block
    std::int64_t column;  ///< head or position; for keys and values, a head of keys and values
    std::int64_t width;   ///< for keys and values: number of heads that share them; otherwise 1
  };
  double clean = 0;                ///< L of the clean sequences, mean over the pairs
  double corrupt = 0;              ///< L of the corrupt sequences, mean over the pairs
  std::int64_t left_out = 0;       ///< number of unused pairs, whose gap (see patching()) is small
  std::vector<Place> places = {};  ///< the patched places
  /// The effects of one direction, in the order of `places`.
  struct Direction {
    /// The gain of L by the clean value, and its prediction "gradient": (clean value - corrupt
    /// value) . dL/d(value), in the run that is patched.
    std::vector<Evidence> gains = {};
    /// Gain and prediction as shares of the gap L(clean) - L(corrupt). 0 means that nothing
    /// changes.
    std::vector<Evidence> shares = {};
  };
  Direction denoise = {};  ///< clean values in the corrupt run; gain: L(patched) - L(corrupt)
  Direction noise = {};    ///< corrupt values in the clean run; gain: L(clean) - L(patched)
};

/// Patches every place: hook_resid_pre, hook_attn_out and hook_mlp_out by position, and q, k, v, z
/// and the pattern by head, in every layer. `clean` and `corrupt` are sequences [N, T]; row i of
/// both is a pair. All runs compute L with the targets of the clean sequences. The gap of a pair is
/// |L(clean) - L(corrupt)|. A pair is left out if its gap is below 10 % of the median gap or at
/// most 1e-6. `progress` receives the number of steps done and their total. Throws ShapeError if
/// the batches have different shapes, ValueError if no pair has a gap above 1e-6, and NumericError
/// if L or an effect is not finite.
Patching patching(const Transformer& model, const Batch& clean, const Batch& corrupt,
                  const Objective& objective, const ProgressCallback& progress = {});

}  // namespace heed::nn
