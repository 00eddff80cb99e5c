// Probe: records or replaces values at named places of a forward pass, which are called sites.
//
// A probe works on the same forward pass that is used for training. Recording does not change any
// result (with ForwardContext::logits_at: up to rounding). The names and shapes of the sites are
// those of TransformerLens:
//
//   blocks.1.attn.hook_q, hook_k, hook_v, hook_z             [B, T, H, d_head]
//   blocks.1.attn.hook_attn_scores (after the mask)          [B, H, Tq, Tk]
//   blocks.1.attn.hook_pattern                               [B, H, Tq, Tk]
//   hook_embed, blocks.1.hook_resid_pre, hook_attn_out,
//   hook_resid_mid, hook_mlp_out, hook_resid_post            [B, T, d_model]
//
// In hook_k and hook_v, H is the number of heads of keys and values. In hook_v and hook_z, the last
// size is d_value.
//
// Two sites have no counterpart in TransformerLens: attn.hook_attn_scores_raw contains the scores
// before soft cap, bias and mask, and attn.hook_pattern_dropped contains the pattern after dropout.
// The gradient of a site has the name of the site followed by "_grad":
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

/// Records or replaces values at named sites of a forward pass. Pass a pointer to it as
/// ForwardContext::probe. The comment at the top of this file lists the sites.
class Probe {
 public:
  /// Function that receives the value at a site and returns its replacement, of the same shape.
  using Replace = std::function<Tensor(const Tensor&)>;

  /// Makes a probe that records and replaces nothing.
  Probe();
  /// Records the value at `site` in each following forward pass, and its gradient in the backward
  /// pass. Returns this probe. Throws ValueError if `site` is the name of a gradient. At its end, a
  /// forward pass throws ValueError if no pass has reached the site yet. The error text names the
  /// nearest reached site.
  Probe& record(const std::string& site);
  /// Replaces the value at `site` by f(value) in each following forward pass. The errors are those
  /// of record(). The forward pass throws ShapeError if f returns another shape.
  Probe& replace(const std::string& site, Replace f);

  /// Returns the detached value at a recorded site. If `name` is the name of a site followed by
  /// "_grad", returns the gradient of the loss with respect to this value instead.
  /// Throws ValueError if no forward pass reached the site (the error text names the nearest
  /// reached site), if the site was not recorded, or if `name` is that of a gradient and no
  /// backward pass reached the site.
  Tensor value(const std::string& name) const;
  /// Returns the names of all sites that forward passes have reached, sorted.
  std::vector<std::string> sites() const;
  /// Throws ValueError if a recorded or replaced site was not reached. Modules call this function
  /// at the end of a forward pass.
  void check_reached() const;

  /// Records or replaces x, the value at `site`, if this was requested. Returns x, or its
  /// replacement. Modules call this function at each site.
  Tensor at(const std::string& site, const Tensor& x);

  // The following functions are for modules whose kernel computes the value of a site internally
  // and can write it to memory. Each of them, except uses(), marks the site as reached.

  /// Function that receives the value or the gradient at a site.
  using Observer = std::function<void(const Tensor&)>;
  /// Returns true if the value at `site` is to be recorded or replaced.
  bool uses(const std::string& site) const;
  /// Returns true if the value at `site` must be replaced. A kernel that computes the value
  /// internally cannot replace it.
  bool replaces(const std::string& site);
  ///@{
  /// Returns a function that stores the value (or the gradient) at `site` in this probe. If the
  /// site is not recorded, the returned function is empty.
  Observer value_observer(const std::string& site);
  Observer gradient_observer(const std::string& site);
  ///@}

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
  // Hooks on gradients have weak pointers to the entries, because they may outlive the probe.
  std::shared_ptr<std::map<std::string, Entry>> entries_;
};

}  // namespace heed::nn
