// Tests of routes. The routes must sum to the gradient. Each route must equal the part of the
// gradient that is lost if its path is detached.
#include "nn/study/routes.h"

#include "nn/nn.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"
#include "tests/support/models.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;
using heed::autograd::testing::largest;

Batch two_sequences() {
  Sequence a, b;
  a.inputs = {0, 3, 1, 3, 4, 2}, a.targets = {3, 1, 3, 4, 2, 1};
  b.inputs = {1, 1, 4, 0, 2, 3}, b.targets = {1, 4, 2, kIgnored, 3, kIgnored};
  a.counted.assign(6, true), b.counted.assign(6, true);
  return make_batch({a, b});
}

// Returns dL/d(residual stream before `layer`) if these sites of the block are detached. If `head`
// is not negative, only this head is detached at each site.
Tensor gradient_cut_at(const Transformer& model, const Batch& batch, const Objective& o,
                       std::int64_t layer, const std::vector<std::string>& sites,
                       std::int64_t head = -1) {
  const std::string block = "blocks." + std::to_string(layer) + ".";
  const auto cut = [head](const Tensor& x) {
    if (head < 0) return x.detach();
    std::vector<Tensor> heads;
    for (std::int64_t h = 0; h < x.size(2); ++h) {
      const Tensor slice_h = slice(x, 2, h, h + 1);
      heads.push_back(h == head ? slice_h.detach() : slice_h);
    }
    return cat(heads, 2);
  };
  Probe probe;
  probe.record(block + "hook_resid_pre");
  for (const std::string& site : sites) probe.replace(block + site, cut);
  const GradMode recording(true);
  const Tensor values = objective_values(model(batch.inputs, {.probe = &probe}), batch, o);
  grad(sum(values), model.tok.weight);
  return probe.value(block + "hook_resid_pre_grad");
}

void check_block(const Transformer& model, const Batch& batch, const Objective& o,
                 const Routes& r) {
  const double scale = largest(r.total);
  REQUIRE(scale > 0);
  CHECK(largest(sum(r.vectors, {0}) - r.total) <= 1e-12 * scale);
  const Tensor length = sqrt(sum(r.total * r.total, {-1}));  // [B, T]
  const Tensor nothing = le(length, 0.0);                    // true where the gradient is 0
  CHECK(largest(masked_fill(sum(r.shares(), {0}) - 1.0, nothing, 0)) <= 1e-10);
  const Block& block = model.blocks[std::size_t(r.layer)];
  const std::int64_t heads = model.options.attention.heads, own = block.attn.options.kv_heads;
  const auto part = [&](const std::string& name) {
    const auto found = std::find(r.parts.begin(), r.parts.end(), name);
    REQUIRE(found != r.parts.end());
    return select(r.vectors, 0, found - r.parts.begin());
  };
  const auto range = [&](std::int64_t h) {
    return head_range({r.layer, h * heads / own}, heads / own);
  };
  const auto cut = [&](const std::string& site, std::int64_t head) {
    return r.total - gradient_cut_at(model, batch, o, r.layer, {site}, head);
  };
  for (std::int64_t h = 0; h < heads; ++h)
    CHECK(largest(part(head_name({r.layer, h}) + ".Q") - cut("attn.hook_q", h)) <= 1e-12 * scale);
  for (std::int64_t h = 0; h < own; ++h) {
    const Tensor k = part(range(h) + ".K"), v = part(range(h) + ".V");
    CHECK(largest(k - cut("attn.hook_k", h)) <= 1e-12 * scale);
    CHECK(largest(v - cut("attn.hook_v", h)) <= 1e-12 * scale);
    const Tensor along = masked_fill(sum((k + v) * r.total, {-1}) / length, nothing, 0);
    const Tensor group =
        slice(r.from, 1, h * (heads / own), (h + 1) * (heads / own));  // [B, group, Tq, Tk]
    CHECK(largest(sum(group, {1, 2}) - along) <= 1e-12 * scale);
  }
  const std::vector<std::string> heads_cut{"attn.hook_q", "attn.hook_k", "attn.hook_v"};
  std::vector<std::string> all_cut = heads_cut;
  if (block.mlp) all_cut.push_back("hook_mlp_out");
  const Tensor past_both = gradient_cut_at(model, batch, o, r.layer, all_cut);
  CHECK(largest(part("residual") - past_both) <= 1e-12 * scale);
  if (block.mlp) {
    const Tensor past_heads = gradient_cut_at(model, batch, o, r.layer, heads_cut);
    CHECK(largest(part("mlp") - (past_heads - past_both)) <= 1e-12 * scale);
  }
}

TEST_CASE("routes sum to the gradient, and each is the part that is lost without its path") {
  const Batch batch = two_sequences();
  for (const NormPlacement norm : {NormPlacement::kPre, NormPlacement::kPost, NormPlacement::kNone})
    for (const auto& [name, options] :
         variant_models({.vocab = 5,
         .layers = 2,
         .context = 6,
         .attention = {.d_model = 8, .heads = 4, .dtype = float64}})) {
      Transformer::Options o = options;
      o.norm = norm;
      CAPTURE(name, int(norm));
      const Transformer model = random_model(o);
      for (const Objective& objective :
           {Objective{}, Objective{Objective::kDifference, 1, 3, {4, 5}}}) {
        const Study s = study(model, batch, objective);
        for (const std::int64_t layer : {0, 1})
          check_block(model, batch, objective, routes(model, s, layer));
      }
      for (const NamedTensor& p : parameters(model)) CHECK(!p.tensor.grad().defined());
    }
}

}  // namespace
