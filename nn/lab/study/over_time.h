// Components over training time: their effects at every checkpoint of a run, on the same sequences.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nn/lab/run/run_folder.h"
#include "nn/lab/study/roles.h"

namespace heed::lab {

/// The numbers of one component at each checkpoint. Those after `gradient` are NaN for an MLP.
struct ComponentCurves {
  std::string name;  ///< "L1H0"
  std::optional<HeadIndex> head = {};
  bool counts = false;       ///< the effect counts at one checkpoint or more
  std::string pattern = {};  ///< the pattern of `score`: that with the largest score at the end
  std::vector<double> effect = {}, accuracy = {}, path = {}, gradient = {}, score = {}, values = {},
                      scores = {}, passes = {};
};
/// Describes one of the numbers of ComponentCurves.
struct CurveQuantity {
  const char* name;   ///< key in JSON: "effect"
  const char* title;  ///< title of its panel
  std::vector<double> ComponentCurves::*values;
};
/// Returns the descriptions of all numbers.
std::span<const CurveQuantity> curve_quantities();

/// Studies of all checkpoints of a run, on one batch and with one donor for each sequence.
struct OverTime {
  std::vector<Index> steps = {};  ///< of the checkpoints, ascending
  ///@{
  /// By step: L, its accuracy, and the mean losses over all targets and over those that count.
  std::vector<double> value = {}, accuracy = {}, loss = {}, counted_loss = {};
  ///@}
  double optimal_loss = NAN;                     ///< comparable with `loss`
  std::vector<std::vector<double>> resid = {};   ///< by place, then by step: GradientFlow::resid
  std::vector<ComponentCurves> components = {};  ///< in the order of all_components()
};

/// Loads the weights of each checkpoint into the model, and studies them. Afterwards the model
/// contains the weights of the last checkpoint. Throws IoError, with the name of the file, if a
/// checkpoint is damaged, does not fit the model, or has another step than its name. Throws IoError
/// if the recipe in a checkpoint (the settings of its run, see recipe_text()) differs from the
/// recipe in the first checkpoint. Throws NumericError if L is not finite.
OverTime over_time(Transformer& model, const std::vector<CheckpointFile>& checkpoints,
                   const DonorSample& sample, const Objective& objective,
                   const ProgressCallback& progress = {});

/// The two consecutive checkpoints between which the loss falls fastest per step. The loss is
/// "counted_loss", or "loss" if no position counts.
struct SteepestFall {
  Index from;  ///< step of the first checkpoint
  Index to;    ///< step of the second checkpoint
  /// Returns the step halfway between `from` and `to`.
  double middle() const { return double(from + to) / 2; }
};
/// Returns the steepest fall, or no value if the loss never falls.
std::optional<SteepestFall> steepest_fall(const OverTime& study);

}  // namespace heed::lab
