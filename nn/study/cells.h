// Cuts of cells: what happens to L if a query cannot read a key, measured and predicted by dL/dA.
//
// A cut sets the score S[i, j] of query i and key j to -inf. The softmax then divides the weight
// among the other keys of the query (attention knockout, Geva et al. 2023, arXiv 2304.14767). With
// A' for the weights after the cut, dL/dA predicts the change: the sum over k of
// (A'[i, k] - A[i, k]) dL/dA[i, k]. If L is a linear function of A, this is the exact change. For
// one cell with the weight a < 1 it equals -(dL/dS[i, j]) / (1 - a), because every other weight is
// divided by 1 - a.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nn/layers/sites.h"
#include "nn/layers/transformer.h"
#include "nn/study/evidence.h"
#include "nn/study/forward_passes.h"

namespace heed::nn {

struct Study;

/// A cell of the attention weights of one head.
struct Cell {
  HeadIndex head;      ///< head of the attention weights
  std::int64_t query;  ///< position of the query, from 0
  std::int64_t key;    ///< position of the key, from 0
  /// Compares the head, then the query, then the key.
  auto operator<=>(const Cell&) const = default;
};
/// Returns the name of a cell, such as "L1H0[5,3]".
std::string cell_name(const Cell& cell);
/// Parses a comma-separated list of cells of a causal model with sequences of `length` tokens.
/// L1H0[5,3] is query 5 and key 3, L1H0[5,0-3] four cells, and L1H0[*,3] all queries that may read
/// key 3. L0H0,L1H0[5,3] is this cell of both heads. Throws ValueError for any other text, for a
/// head or a position that does not exist, for a cell that is listed twice, and for an item that
/// has no key at or before its query. The error text begins with `what`.
std::vector<Cell> parse_cells(std::string_view what, const std::string& text, std::int64_t layers,
                              std::int64_t heads, std::int64_t length);

/// Returns the predicted change of L for the cut of each single cell, [B, H, Tq, Tk], and 0
/// where the mask hides a key. `scores` are the scores after the causal mask, under which the last
/// query reads the last key, and `pattern_grad` is dL/dA, both [B, H, Tq, Tk].
Tensor cut_predictions(const Tensor& scores, const Tensor& pattern_grad);

/// Measures the cut of each set of cells, all cells of a set at once. The prediction "gradient" is
/// the sum over the rows of the cells of (A' - A) . dL/dA. The place of the evidence contains the
/// names of the cells, joined by ", ", or the number of cells if there are more than four: "6
/// cells". `run` contains one sequence [1, T], and `study` is the study of this sequence. Throws
/// ShapeError unless the batch size is 1, ValueError if a set is empty or contains a cell that does
/// not exist, and NumericError if an effect is not finite.
std::vector<Evidence> cut_cells(const BaseRun& run, const Study& study,
                                const std::vector<std::vector<Cell>>& sets);

/// Returns the cells whose cuts a study measures: the `count` cells with the largest magnitude of
/// the predicted change, and `count` of the others with the largest A |v W_O|. `study` is that of
/// one sequence.
std::vector<Cell> notable_cells(const Study& study, std::int64_t count = 32);

}  // namespace heed::nn
