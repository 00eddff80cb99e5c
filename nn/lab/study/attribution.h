// PredictedEffects of effects by gradients, for the replacement by donors, without a pass for each
// intervention. With out' for the output of a component on the donor:
//
//   gradient       (out' - out) . dL/dx, with dL/dx at the model itself
//   path gradient  the same with the mean of dL/dx at the inputs e' + ((k - 1/2) / 5) (e - e'),
//                  k = 1 to 5, where e is the stream before the first block (EAP-IG, Hanna et al.
//                  2024, arXiv 2403.17806)
//
// x is the place where the output is read: the stream after a component, the stream that one
// receiver reads (an edge), or the head's output z at a query, in which the cell (i, j) has the
// output A_ij v_j. A and the outputs are those of the unchanged model. The same passes give all of
// them.
#pragma once

#include <array>
#include <vector>

#include "nn/lab/study/ablation.h"
#include "nn/lab/study/edges.h"

namespace heed::lab {

inline constexpr int kPathPoints = 5;  ///< points of a path gradient

/// PredictedEffects for one list of interventions, by intervention and then by sequence: means over
/// the donors.
struct PredictedEffects {
  std::vector<std::vector<double>> gradient;  ///< with the gradient at the model
  std::vector<std::vector<double>> path;      ///< with the mean gradient along the path
};

/// First-order effects at the model itself, means over the sequences. They show where the gradient
/// saturates.
struct GradientFlow {
  std::vector<double> resid;   ///< |dL/d(stream)| before each block and, last, after the last one
  std::vector<double> values;  ///< by head: v . dL/dv = z . dL/dz, the slope of scaling its values
  std::vector<double> scores;  ///< by head: q . dL/dq, the slope of scaling its scores
  /// By head: mean of sum_j A (1 - A), weighted by `weights`: what passes through the softmax; 0
  /// for one-hot weights.
  std::vector<double> passes;
};

/// Result of attribute().
struct Attribution {
  PredictedEffects components;  ///< in the order of all_components()
  PredictedEffects edges;       ///< in the order of all_edges(); empty if they were not asked for
  /// By component, then by path point from the donor to the model: the prediction with the gradient
  /// at this point alone.
  std::vector<std::array<double, kPathPoints>> points;
  /// By layer, [B, H, T]: where the head matters, |(z' - z) . mean of dL/dz along the path| at each
  /// position, mean over the donors.
  std::vector<Tensor> weights;
  ///@{
  /// By layer, [H, Tq, Tk] float64: the predictions for cells, means over the sequences.
  std::vector<Tensor> cell_gradient, cell_path;
  ///@}
  GradientFlow flow;  ///< at the model itself
};

/// The parts of Attribution that attribute() computes besides components.
struct AttributionParts {
  bool edges = false;  ///< Attribution::edges
  bool cells = false;  ///< Attribution::cell_gradient and cell_path
};

/// Computes the predictions on the sequences of a run, in one forward and backward pass, and
/// kPathPoints for each donor. Throws ValueError if `edges` is set for NormPlacement::kPost, and
/// NumericError if a prediction is not finite.
Attribution attribute(const BaseRun& run, const Donors& donors, AttributionParts parts = {},
                      const ProgressCallback& progress = {});

/// Estimates the floating-point operations of attribute().
double attribution_work(const BaseRun& run, const Donors& donors, AttributionParts parts);
/// Returns the number of floating-point operations of a forward pass on one sequence.
double pass_work(const Transformer& model, Index length);

}  // namespace heed::lab
