// Activation patching: the model runs on a corrupt prompt with one activation replaced by that of
// the clean prompt's run, and the result shows how much of the clean prompt's L this restores.
// Derivatives at the corrupt run estimate the same effects (attribution patching: Nanda 2023; Syed
// et al. 2023, arXiv 2310.10348).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/layers/transformer.h"
#include "nn/study/objective.h"

namespace heed::nn {

/// Effects of patching one kind of activation, at one place at a time. Each number is
/// (patched - corrupt) / (clean - corrupt) in terms of L: 0 means no effect, and 1 means that the
/// patch restores the L of the clean prompt. d is the clean activation minus the corrupt one.
struct PatchMap {
  std::string site;      ///< "hook_resid_pre", in each block
  bool by_head;          ///< true: columns are heads, patched at all positions; false: positions
  std::int64_t layers;   ///< number of blocks
  std::int64_t columns;  ///< number of positions or heads
  std::vector<double> effect;        ///< [layers, columns], measured
  std::vector<double> first_order;   ///< [layers, columns], estimate d . dL/dx at the corrupt run
  std::vector<double> second_order;  ///< [layers, columns], first order plus d . (d2L/dx2) d / 2
};

/// Fit of estimated effects to measured effects, over all places of all maps.
struct EstimateFit {
  double r;      ///< Pearson's correlation; NaN if one of the two does not vary
  double slope;  ///< least-squares slope of estimate against effect, with an intercept
  /// A place in the maps, with both numbers.
  struct Place {
    std::string site;     ///< PatchMap::site
    std::int64_t layer;   ///< row of the map
    std::int64_t column;  ///< column of the map
    double effect;        ///< measured
    double estimate;      ///< estimated
  } worst;                ///< the place with the largest difference of estimate and effect
};

/// The result of patching().
struct Patching {
  double clean;    ///< L of the clean prompt
  double corrupt;  ///< L of the corrupt prompt
  /// Maps for blocks.L.hook_resid_pre, hook_attn_out and, in a model with MLPs, hook_mlp_out, by
  /// position; then one for attn.hook_z, by head.
  std::vector<PatchMap> maps;
  EstimateFit first_order;   ///< fit of PatchMap::first_order
  EstimateFit second_order;  ///< fit of PatchMap::second_order
};

/// Patches every place of every map. clean and corrupt are sequences [1, T]. L of all runs uses the
/// targets of the clean prompt. Each place is one copy of the prompt in a batch, so that one
/// gradient and one Hessian-vector product give the estimates of up to kMaxCopies places of a layer
/// and site. Throws ValueError if the prompts have different lengths or the same L, and ShapeError
/// if one of them is not a single sequence.
Patching patching(const Transformer& model, const Batch& clean, const Batch& corrupt,
                  const Objective& objective);

/// Computes the fit of one kind of estimate. Throws ShapeError unless each map has as many
/// estimates as effects.
EstimateFit estimate_fit(const std::vector<PatchMap>& maps,
                         std::vector<double> PatchMap::*estimate);

}  // namespace heed::nn
