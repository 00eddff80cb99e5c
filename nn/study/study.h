// A study: attention, its gradients and a few numbers for each head, from one forward and one
// backward pass of a trained model. All gradients are those of the objective L (objective.h).
// Sizes: B sequences, T tokens, H heads, Hkv heads of keys and values (grouped-query attention),
// Tq = Tk = T. Tensors have the dtype of the model unless a comment names another one.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "nn/layers/module.h"
#include "nn/layers/transformer.h"
#include "nn/study/head_scores.h"
#include "nn/study/objective.h"

namespace heed::nn {

/// Norms of the gradient at the input and the output of a block. Each number is the norm of
/// dL/d(residual stream) over all tokens of a sequence, averaged over the sequences.
struct LayerFlow {
  std::int64_t layer;      ///< from 0
  double resid_pre_grad;   ///< before the block
  double resid_post_grad;  ///< after the block
};

/// Values inside one block, and the gradient of L at each of them. The gradient at a sequence is
/// that of its own L, not of the mean over the batch.
struct LayerStudy {
  Tensor resid_pre;        ///< [B, T, d_model], the residual stream before the block
  Tensor resid_pre_grad;   ///< [B, T, d_model], dL/d(resid_pre)
  Tensor resid_post;       ///< [B, T, d_model], the residual stream after the block
  Tensor resid_post_grad;  ///< [B, T, d_model], dL/d(resid_post)
  Tensor q;                ///< [B, T, H, d_head], queries before norms and rotation
  Tensor q_grad;           ///< [B, T, H, d_head], dL/dq
  Tensor k;                ///< [B, T, Hkv, d_head], keys before norms and rotation
  Tensor k_grad;           ///< [B, T, Hkv, d_head], dL/dk
  Tensor v;                ///< [B, T, Hkv, d_value], values
  Tensor v_grad;           ///< [B, T, Hkv, d_value], dL/dv
  Tensor z;                ///< [B, T, H, d_value], output of each head before the output projection
  Tensor z_grad;           ///< [B, T, H, d_value], dL/dz
  Tensor scores_raw;       ///< [B, H, Tq, Tk], scores before soft cap, bias and mask
  Tensor scores_raw_grad;  ///< [B, H, Tq, Tk], dL/d(scores_raw)
  Tensor scores;           ///< [B, H, Tq, Tk], scores after the mask; -inf where it hides a key
  Tensor scores_grad;      ///< [B, H, Tq, Tk], dL/dS
  Tensor pattern;          ///< [B, H, Tq, Tk], the attention weights A
  Tensor pattern_grad;     ///< [B, H, Tq, Tk], dL/dA; it may be nonzero where the mask hides a key
  Tensor pattern_x_grad;   ///< [B, H, Tq, Tk], pattern * pattern_grad; 0 where the mask hides a key

  // Values that routes() reads and that files do not contain.
  Tensor attn_out;   ///< [B, T, d_model], output of attention
  Tensor resid_mid;  ///< [B, T, d_model], stream between attention and MLP; undefined without MLP
  Tensor mlp_out;    ///< [B, T, d_model], output of the MLP; undefined without MLP
};

/// The result of study().
struct Study {
  double value = 0;                ///< L, mean over the sequences
  std::vector<HeadReport> heads;   ///< by layer, then head
  std::vector<LayerFlow> flow;     ///< by layer
  Tensor embed;                    ///< [B, T, d_model], embeddings of the tokens, without positions
  Tensor embed_grad;               ///< [B, T, d_model], dL/d(embed)
  std::vector<LayerStudy> layers;  ///< by layer

  /// Returns the numbers of one head. Throws ValueError if the model does not have this head.
  const HeadReport& head(std::int64_t layer, std::int64_t head) const;
  /// Returns one member of each layer: by_layer(&LayerStudy::pattern).
  std::vector<Tensor> by_layer(Tensor LayerStudy::*member) const;
};

/// Describes an array that is written to files: its name there, and its member in memory.
struct ArrayQuantity {
  /// The name after "blocks.L.", such as "attn.hook_pattern"; for "hook_embed" the whole name.
  std::string_view site;
  std::string_view title;        ///< short name for readers: "A"
  std::string_view shape;        ///< "[B, H, Tq, Tk]"
  std::string_view what;         ///< description for readers
  Tensor LayerStudy::*value;     ///< null: the array is Study::embed
  Tensor LayerStudy::*gradient;  ///< null: the gradient is Study::embed_grad
};
/// Returns the descriptions of all arrays that files contain.
std::span<const ArrayQuantity> array_quantities();

/// Returns the arrays with their names in files: "blocks.1.attn.hook_pattern", the gradient with
/// "_grad" appended, and attn.hook_pattern times its gradient with "_x_grad" appended.
std::vector<NamedTensor> to_named(const Study& study);

/// Describes a map [B, H, Tq, Tk] of each layer that the page shows or that is drawn as a picture.
struct MapQuantity {
  std::string_view name;       ///< key on the page: "hook_pattern_grad"
  std::string_view title;      ///< short name for readers: "dL/dA"
  std::string_view what;       ///< description for readers
  Tensor LayerStudy::*values;  ///< the map itself
  bool is_signed;              ///< true: colors diverge from 0
  bool for_every_checkpoint;   ///< false: the page contains it for the last checkpoint alone

  /// The picture of a map. A map without a file name has none.
  struct Picture {
    std::string_view file;        ///< "dA" for dA.png, dA_L1H0.png and dA_difference.png
    std::string_view heading;     ///< title of the picture
    std::string_view value_name;  ///< label of the color bar
    std::string_view caption;     ///< how to read the picture
    bool hatched;                 ///< true: cells that the mask hides are drawn, with hatching
  } picture = {};                 ///< the map as a picture
};
/// Returns the descriptions of all maps.
std::span<const MapQuantity> map_quantities();

/// Runs the model forward and backward on sequences [B, T], without dropout. No parameter's .grad
/// changes. Throws ShapeError if inputs do not have rank 2, and the errors of objective_values().
Study study(const Transformer& model, const Batch& batch, const Objective& objective);

/// Averages maps [B, H, T, T] along diagonals. Returns [H, T], float64: entry d is the mean, over
/// sequences and over queries from d on, of the cell whose key is d positions before the query.
Tensor by_distance(const Tensor& maps);

}  // namespace heed::nn
