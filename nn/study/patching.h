// Activation patching: the model runs on a corrupt prompt, with one activation replaced by its
// value in a run on the clean prompt. The result shows how much of the clean prompt's objective L
// this restores. Derivatives at the corrupt run estimate these effects without a run for each of
// them (attribution patching: Nanda 2023; Syed et al. 2023, arXiv 2310.10348).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/layers/transformer.h"
#include "nn/study/objective.h"

namespace heed::nn {

/// Effects of patching one kind of activation x, at one place at a time. An effect is (L patched -
/// L corrupt) / (L clean - L corrupt): 0 means that the patch does not change L, and 1 means that
/// it restores the L of the clean prompt. The estimates replace the numerator by a Taylor expansion
/// at the corrupt run, in which d is the clean activation minus the corrupt activation.
struct PatchMap {
  std::string site;            ///< name of x in each block, such as "hook_resid_pre"
  bool by_head;                ///< true: a column is a head at all positions; false: a position
  std::int64_t layers;         ///< number of blocks
  std::int64_t columns;        ///< number of positions or heads
  std::vector<double> effect;  ///< [layers, columns], measured effect
  std::vector<double> first_order;   ///< [layers, columns], estimate with d . dL/dx
  std::vector<double> second_order;  ///< [layers, columns], with d . dL/dx + d . (d2L/dx2) d / 2
};

/// Comparison of estimated effects with measured effects, over all places of all maps.
struct EstimateFit {
  double r;      ///< Pearson's correlation; NaN if all effects or all estimates are equal
  double slope;  ///< slope of the least-squares line, estimate = slope * effect + intercept
  /// A place in a map, with its measured and its estimated effect.
  struct Place {
    std::string site;     ///< site of the map (PatchMap::site)
    std::int64_t layer;   ///< row of the map
    std::int64_t column;  ///< column of the map
    double effect;        ///< measured effect
    double estimate;      ///< estimated effect
  } worst;                ///< the place with the largest |estimate - effect|
};

/// The result of patching().
struct Patching {
  double clean;    ///< L of the clean prompt
  double corrupt;  ///< L of the corrupt prompt
  /// Maps by position of hook_resid_pre, of hook_attn_out and, if the model has MLPs, of
  /// hook_mlp_out. The last map is attn.hook_z, by head.
  std::vector<PatchMap> maps;
  EstimateFit first_order;   ///< comparison of PatchMap::first_order with PatchMap::effect
  EstimateFit second_order;  ///< comparison of PatchMap::second_order with PatchMap::effect
};

/// Patches every place of every map. `clean` and `corrupt` are sequences [1, T]. All runs use the
/// targets of the clean prompt to compute L. A batch has one copy of the corrupt prompt for each of
/// up to kMaxCopies places of a layer and site. One gradient and one Hessian-vector product of this
/// batch give the estimates for all its places. Throws ValueError if the prompts have different
/// lengths or equal L. Throws ShapeError if a prompt is not a single sequence.
Patching patching(const Transformer& model, const Batch& clean, const Batch& corrupt,
                  const Objective& objective);

/// Compares the estimates in one member of PatchMap with PatchMap::effect. Throws ShapeError unless
/// each map has as many estimates as effects.
EstimateFit estimate_fit(const std::vector<PatchMap>& maps,
                         std::vector<double> PatchMap::*estimate);

}  // namespace heed::nn
