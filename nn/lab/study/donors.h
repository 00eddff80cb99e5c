// Donors: the sequences whose values replace those of the studied sequences. A study draws them
// once and uses them for components, edges, cells and gradients, so that its numbers are
// comparable.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/lab/tasks/task.h"
#include "nn/layers/transformer.h"

namespace heed::lab {

/// For each sequence of a batch, some sequences of the same length.
struct Donors {
  Batch source;                   ///< N sequences from which values are taken
  std::vector<Tensor> rows = {};  ///< by donor: [B] int64, the row of `source` for each sequence

  /// Returns the donors of the sequences [first, first + count).
  Donors of(Index first, Index count) const;
  /// Returns the first donor of each sequence alone.
  Donors first() const { return {source, {rows[0]}}; }
};

inline constexpr Index kDonors = 4;         ///< donors of each sequence of a sample
inline constexpr Index kPromptDonors = 16;  ///< donors of a prompt
/// Least number of sequences of one length: a sequence is not its own donor.
inline constexpr Index kLeastSequences = kDonors + 1;

/// Sequences with their donors.
struct DonorSample {
  Batch batch;         ///< the sequences
  Donors donors;       ///< of `batch`
  Index left_out = 0;  ///< sequences whose length fewer than kLeastSequences have
};
/// Draws donors: within the sequences of equal length, one random order and cyclic shifts by
/// kDonors distinct offsets. Every sequence is equally often a donor. If no length has
/// kLeastSequences sequences, Donors has no rows, and the batch is `batch`.
DonorSample with_donors(const Batch& batch, std::uint64_t seed = 1);

/// Returns up to kPromptDonors copies of a prompt [1, T], each with one donor: a sequence of the
/// task's evaluation set, cut to the length of the prompt. With fewer than kLeastSequences donors
/// of this length, Donors has no rows, and the batch is the prompt alone.
DonorSample with_donors(const Batch& prompt, const Task& task);

/// Returns some sequences of a batch.
Batch rows_of(const Batch& batch, const std::vector<Index>& sequences);

}  // namespace heed::lab
