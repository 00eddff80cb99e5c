#include "nn/train/checks/invariants.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "autograd/graph/graph.h"
#include "nn/layers/sites.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Converts x of shape [B, T, H, d] to float64 and to shape [B, H, T, d].
Tensor exact_heads(const Tensor& x) { return permute(to(x, float64), {0, 2, 1, 3}); }

Tensor finite_or_zero(const Tensor& x) { return masked_fill(x, logical_not(isfinite(x)), 0); }

// First element at which two tensors of the same shape differ by more than `bound`, or at which a
// value is not finite.
struct Miss {
  Dims at;
  double got, want, bound;
};
std::optional<Miss> first_miss(const Tensor& got, const Tensor& want, const Tensor& bound) {
  const Tensor held = logical_and(le(abs(got - want), bound), isfinite(bound));
  const std::vector<bool> flags = held.to_vector<bool>();
  const auto flat = std::find(flags.begin(), flags.end(), false) - flags.begin();
  if (flat == std::ssize(flags)) return {};
  const auto value = [&](const Tensor& x) { return x.to_vector<double>()[std::size_t(flat)]; };
  return Miss{unravel(flat, got.shape()), value(got), value(want), value(bound)};
}

// Returns the site of the weights that are multiplied by the values.
const char* weights_site(const MultiHeadAttention::Options& o) {
  return o.dropout > 0 ? "hook_pattern_dropped" : "hook_pattern";
}
// Returns the sites of a layer whose values and gradients the identities relate.
std::set<std::string> sites_of(const MultiHeadAttention::Options& o) {
  return {"hook_attn_scores", "hook_pattern", weights_site(o), "hook_z", "hook_v"};
}

// Checks the identities of one layer. All arrays are in float64.
class Identities {
 public:
  Identities(const AttentionArrays& x, std::int64_t layer, const MultiHeadAttention::Options& o)
      : layer_(layer),
        has_sink_(o.sink != Sink::kNone),
        a_(to(x.at("hook_pattern"), float64)),
        d_a_(to(x.at("hook_pattern_grad"), float64)),
        d_s_(to(x.at("hook_attn_scores_grad"), float64)),
        dropped_(to(x.at(weights_site(o)), float64)),
        d_o_(exact_heads(x.at("hook_z_grad"))),
        d_v_(exact_heads(x.at("hook_v_grad"))),
        shared_(a_.size(1) / d_v_.size(1)) {
    const std::int64_t length = a_.size(2);
    const Tensor seen = tril_mask(length, length);
    masked_ = logical_not(seen);
    if (o.window > 0) masked_ = logical_or(masked_, tril_mask(length, length, -o.window));
    const Tensor size =
        max(abs(to(masked_fill(x.at("hook_attn_scores"), masked_, 0), float64)), {3}, true);
    roundings_ = 4.0 * size + double(2 * length + length * shared_ + d_o_.size(3) + 16);
    const bool single = x.at("hook_pattern").dtype() == float32;
    eps_ = single ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
    least_ = single ? std::numeric_limits<float>::min() : std::numeric_limits<double>::min();
    // A value that is not finite fails the check of its own row. It must not change the bounds of
    // other rows.
    for (const Tensor& factor : {d_a_, d_o_})
      largest_ = std::max(largest_, max(abs(finite_or_zero(factor))).item());
    least_ *= 1 + largest_;
    delta_ = sum(d_o_ * exact_heads(x.at("hook_z")), {3});
    const Tensor v = repeat_heads(finite_or_zero(exact_heads(x.at("hook_v"))), a_.size(1));
    const Tensor terms = abs(d_o_) * matmul(dropped_, abs(v));
    bound_ = squeeze(roundings_, 3) * (sum(terms, {3}) * eps_ + least_);
  }

  std::string first_broken() const {
    std::string text = masked_entry(a_, "the weight");
    if (text.empty()) text = masked_entry(d_s_, "dL/dS");
    if (text.empty()) text = row_sum();
    if (text.empty()) text = row_product();
    if (text.empty()) text = values_gradient();
    return text;
  }

 private:
  std::string query(const Dims& at) const {
    return fmt::format("{}, query {} of sequence {}", head_name({layer_, at[1]}), at[2], at[0]);
  }

  std::string masked_entry(const Tensor& x, const char* name) const {
    const Tensor zero = zeros_like(x);
    const auto miss = first_miss(masked_fill(x, logical_not(masked_), 0), zero, zero);
    if (!miss) return "";
    return fmt::format("{}: {} of key {}, which is masked, is {:g}, needs 0", query(miss->at), name,
                       miss->at[3], miss->got);
  }

  std::string row_sum() const {
    const Tensor rest = 1.0 - sum(a_, {3});  // weight of the sink
    const auto miss = first_miss(sum(masked_fill(d_s_, masked_, 0), {3}),
                                 has_sink_ ? rest * delta_ : zeros_like(delta_), bound_);
    if (!miss) return "";
    return fmt::format("{}: the sum of dL/dS over keys is {:g}, needs {:g}{} within {:.2g}",
                       query(miss->at), miss->got, miss->want,
                       has_sink_ ? " (minus the sink's)" : "", miss->bound);
  }

  std::string row_product() const {
    const auto miss = first_miss(sum(masked_fill(a_ * d_a_, masked_, 0), {3}), delta_, bound_);
    if (!miss) return "";
    return fmt::format("{}: the sum of A * dL/dA is {:g}, needs dL/dO . O = {:g} within {:.2g}",
                       query(miss->at), miss->got, miss->want, miss->bound);
  }

  std::string values_gradient() const {
    const auto of_shared = [&](const Tensor& x) {  // [B, H, T, d] -> [B, Hkv, T, d]
      return sum(reshape(x, {x.size(0), -1, shared_, x.size(2), x.size(3)}), {2});
    };
    const Tensor terms = matmul(mT(dropped_ * roundings_), abs(d_o_));
    const Tensor most = max(roundings_, {1, 2}, true);
    const auto miss = first_miss(d_v_, of_shared(matmul(mT(dropped_), d_o_)),
                                 of_shared(terms) * eps_ + most * least_);
    if (!miss) return "";
    Dims at = miss->at;
    at[1] *= shared_;
    const std::string others =
        shared_ == 1 ? "" : " to " + head_name({layer_, at[1] + shared_ - 1});
    return fmt::format(
        "{}{}, key {} of sequence {}: column {} of dL/dv is {:g}, needs that of "
        "A^T dL/dO = {:g} within {:.2g}",
        head_name({layer_, at[1]}), others, at[2], at[0], at[3], miss->got, miss->want,
        miss->bound);
  }

  std::int64_t layer_;
  bool has_sink_;
  Tensor a_, d_a_, d_s_, dropped_;  // [B, H, T, T]
  Tensor d_o_, d_v_;                // [B, H, T, d_value], [B, Hkv, T, d_value]
  std::int64_t shared_;             // number of heads that share a head of keys and values
  Tensor masked_;                   // [T, T]: true if the query may not attend to the key
  Tensor roundings_;                // [B, H, T, 1]: n (see invariants.h) for each query
  Tensor delta_;                    // [B, H, T]: dL/dO . O
  Tensor bound_;                    // [B, H, T]: allowed difference of sums over keys
  double eps_;                      // machine epsilon of the dtype
  double least_;                    // smallest normal number, times 1 + largest_
  double largest_ = 0;              // largest finite |dL/dA| or |dL/dO|
};

}  // namespace

std::string broken_invariant(const AttentionArrays& x, std::int64_t layer,
                             const MultiHeadAttention::Options& o) {
  const NoGrad guard;
  return Identities(x, layer, o).first_broken();
}

void record_invariants(Probe& probe, const Transformer& model) {
  for (std::int64_t layer = 0; layer < model.options.layers; ++layer)
    for (const std::string& site : sites_of(model.options.attention))
      probe.record(block_site(layer, "attn." + site));
}

std::string broken_invariant(const Probe& probe, const Transformer& model) {
  const MultiHeadAttention::Options& o = model.options.attention;
  for (std::int64_t layer = 0; layer < model.options.layers; ++layer) {
    AttentionArrays x;
    for (const std::string& site : sites_of(o))
      for (const std::string& name : {site, site + "_grad"})
        x[name] = probe.value(block_site(layer, "attn." + name));
    const std::string text = broken_invariant(x, layer, o);
    if (!text.empty()) return text;
  }
  return "";
}

}  // namespace heed::nn
