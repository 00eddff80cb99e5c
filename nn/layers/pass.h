// What a forward pass is given besides its inputs, from the outermost module down to the last.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "nn/io/names.h"
#include "nn/layers/probe.h"

namespace heed::nn {

class KVCache;

struct Pass {
  bool training = false;           ///< dropout is on
  Generator* generator = nullptr;  ///< for dropout; default: the thread's
  Probe* probe = nullptr;
  KVCache* cache = nullptr;  ///< of the tokens before the inputs; it grows by these (kv_cache.h)
  KeepMask keep = {};        ///< besides causality, in every attention of the pass
  ScoreBias bias = {};       ///< likewise
  bool last_only = false;    ///< logits of the last position alone: all that generation reads
  std::int64_t layer = 0;    ///< of the cache
  std::string prefix = {};   ///< "blocks.1.attn.", kept only while probing

  /// The pass as a child module gets it.
  Pass in(std::string_view child) const {
    Pass p = *this;
    if (probe) p.prefix += std::string(child) + ".";
    return p;
  }
  /// The end of the outermost module's forward pass.
  void end() const {
    if (probe && prefix.empty()) probe->check_reached();
  }
  /// A named site.
  Tensor at(std::string_view site, const Tensor& x) const {
    return probe ? probe->at(prefix + std::string(site), x) : x;
  }
};

}  // namespace heed::nn
