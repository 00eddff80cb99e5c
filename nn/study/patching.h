// Activation patching: a run on a corrupt prompt with one activation of the clean prompt's run in
// it, and how much of the clean run's L that brings back; beside it what derivatives at the corrupt
// run estimate (attribution patching: Nanda 2023; Syed et al. 2023, arXiv 2310.10348).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/layers/transformer.h"
#include "nn/study/objective.h"

namespace heed::nn {

/// One kind of activation, patched at one place at a time. Numbers are (patched - corrupt) /
/// (clean - corrupt) of L: 0 changes nothing, 1 is as good as the clean prompt.
struct PatchMap {
  std::string site;  ///< "hook_resid_pre", of each block
  bool by_head;      ///< columns are heads, patched at all positions; else positions
  std::int64_t layers, columns;
  std::vector<double> effect;        ///< [layers, columns], measured
  std::vector<double> first_order;   ///< d . dL/dx at the corrupt run, d = clean - corrupt
  std::vector<double> second_order;  ///< that and d . (d2L/dx2) d / 2
};

/// Estimates against measured effects, over all places of all maps.
struct Agreement {
  double r;      ///< Pearson's correlation; NaN where either does not vary
  double slope;  ///< of estimates over effects, least squares with an intercept
  /// Where they are farthest apart.
  struct Node {
    std::string site;
    std::int64_t layer, column;
    double effect, estimate;
  } worst;
};

struct Patching {
  double clean, corrupt;  ///< L of the two prompts
  /// blocks.L.hook_resid_pre, hook_attn_out and, of a model with MLPs, hook_mlp_out by position;
  /// attn.hook_z by head.
  std::vector<PatchMap> maps;
  Agreement first_order, second_order;
};

/// clean and corrupt [1, T]; L of all runs is of the clean prompt's targets. ValueError for prompts
/// of different lengths, or of the same L. Every place has a copy of the prompt in a batch, so the
/// estimates of all of them are one gradient and one Hessian-vector product for each layer and
/// site.
Patching patching(const Transformer& model, const Batch& clean, const Batch& corrupt,
                  const Objective& objective);

/// ShapeError unless there are as many estimates as effects in each map.
Agreement agreement(const std::vector<PatchMap>& maps, std::vector<double> PatchMap::*estimate);

}  // namespace heed::nn
