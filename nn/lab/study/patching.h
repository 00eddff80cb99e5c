// Activation patching over pairs of sequences: one activation of a run is replaced by its value in
// the run on the other sequence of the pair. `denoise` patches the clean value into the corrupt
// run and shows what is sufficient for the L of the clean sequence. `noise` patches the corrupt
// value into the clean run and shows what is necessary. Exchanging clean and corrupt exchanges the
// two.
#pragma once

#include <string>
#include <vector>

#include "nn/lab/study/evidence.h"

namespace heed::lab {

/// The result of patching().
struct Patching {
  /// A place that is patched.
  struct Place {
    std::string site;  ///< name of the activation in its block, such as "attn.hook_z"
    bool by_head;      ///< true: `column` is a head, at all positions; false: a position
    Index layer;       ///< index of the block
    Index column;      ///< head or position; for keys and values, a head of keys and values
    Index width;       ///< for keys and values: number of heads that share them; otherwise 1
    /// Returns the name: "L1H0-1 v" or "L0 resid_pre at 3".
    std::string name() const;
  };
  double clean = 0;                ///< L of the clean sequences, mean over the pairs
  double corrupt = 0;              ///< L of the corrupt sequences, mean over the pairs
  Index left_out = 0;              ///< number of unused pairs, whose gap (see patching()) is small
  Index wrong_clean = 0;           ///< pairs in which the model gets the clean sequence wrong
  std::vector<Place> places = {};  ///< the patched places
  ///@{
  /// By place, shares of the gaps: 0 means that nothing changes, 1 that the patch has the effect of
  /// exchanging the sequences. A share is a ratio of sums over the pairs.
  std::vector<Effect> denoise = {};  ///< clean values in the corrupt run
  std::vector<Effect> noise = {};    ///< corrupt values in the clean run
  ///@}
};

/// Patches every place: hook_resid_pre, hook_attn_out and hook_mlp_out by position, and q, k, v, z
/// and the pattern by head, in every layer. `clean` and `corrupt` are sequences [N, T]; row i of
/// both is a pair. All runs compute L with the targets of the clean sequences. The gap of a pair is
/// L(clean) - L(corrupt). L of a pair is multiplied by the sign of its gap, so that gaps of both
/// signs do not cancel. A pair is left out if its |gap| is below 10 % of the median or at
/// most 1e-6. `progress` receives the number of steps done and their total. Throws ShapeError if
/// the batches have different shapes, ValueError if no pair has a gap above 1e-6, and NumericError
/// if L or an effect is not finite. With `heads_only`, patches no positions.
Patching patching(const Transformer& model, const Batch& clean, const Batch& corrupt,
                  const Objective& objective, bool heads_only = false,
                  const ProgressCallback& progress = {});

}  // namespace heed::lab
