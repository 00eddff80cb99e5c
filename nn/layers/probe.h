// The one way to look inside a forward pass: record, or replace, the value at a named site of the
// very pass that trains. Names and shapes are TransformerLens':
//   blocks.1.attn.hook_q | hook_k | hook_v | hook_z      [B, T, H, d_head]
//   blocks.1.attn.hook_attn_scores | hook_pattern        [B, H, Tq, Tk], scores after the mask
//   hook_embed, blocks.1.hook_resid_pre | hook_attn_out | hook_resid_mid | hook_mlp_out |
//   hook_resid_post                                      [B, T, d_model]
// Two sites have no name there: attn.hook_attn_scores_raw, before soft cap, bias and mask, and
// attn.hook_pattern_dropped, after dropout. A site's gradient is that of its name + "_grad":
// blocks.1.attn.hook_pattern_grad.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autograd/tensor/tensor.h"

namespace heed::nn {

using autograd::Tensor;

class Probe {
 public:
  using Replace = std::function<Tensor(const Tensor&)>;

  Probe();
  /// Records the value at `site` in the next forward pass, and its gradient in the next backward. A
  /// forward pass that ends without reaching it throws ValueError, with the nearest site it
  /// reached.
  Probe& record(const std::string& site);
  /// Runs f on the value at `site`; what it returns (same shape) takes its place. As for record().
  Probe& replace(const std::string& site, Replace f);
  /// Multiplies head h at `site`, a hook_q, hook_k, hook_v or hook_z, by gates[h], for all heads at
  /// once: a replacement of the site. A gate of 0 cuts its head, NaN and infinities included. Gates
  /// may require grad: dL/dgates is how much the heads matter (Michel et al. 2019). ValueError for
  /// another site; ShapeError unless gates are [H], in the forward pass with the heads' names.
  Probe& scale_heads(const std::string& site, const Tensor& gates);

  /// The value at a recorded site, detached, or with the site's name + "_grad" dL/d(value).
  /// ValueError if no forward pass reached a site of this name (with the nearest one that was), it
  /// was not recorded, or no backward pass reached it.
  Tensor value(const std::string& name) const;
  /// Names of all sites that forward passes have reached.
  std::vector<std::string> sites() const;
  /// For modules, at the end of a forward pass: throws for a site asked for and not reached.
  void check_reached() const;

  /// For modules: the site itself. Returns x, or what replaces it.
  Tensor at(const std::string& site, const Tensor& x);

  // For modules whose kernel computes a site's value inside, and can write it out. Both count as
  // reaching the site.
  using Observer = std::function<void(const Tensor&)>;
  /// Returns whether the value is to be replaced, which a kernel cannot do inside.
  bool replaces(const std::string& site);
  /// Return the observers of a site's value and gradient; empty if the site is not recorded.
  Observer value_observer(const std::string& site);
  Observer gradient_observer(const std::string& site);

 private:
  struct Entry {
    bool recorded = false, reached = false;
    Replace replace;
    Tensor value, gradient;
  };
  Entry& requested(const std::string& site);
  Entry& reach(const std::string& site);
  [[noreturn]] void fail_unreached(const std::string& site) const;
  const Entry& recorded_entry(const std::string& site) const;
  std::shared_ptr<std::map<std::string, Entry>> entries_;  // gradient hooks share it
};

}  // namespace heed::nn
