// What the heads of a trained model do on sequences, and what a loss or a logit would have them do
// differently: attention, its gradients, and a few numbers per head and layer.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "nn/layers/module.h"
#include "nn/layers/transformer.h"
#include "nn/study/head_scores.h"
#include "nn/study/objective.h"

namespace heed::nn {

/// How much gradient arrives before and after a block: norms of dL/d(residual stream), of a batch
/// the mean over its sequences.
struct LayerFlow {
  std::int64_t layer;
  double resid_pre_grad, resid_post_grad;
};

/// What one block did on the sequences: values, and the gradients dL/d(value) of each sequence's
/// own L. B sequences of T tokens, H heads, Hkv heads of keys and values.
struct LayerStudy {
  Tensor resid_pre, resid_pre_grad, resid_post, resid_post_grad;  ///< [B, T, d_model]
  Tensor q, q_grad;                                               ///< [B, T, H, d_head]
  Tensor k, k_grad;                                               ///< [B, T, Hkv, d_head]
  Tensor v, v_grad;                                               ///< [B, T, Hkv, d_value]
  Tensor z, z_grad;                                               ///< [B, T, H, d_value]
  Tensor scores_raw, scores_raw_grad;  ///< [B, H, T, T], before cap, bias and mask
  Tensor scores, scores_grad;          ///< [B, H, T, T], -inf where the mask hides a key
  Tensor pattern, pattern_grad;        ///< [B, H, T, T], the weights
  Tensor pattern_x_grad;               ///< their product, 0 where the mask hides a key

  /// [B, T, d_model], the block's other sites, which files do not keep: what routes() reads. The
  /// last two are undefined without an MLP.
  Tensor attn_out, resid_mid, mlp_out;
};

struct Study {
  double value = 0;  ///< of the objective, mean over the sequences
  std::vector<HeadReport> heads;
  std::vector<LayerFlow> flow;
  Tensor embed, embed_grad;  ///< [B, T, d_model], of the tokens
  std::vector<LayerStudy> layers;

  /// Throws ValueError for a head that the model does not have.
  const HeadReport& head(std::int64_t layer, std::int64_t head) const;
  /// Returns this member of every layer.
  std::vector<Tensor> by_layer(Tensor LayerStudy::*member) const;
};

/// An array that a study keeps in files: its name there and where it is in memory.
struct ArrayQuantity {
  std::string_view site;   ///< "attn.hook_pattern", behind "blocks.L."; "hook_embed" has no layer
  std::string_view title;  ///< "A"
  std::string_view shape;  ///< "[B, H, Tq, Tk]"
  std::string_view what;
  Tensor LayerStudy::*value;  ///< null: Study::embed
  Tensor LayerStudy::*gradient;
};
std::span<const ArrayQuantity> array_quantities();

/// The arrays under their names in files: "blocks.1.attn.hook_pattern", its gradient with "_grad",
/// and attn.hook_pattern times its gradient with "_x_grad".
std::vector<NamedTensor> to_named(const Study& study);

/// A map [B, H, T, T] of each layer that front ends show: on the page, as a picture.
struct MapQuantity {
  std::string_view name;   ///< "hook_pattern_grad"
  std::string_view title;  ///< "dL/dA"
  std::string_view what;
  Tensor LayerStudy::*values;
  bool is_signed;
  bool of_checkpoints;  ///< the page shows it for every checkpoint, not for the last one alone

  struct Picture {
    std::string_view file;     ///< "dA" of dA.png, dA_L1H0.png and dA_difference.png; empty: none
    std::string_view heading;  ///< "dL/dA: what each attention weight would do to L"
    std::string_view value_name, caption;
    bool hatched;  ///< cells that the mask hides have a value that is worth seeing
  } picture = {};
};
std::span<const MapQuantity> map_quantities();

/// Runs the model forward and backward on sequences [B, T], without dropout; its .grad are left as
/// they are. ShapeError for inputs of another rank; ValueError as objective_values().
Study study(const Transformer& model, const Batch& batch, const Objective& objective);

/// Of maps by query and key [B, H, T, T]: the mean over sequences, and over queries from d on, of
/// the entry d places before the query, [H, T], float64: what a head does whatever the position.
Tensor by_distance(const Tensor& maps);

}  // namespace heed::nn
