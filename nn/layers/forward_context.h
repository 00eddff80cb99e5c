// ForwardContext: the per-call options of a forward pass (mode, generator, probe, KV cache, masks).
// A module passes its context on to its child modules.
#pragma once

#include <string>
#include <string_view>

#include "nn/io/names.h"
#include "nn/layers/kv_cache.h"
#include "nn/layers/probe.h"
#include "nn/layers/sites.h"

namespace heed::nn {

struct ForwardContext;

/// Path of the current module within the model. Only ForwardContext reads and changes it.
class ModulePath {
  friend struct ForwardContext;
  std::string prefix_ = {};  // such as "blocks.1.attn."; empty if the context has no probe
  Index layer_ = 0;          // index of the block
  bool outermost_ = true;    // false in child modules
};

/// Per-call options of a forward pass. A pointer may be null. The object that it points to must
/// outlive the call.
struct ForwardContext {
  bool training = false;           ///< true: dropout is applied
  Generator* generator = nullptr;  ///< generator for dropout; null: default_generator()
  Probe* probe = nullptr;          ///< records and replaces values inside the model; null: no probe
  /// Keys and values of the tokens before the inputs. The call appends the keys and values of the
  /// inputs (kv_cache.h). A null pointer means that no cache is used.
  KVCache* cache = nullptr;
  KeepMask keep = {};   ///< mask for every attention layer, in addition to the causal mask
  ScoreBias bias = {};  ///< added to the scores of every attention layer
  /// Positions at which a Transformer computes the logits, int64 [P]; undefined: all positions. The
  /// MLP of the last block then runs at these positions only, unless the probe uses a site after
  /// attention in this block. Sites always have all positions.
  Tensor logits_at = {};
  ModulePath path = {};  ///< path of the current module; used by the functions below

  /// Returns the context for the child module with this name.
  ForwardContext child(std::string_view name) const {
    ForwardContext c = *this;
    c.path.outermost_ = false;
    if (probe) c.path.prefix_ += std::string(name) + ".";
    return c;
  }
  /// Returns the context for block `layer` of a model.
  ForwardContext block(Index layer) const {
    ForwardContext c = child(probe ? block_name(layer) : "");
    c.path.layer_ = layer;
    return c;
  }
  /// Returns the index of the current block, which is also the index of its layer in the KV cache.
  Index layer() const { return path.layer_; }
  /// Returns the full name of a site of the current module, such as "blocks.1.attn.hook_z".
  std::string site(std::string_view name) const { return path.prefix_ + std::string(name); }
  /// Passes x, the value at the site `name` of the current module, to the probe. Returns x, or its
  /// replacement if the probe replaces this site.
  Tensor at(std::string_view name, const Tensor& x) const {
    return probe ? probe->at(site(name), x) : x;
  }
  /// Modules call this function at the end of their forward pass. In the outermost module, it
  /// throws ValueError if the probe records or replaces a site that no forward pass has reached,
  /// and counts the tokens of the pass as cached. In child modules, it does nothing. A program that
  /// calls the blocks of a model itself must call it after each pass.
  void end() const {
    if (!path.outermost_) return;
    if (probe) probe->check_reached();
    if (cache) cache->end_pass();
  }
};

}  // namespace heed::nn
