// Compares two tensors, or the tensors of two safetensors files, element by element.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nn/io/safetensors.h"

namespace heed::nn {

/// Largest accepted difference of two elements a and b: |b - a| <= atol + rtol |a|.
struct Tolerance {
  double atol = 0;  ///< absolute part, at least 0
  double rtol = 0;  ///< part relative to |a|, at least 0
};

/// Differences between the elements of two tensors a and b. Elements of int64 and bool8 are
/// numbers, too: false is 0 and true is 1. If two elements have equal bits, their difference is 0,
/// also if they are NaN or infinite.
struct TensorDifference {
  /// Row-major index of the first element whose bits differ; empty if all bits are equal.
  std::optional<std::int64_t> first;
  /// Number of elements whose bits differ and whose difference is not within the tolerance. A NaN
  /// and an infinite difference are never within a tolerance. -0 and 0 always are.
  std::int64_t beyond = 0;
  double max_abs = 0;          ///< largest |b - a|; NaN if a difference is NaN
  double max_rel = 0;          ///< largest |b - a| / |a|; infinite if only a is 0
  double norm_a = 0;           ///< Euclidean norm of a
  double norm_b = 0;           ///< Euclidean norm of b
  double norm_difference = 0;  ///< Euclidean norm of b - a

  /// Returns true if the bits of all elements are equal.
  bool equal_bits() const { return !first; }
};

/// Compares two tensors. Throws ShapeError or DTypeError unless they have the same shape and the
/// same dtype, which must be float32, float64, int64 or bool8.
TensorDifference compare_tensors(const Tensor& a, const Tensor& b, const Tolerance& tolerance = {});

/// Comparison of two tensors that have the same name in two files.
struct NamedDifference {
  std::string name;  ///< name of the tensors
  Tensor a;          ///< tensor of the first file; undefined if the file has none of this name
  Tensor b;          ///< tensor of the second file; undefined if the file has none of this name
  /// Differences of the elements; empty if a tensor is missing, or if shapes or dtypes differ.
  std::optional<TensorDifference> elements;

  /// Returns true if a tensor is missing, if shapes or dtypes differ, or if an element is beyond
  /// the tolerance.
  bool differs() const { return !elements || elements->beyond > 0; }
  /// Returns the first difference of the bits: "only in A", "B has shape [2, 3]", "float32, B has
  /// float64", or "at [1, 0] is 7, not 4", where 7 is the element of b. Returns "" if there is
  /// none.
  std::string text() const;
};

/// Compares the tensors of two files by name: first those of `a` in their order, then those that
/// only `b` has. Metadata is not compared.
std::vector<NamedDifference> compare_files(const SafeTensors& a, const SafeTensors& b,
                                           const Tolerance& tolerance = {});

}  // namespace heed::nn
