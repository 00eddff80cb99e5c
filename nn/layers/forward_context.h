// Per-call context of a forward pass, passed down the module tree: mode, random numbers, probe,
// KV cache and masks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "nn/io/names.h"
#include "nn/layers/probe.h"
#include "nn/layers/sites.h"

namespace heed::nn {

class KVCache;
struct ForwardContext;

/// Place of the running module in the model. Only ForwardContext reads and changes it.
class ModulePath {
  friend struct ForwardContext;
  std::string prefix_ = {};  // "blocks.1.attn.", kept only while probing
  std::int64_t layer_ = 0;   // index of the block
};

struct ForwardContext {
  bool training = false;           ///< dropout is on
  Generator* generator = nullptr;  ///< for dropout; default: the thread's
  Probe* probe = nullptr;
  KVCache* cache = nullptr;  ///< of the tokens before the inputs; it grows by these (kv_cache.h)
  KeepMask keep = {};        ///< besides causality, in every attention of the model
  ScoreBias bias = {};       ///< added to the scores of every attention of the model
  bool last_only = false;    ///< logits of the last position alone: all that generation reads
  ModulePath path = {};      ///< for modules, through the functions below

  /// Returns the context of a child module.
  ForwardContext child(std::string_view name) const {
    ForwardContext c = *this;
    if (probe) c.path.prefix_ += std::string(name) + ".";
    return c;
  }
  /// Returns the context of block `layer` of a model.
  ForwardContext block(std::int64_t layer) const {
    ForwardContext c = probe ? child(block_name(layer)) : *this;
    c.path.layer_ = layer;
    return c;
  }
  /// Index of the running block: its place in the cache.
  std::int64_t layer() const { return path.layer_; }
  /// Full name of a site of the running module: "blocks.1.attn.hook_z".
  std::string site(std::string_view name) const { return path.prefix_ + std::string(name); }
  /// Passes x through the site of this name: returns x, or what a probe replaces it with.
  Tensor at(std::string_view name, const Tensor& x) const {
    return probe ? probe->at(site(name), x) : x;
  }
  /// Ends the outermost module's forward pass: throws for a site that was asked for and not
  /// reached.
  void end() const {
    if (probe && path.prefix_.empty()) probe->check_reached();
  }
};

}  // namespace heed::nn
