// The diagnosis of a wrong gradient: the mistake of a closed list that explains it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "autograd/base/shape.h"

namespace heed::autograd {

class Tensor;

/// The mistake that explains a wrong gradient.
struct Diagnosis {
  /// One of "constant factor", "transposed", "not multiplied by dy", "row sum not subtracted",
  /// "mean not subtracted", "broadcast not summed", "mask not applied", "two inputs exchanged",
  /// "right only in the first entries" or "zero from an index on". Empty if no kind explains the
  /// gradient, or more than one.
  std::string kind = {};
  std::optional<double> factor = {};      ///< for "constant factor": given / right gradient
  std::optional<std::size_t> input = {};  ///< the wrong input; empty if there are several
  Index agree = 0;                        ///< number of entries that the mistake explains
  Index of = 0;                           ///< number of entries compared, of the wrong inputs
  /// The kind, or the possible kinds, and how many entries of each input are right. Empty if no
  /// entries were compared.
  std::string text = {};
};

/// A number with the largest error that rounding and finite differences can cause.
struct Estimate {
  double value = 0;  ///< the number
  double noise = 0;  ///< its largest error
};

/// For compared entries of one input, at their row-major positions: the right values of the
/// gradient for each gradient of the outputs.
using Estimates = std::map<std::size_t, std::vector<Estimate>>;

/// A gradient with the right values of some entries. Arrays are concatenated and row-major.
struct ComparedGradient {
  std::vector<Shape> inputs;                   ///< shape of each input
  std::vector<Shape> outputs;                  ///< shape of each output
  std::vector<double> y;                       ///< outputs
  std::vector<std::vector<double>> dys;        ///< gradients of the outputs
  std::vector<std::vector<double>> gradients;  ///< for each of `dys`, the result of backward
  std::vector<Estimates> right;                ///< right values for each input, for each of `dys`
  /// Returns the right values of an entry for other gradients of the outputs. `entry` is its
  /// position among the entries of all inputs.
  std::function<std::vector<Estimate>(std::size_t entry, const std::vector<std::vector<double>>&)>
      right_for;
};

/// Returns g, the gradient of an output to which `input` was broadcast, with 0 for all but one
/// element along each broadcast axis: the last element if `last` is true, otherwise the first. A
/// right gradient would be the sum of all elements.
Tensor unsummed(const Tensor& g, const Shape& input, bool last);

/// Returns the diagnosis of a gradient. A kind explains a gradient if at least 99 % of the entries
/// of each wrong input, and 99 % of its wrong entries, equal the values that the mistake would give
/// within the noise. At the wrong entries, these values must differ from the right values.
Diagnosis diagnose(const ComparedGradient& gradient);

}  // namespace heed::autograd
