// ForwardContext: the per-call options of a forward pass (mode, generator, probe, KV cache, masks).
// A module passes its context on to its child modules.
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

/// Path of the current module within the model. Only ForwardContext reads and changes it.
class ModulePath {
  friend struct ForwardContext;
  std::string prefix_ = {};  // such as "blocks.1.attn."; empty if the context has no probe
  std::int64_t layer_ = 0;   // index of the block
};

/// Per-call options of a forward pass. All pointers may be null and must outlive the call.
struct ForwardContext {
  bool training = false;           ///< true: dropout is applied
  Generator* generator = nullptr;  ///< draws the dropout keys; null: the thread's generator
  Probe* probe = nullptr;          ///< records and replaces values inside the model; null: none
  /// Keys and values of the tokens before the inputs. The call appends those of the inputs
  /// (kv_cache.h). Null: no cache.
  KVCache* cache = nullptr;
  KeepMask keep = {};      ///< applied in every attention of the model, besides the causal mask
  ScoreBias bias = {};     ///< added to the scores of every attention of the model
  bool last_only = false;  ///< true: a Transformer computes the logits of the last position only
  ModulePath path = {};    ///< for use by modules, through the functions below

  /// Returns the context for the child module of this name.
  ForwardContext child(std::string_view name) const {
    ForwardContext c = *this;
    if (probe) c.path.prefix_ += std::string(name) + ".";
    return c;
  }
  /// Returns the context for block `layer` of a model.
  ForwardContext block(std::int64_t layer) const {
    ForwardContext c = probe ? child(block_name(layer)) : *this;
    c.path.layer_ = layer;
    return c;
  }
  /// Returns the index of the current block, which is also its layer in the KV cache.
  std::int64_t layer() const { return path.layer_; }
  /// Returns the full name of a site of the current module, such as "blocks.1.attn.hook_z".
  std::string site(std::string_view name) const { return path.prefix_ + std::string(name); }
  /// Passes x through the site of this name. Returns x, or its replacement if the probe replaces
  /// this site.
  Tensor at(std::string_view name, const Tensor& x) const {
    return probe ? probe->at(site(name), x) : x;
  }
  /// Ends the forward pass of a module. In the outermost module, throws ValueError if the probe
  /// records or replaces a site that the pass did not reach. Does nothing in child modules.
  void end() const {
    if (probe && path.prefix_.empty()) probe->check_reached();
  }
};

}  // namespace heed::nn
