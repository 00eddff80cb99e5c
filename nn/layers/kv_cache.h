// Keys and values of the tokens a model has seen, so that generation computes each only once.
//   KVCache cache = model.cache();
//   const NoGrad guard;
//   model.forward(prompt, {.cache = &cache});  // [1, n]: the prompt in one pass
//   model.forward(next, {.cache = &cache});    // [1, 1]: then token by token
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/tensor/tensor.h"

namespace heed::nn {

/// The memory of a causal model: per layer k and v [B, H, T, d], T <= capacity, all allocated at
/// once. A forward pass with a cache (ForwardContext::cache) takes only the new tokens. Its oldest
/// tokens can be dropped; the others keep their positions. Moves, does not copy: copies would write
/// into one memory.
class KVCache {
 public:
  struct Options {
    std::int64_t layers = 1, batch = 1, heads = 1, capacity, d_head;  ///< heads of k and v
    std::int64_t d_value = 0;                                         ///< 0: d_head
    /// Memory for this many more tokens: held tokens then move only once in spare + 1 drops.
    std::int64_t spare = 0;
    autograd::DType dtype = autograd::float32;
  };
  struct KV {
    autograd::Tensor k, v;  // [B, H, T, d_head], [B, H, T, d_value]
  };

  /// ShapeError for a negative size.
  explicit KVCache(const Options& o);
  KVCache(KVCache&&) = default;
  KVCache& operator=(KVCache&&) = default;

  const Options& options() const { return options_; }
  /// Tokens that every layer holds.
  std::int64_t length() const { return length_; }
  /// Position of the next token: the number of tokens held and dropped.
  std::int64_t position() const { return dropped_ + length_; }
  /// Forgets all tokens and keeps the memory.
  void clear() { length_ = first_ = dropped_ = 0; }
  /// Forgets the n oldest tokens, 0 <= n <= length(). ValueError.
  void drop(std::int64_t n);

  /// k and v [B, H, n, ...] of the next n tokens, for layer 0, 1, ... in turn; length() grows by n
  /// with the last layer's, so a pass that throws before leaves the cache as it was. Returns views
  /// of all tokens so far, the new ones included, good until the next append, drop or clear.
  /// ValueError outside NoGrad or beyond capacity, ShapeError, DTypeError.
  KV append(std::int64_t layer, const autograd::Tensor& k, const autograd::Tensor& v);

 private:
  Options options_;
  std::vector<KV>
      layers_;  // each [B, H, capacity + spare, ...]; held are [first_, first_ + length_)
  std::int64_t length_ = 0, first_ = 0, dropped_ = 0;
};

}  // namespace heed::nn
