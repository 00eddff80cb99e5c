// Helpers for studies that run a model: a forward pass that records values in every layer, and a
// batch of copies of a sequence, with which one forward pass measures many interventions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nn/lab/study/objective.h"
#include "nn/lab/tasks/task.h"
#include "nn/layers/transformer.h"

namespace heed::lab {

/// The logits of a forward pass, and the values that it recorded.
struct RecordedForward {
  Tensor logits;                        ///< [B, T, classes]
  std::vector<std::vector<Tensor>> at;  ///< values by site, in the order of `sites`, then by layer
};
/// Runs the model on inputs [B, T]. Records the values at the given sites, such as "attn.hook_z",
/// of every block.
RecordedForward record_forward(const Transformer& model, const Tensor& inputs,
                               const std::vector<std::string_view>& sites);

/// The unchanged forward pass of a model on sequences [B, T]. A pass with a change in a block
/// starts from the stream before this block, so that earlier blocks are not computed again.
struct BaseRun {
  /// Runs the model. The model must outlive the run. Throws the errors of objective_values().
  BaseRun(const Transformer& model, const Batch& batch, const Objective& objective);

  Batch batch;                    ///< the sequences
  Objective objective;            ///< L
  std::vector<Tensor> resid_pre;  ///< by layer [B, T, d_model], the stream before each block
  std::vector<double> values;     ///< [B], L of each sequence
  std::vector<double> counts;     ///< [B], counts_of() the sequences: their weights in a mean

  /// Returns the model.
  const Transformer& model() const { return *model_; }
  /// Returns L of each sequence, [B], in a pass that starts before block `layer`. The probe changes
  /// values in this block and later ones. Throws ValueError for a layer that the model does not
  /// have. Sets *accuracy to accuracy() of this pass, unless it is null.
  Tensor values_from(Index layer, Probe& probe, double* accuracy = nullptr) const;
  /// Returns the run of n copies of the batch of B sequences, without running the model. Sequence i
  /// is sequence i % B of the batch. Only values_from() and changes() may be called on the result.
  BaseRun repeated(Index n) const;
  /// Returns the run of some of the sequences, without running the model.
  BaseRun at(const std::vector<Index>& sequences) const;
  /// Returns the run of the sequences [first, first + count), without running the model.
  BaseRun rows(Index first, Index count) const;
  /// Returns the changes of L, [B]: `changed` minus `values`.
  std::vector<double> changes(const std::vector<double>& changed) const;

 private:
  const Transformer* model_;
};

/// Largest number of copies of a sequence in one batch. It bounds the memory of a study.
inline constexpr Index kMaxCopies = 32;

/// Returns how many sequences of `length` tokens can be studied at once in about 256 MB, at
/// least 1.
Index sequences_at_once(const Transformer& model, Index length);

/// Returns a mask that is true where a batch contains a token and false at padding, [B, T], bool8.
Tensor holds_token(const Batch& batch);
/// Returns n copies of rows x [B, ...]: row i of the result [n B, ...] is row i % B of x.
Tensor repeat_rows(const Tensor& x, Index n);

/// Throws NumericError unless `value` is finite. `what` names the value.
void check_finite(double value, std::string_view caller, const std::string& what);
/// Throws ValueError if the model has NormPlacement::kPost, with which the output of one component
/// cannot be separated from the stream.
void check_separable(const Transformer& model, std::string_view caller);

/// Returns the elements of a tensor of any dtype as doubles.
std::vector<double> to_doubles(const Tensor& x);

}  // namespace heed::lab
