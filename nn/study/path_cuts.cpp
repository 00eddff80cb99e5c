#include "nn/study/path_cuts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "autograd/base/text.h"
#include "autograd/engine/engine.h"
#include "nn/layers/probe.h"

namespace heed::nn {

using namespace autograd;

// Weights and values of the unchanged pass, which all cuts of a run share.
struct PathCutter::Base {
  // Values of a pass, by layer. `mid` and `mlp_out` are empty without MLPs.
  struct Streams {
    std::vector<Tensor> resid_pre, z, mid, mlp_out;
  };

  explicit Base(const BaseRun& run) {
    const NoGrad guard;
    const Transformer& model = run.model();
    for (const Block& b : model.blocks)
      weights.push_back(convert(b.attn.weights, b.attn.options, AttentionForm::kPerHead));
    std::vector<std::string_view> sites{"attn.hook_z"};
    if (model.options.mlp) sites.insert(sites.end(), {"hook_resid_mid", "hook_mlp_out"});
    RecordedForward pass = record_forward(model, run.batch.inputs, sites);
    streams = {run.resid_pre, pass.at[0], {}, {}};
    if (model.options.mlp) streams.mid = pass.at[1], streams.mlp_out = pass.at[2];
  }
  // Returns the values of the sequences [first, first + count).
  Base rows(std::int64_t first, std::int64_t count) const {
    Base part = *this;
    for (auto* values :
         {&part.streams.resid_pre, &part.streams.z, &part.streams.mid, &part.streams.mlp_out})
      for (Tensor& x : *values) x = slice(x, 0, first, first + count);
    return part;
  }

  std::vector<AttentionWeights> weights;  // by layer, kPerHead
  Streams streams;
};

// One pass in which the last receivers of some paths read changed streams.
class PathCutter::Pass {
 public:
  using Streams = Base::Streams;
  // Returns the change of the output `out` of the sender of path i, of the same shape.
  using Change = std::function<Tensor(std::size_t i, const Tensor& out)>;

  Pass(const BaseRun& run, const Base& base, const std::vector<Path>& paths, bool through_mlps)
      : run_(run),
        model_(run.model()),
        paths_(paths),
        through_mlps_(through_mlps),
        weights_(base.weights),
        base_(base.streams) {}

  // Returns L of each sequence, [B]. If the paths are cut together, an MLP that is itself the
  // sender of a path is not computed again for the changes of the other paths.
  Tensor values(const Change& of_sender, bool together) {
    running_ = base_;
    std::vector<Tensor> chains;  // by path: the change at the end of a chain of receivers
    std::int64_t first = model_.options.layers - 1;
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      const bool is_edge = paths_[i].receivers.size() == 1;
      chains.push_back(is_edge ? Tensor() : through_receivers(i, of_sender));
      const Receiver& r = paths_[i].receivers.back();
      if (r.kind != Receiver::kLogits) first = std::min(first, r.layer);
    }
    // Returns the change of the stream that a receiver reads; undefined if there is none.
    const auto change_at = [&](const Receiver& r) {
      std::vector<SentChange> sent;
      for (std::size_t i = 0; i < paths_.size(); ++i) {
        const Path& path = paths_[i];
        if (!same_place(path.receivers.back(), r)) continue;
        const bool is_edge = path.receivers.size() == 1;
        const Component from =
            is_edge ? path.sender : component_of(path.receivers[path.receivers.size() - 2]);
        sent.push_back(
            {stage_of(from), is_edge ? of_sender(i, output(from, running_)) : chains[i]});
      }
      if (together) return carried(sent, r, running_);
      Tensor total;
      for (const SentChange& one : sent) {
        const Tensor here = carried({one}, r, running_);
        total = total.defined() ? total + here : here;
      }
      return total;
    };
    Probe probe;
    for (std::int64_t layer = first; layer < model_.options.layers; ++layer)
      change_block(probe, layer, change_at);
    return run_.values_from(first, probe);
  }

  // Returns what a component adds to the stream.
  Tensor output(const Component& c, const Streams& s) const {
    const auto l = std::size_t(c.layer);
    if (c.kind == Component::kEmbed) return s.resid_pre[0];
    if (c.kind == Component::kMlp) return s.mlp_out[l];
    return written(c, select(s.z[l], 2, c.head));
  }
  // Returns what a head adds to the stream if its output before W_O is z [B or 1, T or 1, d_value].
  Tensor written(const Component& head, const Tensor& z) const {
    const auto l = std::size_t(head.layer);
    return matmul(z, select(weights_[l].W_O, 0, head.head)) * model_.blocks[l].residual_scale;
  }

 private:
  bool same_place(const Receiver& a, const Receiver& b) const {
    const MultiHeadAttention::Options& o = model_.options.attention;
    const bool shared = a.kind == Receiver::kKey || a.kind == Receiver::kValue;
    return a.kind == b.kind && a.layer == b.layer &&
           (shared ? o.kv_head(a.head) == o.kv_head(b.head) : a.head == b.head);
  }
  Tensor mlp(std::int64_t layer, const Tensor& mid) const {
    const Block& b = model_.blocks[std::size_t(layer)];
    return (*b.mlp)(b.ln2 ? (*b.ln2)(mid) : mid) * b.residual_scale;
  }
  // The change of the output of a component, and its stage.
  struct SentChange {
    std::int64_t stage;
    Tensor change;
  };
  // Returns the change of the stream at a receiver; undefined without changes.
  Tensor carried(const std::vector<SentChange>& sent, const Receiver& to, const Streams& s) const {
    Tensor total;
    for (std::int64_t stage = -1; stage < stage_of(to, model_.options); ++stage) {
      const bool is_mlp = stage >= 0 && stage % 2 == 1;
      const bool is_sender = std::ranges::count(sent, stage, &SentChange::stage) > 0;
      if (is_mlp && through_mlps_ && model_.options.mlp && !is_sender && total.defined()) {
        const Tensor& mid = s.mid[std::size_t(stage / 2)];
        total = total + mlp(stage / 2, mid + total) - mlp(stage / 2, mid);
      }
      for (const SentChange& one : sent)
        if (one.stage == stage) total = total.defined() ? total + one.change : one.change;
    }
    return total;
  }
  // Returns all = [B, T, H, d], the queries (keys, values) of a layer, with those of the receiver's
  // head for the stream x before the block.
  Tensor with_head(const Receiver& r, const Tensor& all, const Tensor& x) const {
    const Block& b = model_.blocks[std::size_t(r.layer)];
    const AttentionWeights& w = weights_[std::size_t(r.layer)];
    const Tensor u = b.ln1 ? (*b.ln1)(x) : x;
    const bool is_query = r.kind == Receiver::kQuery;
    const std::int64_t head = is_query ? r.head : b.attn.options.kv_head(r.head);
    const Tensor own = is_query                   ? project_head(u, w.W_Q, w.b_Q, head)
                       : r.kind == Receiver::kKey ? project_head(u, w.W_K, w.b_K, head)
                                                  : project_head(u, w.W_V, w.b_V, head);
    const Tensor here = reshape(eq(arange(all.size(2)), double(head)), {-1, 1});
    return where(here, unsqueeze(own, 2), all);
  }
  static const char* site_of(Receiver::Kind kind) {
    return kind == Receiver::kQuery ? "hook_q" : kind == Receiver::kKey ? "hook_k" : "hook_v";
  }

  // Returns the change of the output of the receiver before the last one.
  Tensor through_receivers(std::size_t i, const Change& of_sender) const {
    const Path& path = paths_[i];
    Component from = path.sender;
    Tensor change = of_sender(i, output(from, base_));
    for (std::size_t n = 0; n + 1 < path.receivers.size(); ++n) {
      const Receiver& r = path.receivers[n];
      const auto l = std::size_t(r.layer);
      change = carried({{stage_of(from), change}}, r, base_);
      from = component_of(r);
      const Tensor out = r.kind == Receiver::kMlp
                             ? mlp(r.layer, base_.mid[l] + change)
                             : written(from, head_output(r, base_.resid_pre[l] + change));
      change = out - output(from, base_);
    }
    return change;
  }
  // Returns the output of a head before W_O, [B, T, d_value], if the receiver reads the stream x
  // and all else is unchanged.
  Tensor head_output(const Receiver& r, const Tensor& x) const {
    const Block& b = model_.blocks[std::size_t(r.layer)];
    const Tensor& stream = base_.resid_pre[std::size_t(r.layer)];
    const std::int64_t length = stream.size(1);
    Probe probe;
    Tensor z;
    probe.replace(site_of(r.kind), [&](const Tensor& all) { return with_head(r, all, x); });
    probe.replace("hook_z", [&](const Tensor& all) {
      z = select(all, 2, r.head);
      return all;
    });
    ForwardContext ctx{.probe = &probe};
    if (model_.options.positions == Positions::kAlibi)
      ctx.bias = ScoreBias::alibi(model_.options.attention.heads, length, length, stream.dtype());
    b.attn(b.ln1 ? (*b.ln1)(stream) : stream, ctx);
    return z;
  }

  // Makes the probe store the running values of a block and change what its receivers read.
  template <class F>
  void change_block(Probe& probe, std::int64_t layer, const F& change) {
    const auto l = std::size_t(layer);
    const auto store = [&](const char* site, std::vector<Tensor>& values) {
      probe.replace(block_site(layer, site),
                    [&values, l](const Tensor& x) { return values[l] = x; });
    };
    store("hook_resid_pre", running_.resid_pre), store("attn.hook_z", running_.z);
    for (const Receiver::Kind kind : {Receiver::kQuery, Receiver::kKey, Receiver::kValue})
      probe.replace(block_site(layer, std::string("attn.") + site_of(kind)),
                    [this, kind, layer, l, change](Tensor x) {
                      const std::int64_t group = model_.options.attention.heads / x.size(2);
                      for (std::int64_t head = 0; head < x.size(2); ++head) {
                        const Receiver r{kind, layer, head * group};
                        if (const Tensor d = change(r); d.defined())
                          x = with_head(r, x, running_.resid_pre[l] + d);
                      }
                      return x;
                    });
    if (model_.options.mlp) {
      store("hook_resid_mid", running_.mid);
      probe.replace(block_site(layer, "hook_mlp_out"), [this, layer, l, change](const Tensor& x) {
        const Tensor d = change({Receiver::kMlp, layer, 0});
        return running_.mlp_out[l] = d.defined() ? mlp(layer, running_.mid[l] + d) : x;
      });
    }
    if (layer + 1 == model_.options.layers)
      probe.replace(block_site(layer, "hook_resid_post"), [change](const Tensor& x) {
        const Tensor d = change({});
        return d.defined() ? x + d : x;
      });
  }

  const BaseRun& run_;
  const Transformer& model_;
  const std::vector<Path>& paths_;
  bool through_mlps_;
  const std::vector<AttentionWeights>& weights_;
  const Streams& base_;
  Streams running_;
};

PathCutter::PathCutter(const BaseRun& run, const Replacement& replaced, bool through_mlps)
    : run_(run), replaced_(replaced), through_mlps_(through_mlps) {
  check<ValueError>(run.model().options.norm != NormPlacement::kPost, "edges",
                    "this model normalizes the stream after each sum, so a receiver cannot read "
                    "the output of one component alone");
  base_ = std::make_shared<Base>(run);
}

Tensor PathCutter::replaced_output(const Pass& pass, const Component& c, const Replacement& r) {
  const auto l = std::size_t(c.layer);
  if (c.kind == Component::kEmbed) return r.embed;
  return c.kind == Component::kMlp ? r.mlp[l] : pass.written(c, select(r.z[l], 2, c.head));
}

std::vector<double> PathCutter::values(const std::vector<Path>& paths) const {
  const NoGrad guard;
  Pass pass(run_, *base_, paths, through_mlps_);
  return to_doubles(pass.values(
      [&](std::size_t i, const Tensor& out) {
        return replaced_output(pass, paths[i].sender, replaced_) - out;
      },
      true));
}

PathCutter::Values PathCutter::predict(const std::vector<Path>& paths,
                                       const std::vector<Path>& distinct,
                                       const std::vector<std::size_t>& gradient_of,
                                       bool together) const {
  Values predicted(paths.size());
  const std::int64_t count = std::ssize(run_.values),
                     most = sequences_at_once(run_.model(), run_.batch.inputs.size(1));
  for (std::int64_t first = 0; first < count; first += most) {
    const std::int64_t n = std::min(most, count - first);
    const BaseRun part = run_.rows(first, n);
    const Replacement replaced = replaced_.rows(first, n);
    const Base base = base_->rows(first, n);
    Pass pass(part, base, distinct, through_mlps_);
    std::vector<Tensor> changes;  // 0; the gradients of L at these are the gradients of the paths
    for (std::size_t i = 0; i < distinct.size(); ++i)
      changes.push_back(zeros_like(part.resid_pre[0]).requires_grad_());
    const GradMode recording(true);
    const Tensor values =
        pass.values([&](std::size_t i, const Tensor&) { return changes[i]; }, together);
    const std::vector<Tensor> gradients = grad(sum(values), changes, {.allow_unused = true});
    const NoGrad guard;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      const Tensor change = to(replaced_output(pass, paths[i].sender, replaced), float64) -
                            to(pass.output(paths[i].sender, base.streams), float64);
      for (const double p :
           to_doubles(sum(change * to(gradients[gradient_of[i]], float64), {1, 2})))
        predicted[i].push_back(p);
    }
  }
  for (std::size_t i = 0; i < paths.size(); ++i)
    check<NumericError>(std::isfinite(effect_of(predicted[i]).mean), "edges", "the prediction for ",
                        path_name(paths[i]), " is not finite");
  return predicted;
}

std::vector<Effect> PathCutter::predictions(const std::vector<Path>& paths) const {
  constexpr std::size_t kMostGradients = 32;  // of one backward pass; each needs [B, T, d_model]
  std::vector<Effect> predicted;
  for (std::size_t begin = 0; begin < paths.size();) {
    // Paths with the same receivers have the same gradient. MLPs between a sender and the first
    // receiver make it depend on the stage of the sender, too.
    std::vector<Path> distinct, group;
    std::vector<std::size_t> gradient_of;
    for (; begin < paths.size(); ++begin) {
      const Path& path = paths[begin];
      const auto same = std::ranges::find_if(distinct, [&](const Path& p) {
        return p.receivers == path.receivers &&
               (!through_mlps_ || stage_of(p.sender) == stage_of(path.sender));
      });
      if (same == distinct.end() && distinct.size() == kMostGradients) break;
      gradient_of.push_back(std::size_t(same - distinct.begin()));
      if (same == distinct.end()) distinct.push_back(path);
      group.push_back(path);
    }
    for (const auto& values : predict(group, distinct, gradient_of, false))
      predicted.push_back(effect_of(values));
  }
  return predicted;
}

Effect PathCutter::measured(const std::vector<Path>& paths) const {
  const Effect effect = effect_of(run_.changes(values(paths)));
  check<NumericError>(std::isfinite(effect.mean), "edges", "the effect of ", path_name(paths[0]),
                      " is not finite");
  return effect;
}

Evidence PathCutter::cut(const std::vector<Path>& paths) const {
  check<ValueError>(!paths.empty(), "edges", "needs at least one path, got none");
  std::vector<std::size_t> each(paths.size());
  std::iota(each.begin(), each.end(), std::size_t(0));
  std::vector<double> sums(run_.values.size(), 0);
  for (const auto& of_path : predict(paths, paths, each, true))
    for (std::size_t b = 0; b < sums.size(); ++b) sums[b] += of_path[b];
  std::vector<std::string> names;
  for (const Path& p : paths) names.push_back(path_name(p));
  return {heed::join(names, ", "), measured(paths), {{"gradient", effect_of(sums)}}};
}

std::vector<Evidence> PathCutter::largest(const std::vector<Path>& paths, std::size_t count,
                                          const ProgressCallback& progress) const {
  const std::vector<Effect> predicted = predictions(paths);
  std::vector<std::size_t> order(paths.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t i) { return std::abs(predicted[i].mean); });
  order.resize(std::min(order.size(), count));
  std::vector<Evidence> cuts;
  for (const std::size_t i : order) {
    cuts.push_back({path_name(paths[i]), measured({paths[i]}), {{"gradient", predicted[i]}}});
    if (progress) progress(std::ssize(cuts), std::ssize(order));
  }
  std::ranges::stable_sort(cuts, std::greater<>(),
                           [](const Evidence& c) { return std::abs(c.effect.mean); });
  return cuts;
}

}  // namespace heed::nn
