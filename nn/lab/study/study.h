// A study contains attention and its gradients on some sequences, from one forward and one backward
// pass of a trained model. All gradients are gradients of the objective L
// (objective.h). Sizes are B sequences, T tokens, H heads and Hkv heads of keys and values
// (grouped-query attention). Tq and Tk are T. Tensors have the dtype of the model unless a comment
// names another dtype.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "nn/lab/study/objective.h"
#include "nn/layers/module.h"
#include "nn/layers/transformer.h"

namespace heed::lab {

/// Values inside one block, and gradients of L with respect to most of them. The gradients of a
/// sequence are those of this sequence's L, not of the mean over the batch.
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
  Tensor scores;           ///< [B, H, Tq, Tk], scores S after the mask; -inf if a key is hidden
  Tensor scores_grad;      ///< [B, H, Tq, Tk], dL/dS
  Tensor pattern;          ///< [B, H, Tq, Tk], the attention weights A
  Tensor pattern_grad;     ///< [B, H, Tq, Tk], dL/dA; may be nonzero where the mask hides a key
};

/// The result of study().
struct Study {
  double value = 0;                ///< objective L, mean over the sequences
  Tensor embed;                    ///< [B, T, d_model], embeddings of the tokens, without positions
  Tensor embed_grad;               ///< [B, T, d_model], dL/d(embed)
  std::vector<LayerStudy> layers;  ///< one entry for each layer

  /// Returns one member of all layers, first layer first, as in by_layer(&LayerStudy::pattern).
  std::vector<Tensor> by_layer(Tensor LayerStudy::*member) const;
};

/// Describes an array of a study that is written to files: its name in files, and the member that
/// contains its values.
struct ArrayQuantity {
  /// The name in files. For an array of each layer, it is the part after "blocks.N.", such as
  /// "attn.hook_pattern".
  std::string_view site;
  std::string_view title;        ///< short name for people: "A"
  std::string_view shape;        ///< shape as text: "[B, H, Tq, Tk]"
  std::string_view what;         ///< description as text
  Tensor LayerStudy::*value;     ///< null if the array is Study::embed
  Tensor LayerStudy::*gradient;  ///< null if `value` is null or has no gradient
};
/// Returns the descriptions of all arrays that files contain.
std::span<const ArrayQuantity> array_quantities();

/// Returns all arrays with their names in files, such as "blocks.1.attn.hook_pattern". The name of
/// a gradient ends in "_grad".
std::vector<NamedTensor> to_named(const Study& study);

/// Describes a map [B, H, Tq, Tk] of each layer, which is drawn as a picture.
struct MapQuantity {
  std::string_view what;       ///< description as text
  Tensor LayerStudy::*values;  ///< the member with the values of the map
  bool is_signed;              ///< true: the color scale is centered at 0

  std::string_view file;        ///< name of the picture without its extension: "dA"
  std::string_view heading;     ///< title of the picture
  std::string_view value_name;  ///< label of the color bar
  std::string_view caption;     ///< explanation of the picture
};
/// Returns the descriptions of all maps.
std::span<const MapQuantity> map_quantities();

/// Runs the model forward and backward on sequences [B, T], without dropout. Does not change the
/// .grad of any parameter. Throws ShapeError if the inputs do not have rank 2, and throws the
/// errors of objective_values().
Study study(const Transformer& model, const Batch& batch, const Objective& objective);

}  // namespace heed::lab
