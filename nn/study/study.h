// A study contains attention, its gradients and a few quantities of each head, from one forward and
// one backward pass of a trained model. All gradients are gradients of the objective L
// (objective.h). Sizes are B sequences, T tokens, H heads and Hkv heads of keys and values
// (grouped-query attention). Tq and Tk are T. Tensors have the dtype of the model unless a comment
// names another dtype.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "nn/layers/module.h"
#include "nn/layers/transformer.h"
#include "nn/study/head_scores.h"
#include "nn/study/objective.h"

namespace heed::nn {

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
  Tensor value_norm;       ///< [B, H, 1, Tk], |v W_O| of each key
  /// [B, H, Tq, Tk], A |v W_O|: the norm of what each key adds to the stream at the query. A head
  /// that rests on a token without content has a large A and a small norm (Kobayashi et al. 2020).
  /// Files do not contain this product.
  Tensor pattern_x_value_norm;
  /// [B, H, Tq, Tk], the change of L that dL/dA predicts if the score of this cell alone is set to
  /// -inf (cut_predictions()); 0 if a key is hidden
  Tensor cut_prediction;

  // Values that patching() needs. Files do not contain them.
  ///@{
  /// [B, T, d_model], output of attention and dL/d(output)
  Tensor attn_out, attn_out_grad;
  ///@}
  ///@{
  /// [B, T, d_model], output of the MLP and dL/d(output); undefined without MLP
  Tensor mlp_out, mlp_out_grad;
  ///@}
};

/// The result of study().
struct Study {
  double value = 0;               ///< objective L, mean over the sequences
  std::vector<HeadReport> heads;  ///< ordered by layer, then by head
  /// Scores of a head with equal weights on all visible keys, on the same sequences. The
  /// quantities that need gradients are NaN.
  HeadReport uniform;
  Tensor embed;                    ///< [B, T, d_model], embeddings of the tokens, without positions
  Tensor embed_grad;               ///< [B, T, d_model], dL/d(embed)
  std::vector<LayerStudy> layers;  ///< one entry for each layer

  /// Returns the report of one head. Throws ValueError if the model does not have this head.
  const HeadReport& head(std::int64_t layer, std::int64_t head) const;
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

/// Describes a map [B, H, Tq, Tk] of each layer. Some are drawn as pictures.
struct MapQuantity {
  std::string_view title;      ///< short name for people: "dL/dA"
  std::string_view what;       ///< description as text
  Tensor LayerStudy::*values;  ///< the member with the values of the map
  bool is_signed;              ///< true: the color scale is centered at 0

  /// The picture of a map. If `file` is empty, no picture is drawn.
  struct Picture {
    std::string_view file;        ///< name of the file without its extension: "dA"
    std::string_view heading;     ///< title of the picture
    std::string_view value_name;  ///< label of the color bar
    std::string_view caption;     ///< explanation of the picture
  } picture = {};                 ///< the picture of this map
};
/// Returns the descriptions of all maps.
std::span<const MapQuantity> map_quantities();

/// Runs the model forward and backward on sequences [B, T], without dropout. Does not change the
/// .grad of any parameter. Throws ShapeError if the inputs do not have rank 2, and throws the
/// errors of objective_values().
Study study(const Transformer& model, const Batch& batch, const Objective& objective);

/// Sets kDWQ to kDWO of the given heads. `weights` contains the attention weights of all layers.
/// gradients[i] is the gradient of weights[i].
void add_weight_norms(std::vector<HeadReport>& heads, const Transformer& model,
                      std::span<const Tensor> weights, std::span<const Tensor> gradients);

/// Returns the norm of x [B, ...] over all values of a sequence, averaged over the sequences.
double mean_norm(const Tensor& x);

}  // namespace heed::nn
