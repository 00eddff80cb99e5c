// Entries of a gradient beside what differences say of them, and the gradient made wrong on
// purpose: a comparison that lets that pass proves nothing.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "autograd/check/check_vjp.h"

namespace heed::autograd {

using FlatValues = std::vector<double>;
/// Entries of one input, and how far each moves.
using EntryMoves = std::vector<std::pair<std::size_t, double>>;

/// A comparison, and what it takes to repeat it with another gradient.
struct ComparedEntry : CheckedEntry {
  std::size_t cotangent = 0;
  double rounding = 0;  ///< how far two right gradients can be apart
  EntryMoves along;
  double scale = 1;      ///< of the move, in units of `along`
  bool on_kink = false;  ///< forward's slopes from the left and from the right differ
  double value_of(const FlatValues& gradient) const;
  bool passes(double value) const;
  /// Differences know it: a gradient a quarter of its terms away would fail, or forward does not
  /// change at all.
  bool resolved() const { return tolerance <= terms / 4 || terms == 0; }
  double severity() const;  ///< error / tolerance: above 1 it fails
  /// Says the same as `other`, with a smaller tolerance.
  bool narrows(const ComparedEntry& other) const;
  bool is_worse_than(const ComparedEntry& other) const;  ///< an entry that fails, then severity
};

/// "input 0 at [3]"
std::string name_of(const CheckedEntry& e);

/// Puts the gradient of each input through `comparisons` again, made wrong in each of six ways.
/// Counts them in the report, and makes its verdict kVacuous if one differs and passes.
/// gradients: of each cotangent, of each input.
void replay_mutants(const std::vector<ComparedEntry>& comparisons,
                    const std::vector<Arrays<double>>& gradients, CheckReport& report);

}  // namespace heed::autograd
