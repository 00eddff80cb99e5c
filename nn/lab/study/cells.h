// Effects of cells: what happens to L if one key no longer contributes its value to one query.
//
// The cell (i, j) of a head carries A_ij v_j. Its effect is the change of L if z_i becomes
// z_i + A_ij (v'_j - v_j), where v' are the values on a donor: what flows through the cell. All
// cells of a head together have the effect of all edges into its values.
//
// Blocking a cell is another question: its score becomes -inf, so the softmax divides its weight
// among the other keys (attention knockout, Geva et al. 2023, arXiv 2304.14767).
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "nn/lab/study/ablation.h"

namespace heed::lab {

/// A cell of the attention weights of one head.
struct Cell {
  HeadIndex head;  ///< head of the attention weights
  Index query;     ///< position of the query, from 0
  Index key;       ///< position of the key, from 0
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
std::vector<Cell> parse_cells(std::string_view what, const std::string& text, Index layers,
                              Index heads, Index length);

/// Measures cells on the sequences of a run.
class CellEffects {
 public:
  /// Runs the model on the sequences and on their donors.
  CellEffects(const BaseRun& run, const Donors& donors);

  /// Returns the effect of each set of cells, all cells of a set at once. Sets whose cells start in
  /// the same layer share passes if they follow each other. Throws ValueError if a set is empty or
  /// contains a cell that does not exist, and NumericError if an effect is not finite.
  std::vector<Effect> effects(const std::vector<std::vector<Cell>>& sets) const;
  /// Estimates the floating-point operations of the effect of a cell.
  double work(const Cell& cell) const;

 private:
  BaseRun run_;
  std::vector<Replacement> replaced_;
  std::vector<Tensor> pattern_, v_;  // by layer
};

/// Returns the change of L, for each sequence of the run, if the scores of all these cells are
/// -inf.
Effect block_cells(const BaseRun& run, const std::vector<Cell>& cells);

/// Returns the names of the cells, or their number if there are more than four: "6 cells".
std::string cells_text(const std::vector<Cell>& cells);

}  // namespace heed::lab
