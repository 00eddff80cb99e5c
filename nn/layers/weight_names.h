// Weights of a Transformer under the names and in the layouts of other libraries.
#pragma once

#include <vector>

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
};
template <>
inline constexpr auto kEnumNames<WeightNames> = std::to_array({"torch", "nanogpt", "gpt2",
                                                               "transformerlens"});

/// Returns the weights of a model under the names and with the shapes of `names`. No element is
/// rounded. If the output layer is tied, the result also has its weight, as in a state_dict.
/// Tensors that a HookedTransformer has in addition are left out: its masks, the positions that
/// ALiBi does not use, and biases that the model does not have, which are 0 there.
///
/// Throws ValueError if the other model cannot compute the same logits. The text names an option of
/// the model, its value, and what the other model has instead.
std::vector<NamedTensor> weights_with_names(Transformer model, WeightNames names);

}  // namespace heed::nn
