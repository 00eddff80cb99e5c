// KVCache: keeps the keys and values of earlier tokens, so that generation computes them only once.
//
//   KVCache cache = model.cache();
//   const NoGrad guard;
//   model.forward(prompt, {.cache = &cache});  // [1, n]: the prompt in one forward pass
//   model.forward(next, {.cache = &cache});    // [1, 1]: then token by token
#pragma once

#include <vector>

#include "autograd/tensor/tensor.h"

namespace heed::nn {

/// Keys and values of at most `capacity` tokens. Each layer has k and v of shape [B, H, T, d]. The
/// constructor allocates all memory. A forward pass with a cache (ForwardContext::cache) gets only
/// the new tokens as input. A cache can be moved but not copied, because a copy would share its
/// memory.
class KVCache {
 public:
  /// Sizes of a KVCache.
  struct Options {
    Index layers = 1;                           ///< number of attention layers
    Index batch = 1;                            ///< B, number of sequences
    Index heads = 1;                            ///< H, number of heads of keys and values
    Index capacity;                             ///< largest number of tokens per sequence
    Index d_head;                               ///< size of a key
    Index d_value = 0;                          ///< size of a value; 0 means d_head
    autograd::DType dtype = autograd::float32;  ///< dtype of keys and values
  };
  /// Keys and values of one layer.
  struct KV {
    autograd::Tensor k;  ///< shape [B, H, T, d_head]
    autograd::Tensor v;  ///< shape [B, H, T, d_value]
  };

  /// Allocates an empty cache. Throws ShapeError for a negative size.
  explicit KVCache(const Options& o);
  ///@{
  /// Moves the memory and the tokens in it.
  KVCache(KVCache&&) = default;
  KVCache& operator=(KVCache&&) = default;
  ///@}

  /// Returns the options, with the default of d_value filled in.
  const Options& options() const { return options_; }
  /// Returns the number of tokens in the cache, which is the same for every layer and sequence.
  Index length() const { return length_; }
  /// Removes all tokens and starts again at position 0. The memory stays allocated.
  void clear() { length_ = end_ = 0; }

  /// Appends the keys and values of the next n tokens to one layer. k has shape [B, H, n, d_head]
  /// and v [B, H, n, d_value]. A forward pass must call append() once per layer. Returns views of
  /// all tokens of this layer, including the new ones. The views are valid until the next call of
  /// append() or clear(). length() includes the new tokens after end_pass().
  /// Throws ValueError if gradients are enabled (NoGrad disables them), if the layer does not
  /// exist, or if the tokens do not fit into the capacity. Throws ShapeError or DTypeError if k or
  /// v does not match the options.
  KV append(Index layer, const autograd::Tensor& k, const autograd::Tensor& v);
  /// Counts the tokens of the last append() as cached. ForwardContext::end() calls it at the end of
  /// a forward pass, so that a pass that throws leaves the cache unchanged.
  void end_pass() { length_ = end_; }

 private:
  Options options_;
  // One entry per layer, whose tensors have shape [B, H, capacity, ...]. The tokens are in the
  // range [0, length_) of axis 2.
  std::vector<KV> layers_;
  Index length_ = 0;
  Index end_ = 0;  // length_ plus the tokens of the current pass
};

}  // namespace heed::nn
