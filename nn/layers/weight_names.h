// Weights of a Transformer under the names and in the layouts of other libraries.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nn/io/safetensors.h"
#include "nn/layers/transformer.h"

namespace heed::nn {

/// Library, or model of a library, whose names and layouts weights can have.
enum class WeightNames {
  /// State_dict of PyTorch: attention as in torch.nn.MultiheadAttention ("attn.in_proj_weight"),
  /// all other names as in heed.
  kTorch,
  kNanoGPT,          ///< GPT of nanoGPT, whose linear layers are torch.nn.Linear, [out, in]
  kGPT2,             ///< GPT2LMHeadModel of transformers, whose linear layers are Conv1D, [in, out]
  kTransformerLens,  ///< HookedTransformer of TransformerLens, with one matrix per head
  kHeed,             ///< parameters() of heed
};
template <>
inline constexpr auto kEnumNames<WeightNames> = std::to_array({"torch", "nanogpt", "gpt2",
                                                               "transformerlens", "heed"});

/// Returns the weights of a model under the names and with the shapes of `names`. No element is
/// rounded. If the output layer is tied, the result also has its weight, as in a state_dict.
/// Tensors that a HookedTransformer has in addition are left out: its masks, the positions that
/// ALiBi does not use, and biases that the model does not have, which are 0 there.
///
/// Throws ValueError if the other model cannot compute the same logits. The text names an option of
/// the model, its value, and what the other model has instead.
std::vector<NamedTensor> weights_with_names(const Transformer& model, WeightNames names);

///@{
/// The way back: weights of another library become those of a model.
///
/// Returns the names and layouts of a file. Conv1D and Linear of a GPT are distinguished by the
/// shape of the first c_attn. Throws IoError if no tensor has the name of a token embedding.
WeightNames names_in(const SafeTensors& file);
/// Returns the tensor of a file for a name of heed, such as "blocks.0.ln1.weight", in the layout of
/// the file. Returns an undefined tensor if there is none.
Tensor find_named(const SafeTensors& file, std::string_view name, WeightNames names);
/// Returns a model of these options whose weights are those of the file, bit for bit. `model` is
/// such a model with any weights. If the output layer is tied, the file may contain its weight.
/// Throws ValueError if the other model does not have an option. Throws IoError that lists tensors
/// with their shapes if the file lacks one, or has another shape or a tensor that is not a
/// parameter. Biases that are 0 are ignored, and so are masks and rotary tables of attention, if
/// they are those of the model. Others are an IoError that names them.
Transformer with_weights(Transformer model, SafeTensors file, WeightNames names);
///@}

}  // namespace heed::nn
