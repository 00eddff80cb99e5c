#include "nn/layers/transformer.h"

#include <cmath>

#include "autograd/graph/observer.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Range checks of every size, before anything is allocated.
Transformer::Options checked(const Transformer::Options& o) {
  const auto in_range = [](std::string_view option, std::int64_t value, std::int64_t most) {
    check<ValueError>(value >= 1 && value <= most, "Transformer", "needs ", option, " from 1 to ",
                      most, ", got ", value);
  };
  in_range("vocab", o.vocab, 1 << 24);
  in_range("d_model", o.d_model, 1 << 16);
  in_range("heads", o.heads, 1 << 12);
  in_range("layers", o.layers, 1 << 10);
  in_range("context", o.context, 1 << 20);
  check<ValueError>(o.d_head > 0 || o.d_model % o.heads == 0, "Transformer", "d_model ", o.d_model,
                    " is not divisible by heads ", o.heads, "; choose a multiple, or set d_head");
  check<ValueError>(std::round(o.mlp_ratio * double(o.d_model)) >= 1 && o.mlp_ratio <= 1 << 10,
                    "Transformer", "needs mlp_ratio times d_model from 1 to 1024 d_model, got ",
                    o.mlp_ratio, " times ", o.d_model);
  check<ValueError>(o.dropout >= 0 && o.dropout < 1, "Transformer", "needs dropout in [0, 1), got ",
                    o.dropout);
  Transformer::Options full = o;
  if (full.classes == 0) full.classes = o.vocab;
  in_range("classes", full.classes, 1 << 24);
  check<ValueError>(!o.tied || full.classes == o.vocab, "Transformer",
                    "a tied head has one column per input token: ", o.vocab, " tokens, ",
                    full.classes, " classes");
  return full;
}

Tensor dropped(const Tensor& x, double p, const ForwardContext& ctx) {
  if (!ctx.training || p == 0) return x;
  return dropout(x, p, ctx.generator ? *ctx.generator : default_generator());
}

// How many tokens are in front of n new ones.
std::int64_t cached_tokens(const Transformer::Options& o, std::int64_t n,
                           const ForwardContext& ctx) {
  if (!ctx.cache) return 0;
  const std::int64_t cached = ctx.cache->length(), layers = ctx.cache->options().layers;
  check<ValueError>(layers == o.layers, "Transformer", "has ", o.layers, " layers, its KV cache ",
                    layers, "; make the cache with model.cache(batch)");
  check<ValueError>(cached + n <= o.context, "Transformer", "context ", o.context, " has ", cached,
                    " cached tokens and no room for ", n, " more; clear() starts the cache anew");
  check<ValueError>(ctx.cache->position() == cached || are_relative(o.positions), "Transformer",
                    "its positions are a table, and its KV cache has dropped tokens; clear() and "
                    "run what is left anew, or use positions rope, alibi or none");
  return cached;
}

std::optional<Norm> block_norm(const Block::Options& o) {
  if (o.norm == NormPlacement::kNone) return std::nullopt;
  return Norm({.dim = o.attention.d_model,
               .kind = o.norm_kind,
               .bias = o.norm_bias,
               .dtype = o.attention.dtype});
}

double residual_scale(const Transformer::Options& o) {
  if (const double* number = std::get_if<double>(&o.residual_scale)) return *number;
  return 1 / std::sqrt(2 * double(o.layers));
}

Block::Options block_options(const Transformer::Options& o) {
  return {.attention = {.d_model = o.d_model,
                        .heads = o.heads,
                        .d_head = o.d_head,
                        .d_value = o.d_value,
                        .kv_heads = o.kv_heads,
                        .form = o.form,
                        .bias = o.bias,
                        .q_bias = o.q_bias,
                        .k_bias = o.k_bias,
                        .v_bias = o.v_bias,
                        .out_bias = o.out_bias,
                        .scale = o.scale,
                        .qk_norm = o.qk_norm,
                        .soft_cap = o.soft_cap,
                        .sink = o.sink,
                        .window = o.window,
                        .causal = true,
                        .rope = o.positions == Positions::kRope,
                        .dropout = o.dropout,
                        .dtype = o.dtype},
          .mlp = o.mlp,
          .hidden = std::int64_t(std::round(o.mlp_ratio * double(o.d_model))),
          .activation = o.activation,
          .norm = o.norm,
          .norm_kind = o.norm_kind,
          .norm_bias = o.norm_bias,
          .dropout = o.dropout,
          .residual_scale = residual_scale(o)};
}

}  // namespace

bool are_relative(Positions positions) {
  return positions == Positions::kRope || positions == Positions::kAlibi ||
         positions == Positions::kNone;
}

Tensor sinusoidal_positions(std::int64_t count, std::int64_t dim, DType dtype) {
  const Tensor table = empty({count, dim}, float64);
  double* at = table.mutable_data<double>();
  for (std::int64_t p = 0; p < count; ++p)
    for (std::int64_t c = 0; c < dim; ++c) {
      const double angle = double(p) / std::pow(10000, double(c / 2 * 2) / double(dim));
      *at++ = c % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  return to(table, dtype);
}

Block::Block(const Options& o, Generator& g)
    : options(o),
      ln1(block_norm(o)),
      ln2(o.mlp ? block_norm(o) : std::nullopt),
      attn(o.attention, g) {
  if (o.mlp)
    mlp.emplace(MLP::Options{.dim = o.attention.d_model,
                             .hidden = o.hidden,
                             .activation = o.activation,
                             .bias = o.attention.bias,
                             .dtype = o.attention.dtype},
                g);
}

Tensor Block::operator()(const Tensor& x, const ForwardContext& ctx) const {
  const bool pre = options.norm == NormPlacement::kPre, post = options.norm == NormPlacement::kPost;
  const double scale = options.residual_scale;
  const auto sublayer = [&](const Tensor& in, const std::optional<Norm>& norm,
                            std::string_view site, auto layer) {
    const Tensor kept = dropped(layer(pre ? (*norm)(in) : in), options.dropout, ctx);
    const Tensor out = in + ctx.at(site, scale == 1 ? kept : kept * scale);
    return post ? (*norm)(out) : out;
  };
  Tensor h = ctx.at("hook_resid_pre", x);
  h = sublayer(h, ln1, "hook_attn_out", [&](const Tensor& u) {
    const NameScope scope("attn");
    return attn(u, ctx.child("attn"));
  });
  if (mlp)
    h = sublayer(ctx.at("hook_resid_mid", h), ln2, "hook_mlp_out", [&](const Tensor& u) {
      const NameScope scope("mlp");
      return (*mlp)(u);
    });
  h = ctx.at("hook_resid_post", h);
  ctx.end();
  return h;
}

Transformer::Transformer(const Options& o, Generator& g)
    : options(checked(o)), tok({.count = o.vocab, .dim = o.d_model, .dtype = o.dtype}, g) {
  if (o.positions == Positions::kLearned)
    pos.emplace(Embedding::Options{.count = o.context, .dim = o.d_model, .dtype = o.dtype}, g);
  if (o.positions == Positions::kSinusoidal)
    sinusoid = sinusoidal_positions(o.context, o.d_model, o.dtype);
  for (std::int64_t i = 0; i < o.layers; ++i) blocks.emplace_back(block_options(o), g);
  if (o.norm == NormPlacement::kPre) ln = block_norm(blocks[0].options);
  if (!o.tied)
    head.emplace(
        Linear::Options{.in = o.d_model, .out = options.classes, .bias = false, .dtype = o.dtype},
        g);
}

std::string Block::parameter_name(std::string_view attention) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"in_proj_", "qkv."},
                                                                      {"out_proj.", "proj."},
                                                                      {"q_proj_", "q."},
                                                                      {"k_proj_", "k."},
                                                                      {"v_proj_", "v."}};
  for (const auto& [from, to] : kNames)
    if (attention.starts_with(from))
      return std::string(to) + std::string(attention.substr(from.size()));
  return "attn." + std::string(attention);
}

Transformer convert(Transformer model, AttentionForm to) {
  for (Block& block : model.blocks) {
    MultiHeadAttention& attn = block.attn;
    attn.weights = convert(attn.weights, attn.options, to);
    attn.options.form = block.options.attention.form = to;
  }
  model.options.form = to;
  return model;
}

KVCache Transformer::cache(std::int64_t batch, std::int64_t spare) const {
  const MultiHeadAttention::Options& o = blocks[0].attn.options;
  return KVCache({.layers = options.layers,
                  .batch = batch,
                  .heads = o.kv_heads,
                  .capacity = options.context,
                  .d_head = o.d_head,
                  .d_value = o.d_value,
                  .spare = spare,
                  .dtype = o.dtype});
}

Tensor Transformer::forward(const Tensor& ids, const ForwardContext& ctx) const {
  check(ids.rank() == 2 && ids.size(1) <= options.context, "Transformer",
        "needs ids [B, T] with T <= context ", options.context, ", got ", ids.shape());
  return forward_embedded(ctx.at("hook_embed", tok(ids)), ctx);
}

Tensor Transformer::forward_embedded(const Tensor& embedded, const ForwardContext& ctx) const {
  check(embedded.rank() == 3 && embedded.size(1) <= options.context &&
            embedded.size(2) == options.d_model,
        "Transformer", "needs embeddings [B, T <= ", options.context, ", ", options.d_model,
        "], got ", embedded.shape());
  const MatmulPrecision precision(options.matmul);
  const std::int64_t n = embedded.size(1), first = cached_tokens(options, n, ctx);
  Tensor x = embedded;  // [B, T, d_model]
  if (pos) x = x + slice(pos->weight, 0, first, first + n);
  if (sinusoid.defined()) x = x + slice(sinusoid, 0, first, first + n);
  ForwardContext whole = ctx;
  if (options.positions == Positions::kAlibi)
    whole.bias = ctx.bias + ScoreBias::alibi(options.heads, n, first + n, options.dtype);
  x = dropped(x, options.dropout, ctx);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::string name = block_name(std::int64_t(i));
    const NameScope scope(name);
    x = blocks[i](x, whole.block(std::int64_t(i)));
  }
  ctx.end();
  if (ctx.last_only) x = slice(x, 1, n - 1, n);
  if (ln) x = (*ln)(x);
  return linear(x, head ? head->weight : tok.weight);
}

}  // namespace heed::nn
