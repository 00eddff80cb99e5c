#include "nn/layers/transformer.h"

#include <algorithm>
#include <cmath>

#include "autograd/graph/observer.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Returns x with dropout of probability p, or x itself outside training.
Tensor dropped(const Tensor& x, double p, const ForwardContext& ctx) {
  if (!ctx.training || p == 0) return x;
  return dropout(x, p, ctx.generator ? *ctx.generator : default_generator());
}

// Returns the number of tokens in ctx.cache, or 0 without a cache. Throws ValueError if the cache
// does not fit the model, if it has no space for n more tokens, or if it has dropped tokens and the
// positions are not relative.
Index cached_tokens(const Transformer::Options& o, Index n, const ForwardContext& ctx) {
  if (!ctx.cache) return 0;
  const Index cached = ctx.cache->length(), layers = ctx.cache->options().layers;
  check<ValueError>(layers == o.layers, "Transformer", "has ", o.layers,
                    " layers, but its KV cache has ", layers,
                    "; create the cache with model.cache(batch)");
  check<ValueError>(
      cached + n <= o.context, "Transformer", "has context ", o.context, ", got ", cached,
      " cached and ", n,
      " new tokens; give fewer tokens, or call clear() on the KV cache to start again");
  return cached;
}

// Throws ValueError if the keep-mask leaves out different numbers of keys at the start of the
// sequences, as left padding does. The positions of their tokens would then be wrong.
void check_positions(const KeepMask& keep) {
  const Tensor& mask = keep.tensor();  // [B, 1 or H, 1 or Tq, Tk] if it differs between sequences
  if (!mask.defined() || mask.rank() < 4 || mask.size(0) < 2) return;
  const Tensor first = argmax(to(any(mask, {1, 2}), float32), -1);  // [B], the first key
  const auto firsts = first.to_vector<std::int64_t>();
  for (const Index n : firsts)
    check<ValueError>(n == firsts[0], "Transformer", "the keep-mask leaves out ", firsts[0],
                      " keys at the start of one sequence and ", n,
                      " of another (left padding), "
                      "but learned and sinusoidal positions count from the first key; pad at the "
                      "end (KeepMask::padding), or use rope, alibi or no positions");
}

// Returns true if the probe uses the stream after attention in this block, or a site that is
// computed from it. Sites have all positions, so the MLP must then run at all positions.
bool uses_stream_after_attention(const ForwardContext& ctx, Index layer) {
  constexpr std::string_view kSites[] = {"hook_resid_mid", "hook_mlp_out", "hook_resid_post"};
  return ctx.probe && std::ranges::any_of(kSites, [&](std::string_view site) {
           return ctx.probe->uses(block_site(layer, site));
         });
}

std::optional<Norm> norm_of(const TransformerOptions& o) {
  if (o.norm == NormPlacement::kNone) return std::nullopt;
  return Norm({.dim = o.attention.d_model,
               .kind = o.norm_kind,
               .bias = o.norm_bias,
               .dtype = o.attention.dtype});
}

}  // namespace

Tensor sinusoidal_positions(Index count, Index dim, DType dtype) {
  const Tensor table = empty({count, dim}, float64);
  double* out = table.mutable_data<double>();
  for (Index p = 0; p < count; ++p)
    for (Index c = 0; c < dim; ++c) {
      const double angle = double(p) / std::pow(10000, double(c / 2 * 2) / double(dim));
      *out++ = c % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  return to(table, dtype);
}

TransformerOptions TransformerOptions::checked() const {
  const auto in_range = [](std::string_view option, Index value, Index most) {
    check<ValueError>(value >= 1 && value <= most, "Transformer", "needs `", option, "` from 1 to ",
                      most, ", got ", value);
  };
  TransformerOptions o = *this;
  if (o.classes == 0) o.classes = o.vocab;
  in_range("vocab", o.vocab, 1 << 24);
  in_range("classes", o.classes, 1 << 24);
  in_range("d_model", o.attention.d_model, 1 << 16);
  in_range("heads", o.attention.heads, 1 << 12);
  in_range("layers", o.layers, 1 << 10);
  in_range("context", o.context, 1 << 20);
  o.attention.causal = true, o.attention.rope = o.positions == Positions::kRope;
  o.attention = o.attention.checked();
  check<ValueError>(
      std::round(o.mlp_ratio * double(o.attention.d_model)) >= 1 && o.mlp_ratio <= 1 << 10,
      "Transformer",
      "needs `mlp_ratio` up to 1024 and an MLP of at least 1 neuron, got `mlp_ratio` ", o.mlp_ratio,
      " with `d_model` ", o.attention.d_model);
  check<ValueError>(!o.tied || o.classes == o.vocab, "Transformer",
                    "a `tied` head needs one class per input token, got ", o.classes,
                    " classes and ", o.vocab, " tokens");
  return o;
}

Block::Block(const Options& o, Generator& g)
    : norm(o.norm), ln1(norm_of(o)), ln2(o.mlp ? norm_of(o) : std::nullopt), attn(o.attention, g) {
  const Index d_model = o.attention.d_model;
  if (o.mlp)
    mlp.emplace(MLP::Options{.dim = d_model,
                             .hidden = Index(std::round(o.mlp_ratio * double(d_model))),
                             .activation = o.activation,
                             .bias = o.attention.bias,
                             .dtype = o.attention.dtype},
                g);
}

Tensor Block::operator()(const Tensor& x, const ForwardContext& ctx) const {
  const bool pre = norm == NormPlacement::kPre, post = norm == NormPlacement::kPost;
  const auto sublayer = [&](const Tensor& in, const std::optional<Norm>& ln, std::string_view site,
                            auto layer) {
    const Tensor kept = dropped(layer(pre ? (*ln)(in) : in), attn.options.dropout, ctx);
    const Tensor out = in + ctx.at(site, kept);
    return post ? (*ln)(out) : out;
  };
  Tensor h = ctx.at("hook_resid_pre", x);
  h = sublayer(h, ln1, "hook_attn_out", [&](const Tensor& u) {
    const NameScope scope("attn");
    return attn(u, ctx.child("attn"));
  });
  // [B, T, D] -> [B, P, D]
  if (ctx.logits_at.defined()) h = index_select(h, 1, ctx.logits_at);
  if (mlp)
    h = sublayer(ctx.at("hook_resid_mid", h), ln2, "hook_mlp_out", [&](const Tensor& u) {
      const NameScope scope("mlp");
      return (*mlp)(u);
    });
  h = ctx.at("hook_resid_post", h);
  ctx.end();
  return h;
}

Transformer::Transformer(const Options& given, Generator& g)
    : options(given.checked()),
      tok({.count = options.vocab,
           .dim = options.attention.d_model,
           .dtype = options.attention.dtype},
          g) {
  const Options& o = options;
  const Index d_model = o.attention.d_model;
  const DType dtype = o.attention.dtype;
  if (o.positions == Positions::kLearned)
    pos.emplace(Embedding::Options{.count = o.context, .dim = d_model, .dtype = dtype}, g);
  if (o.positions == Positions::kSinusoidal)
    sinusoid = sinusoidal_positions(o.context, d_model, dtype);
  for (Index i = 0; i < o.layers; ++i) blocks.emplace_back(o, g);
  if (o.norm == NormPlacement::kPre) ln = norm_of(o);
  if (!o.tied)
    head.emplace(Linear::Options{.in = d_model, .out = o.classes, .bias = false, .dtype = dtype},
                 g);
}

std::string Block::parameter_name(std::string_view attention) {
  for (const auto& [from, to] : {std::pair("in_proj_", "qkv."), {"out_proj.", "proj."}})
    if (attention.starts_with(from))
      return std::string(to) + std::string(attention.substr(std::string_view(from).size()));
  return "attn." + std::string(attention);
}

void extend_context(Transformer& model, Index context) {
  TransformerOptions longer = model.options;
  if (context <= longer.context) return;
  check<ValueError>(!model.pos, "`context`", "the learned positions of the model end at ",
                    longer.context, " tokens, got ", context);
  longer.context = context;
  longer = longer.checked();
  if (model.sinusoid.defined())
    model.sinusoid =
        sinusoidal_positions(context, longer.attention.d_model, longer.attention.dtype);
  model.options = longer;
}

KVCache Transformer::cache(Index batch) const {
  const MultiHeadAttention::Options& o = options.attention;
  return KVCache({.layers = options.layers,
                  .batch = batch,
                  .heads = o.kv_heads,
                  .capacity = options.context,
                  .d_head = o.d_head,
                  .d_value = o.d_value,
                  .dtype = o.dtype});
}

Tensor Transformer::forward(const Tensor& ids, const ForwardContext& ctx) const {
  check(ids.rank() == 2 && ids.size(1) <= options.context, "Transformer",
        "needs ids [B, T] with T <= context ", options.context, ", got ", ids.shape());
  return forward_embedded(ctx.at("hook_embed", tok(ids)), ctx);
}

Tensor Transformer::forward_embedded(const Tensor& embedded, const ForwardContext& ctx) const {
  check(embedded.rank() == 3 && embedded.size(1) <= options.context &&
            embedded.size(2) == options.attention.d_model,
        "Transformer", "needs embeddings [B, T <= ", options.context, ", ",
        options.attention.d_model, "], got ", embedded.shape());
  const Index n = embedded.size(1), first = cached_tokens(options, n, ctx);
  if (pos || sinusoid.defined()) check_positions(ctx.keep);
  Tensor x = embedded;  // [B, T, d_model]
  if (pos) x = x + slice(pos->weight, 0, first, first + n);
  if (sinusoid.defined()) x = x + slice(sinusoid, 0, first, first + n);
  return forward_from(0, dropped(x, options.attention.dropout, ctx), ctx);
}

Tensor Transformer::forward_from(Index layer, const Tensor& stream,
                                 const ForwardContext& ctx) const {
  check<ValueError>(layer >= 0 && layer <= std::ssize(blocks), "Transformer", "has ", blocks.size(),
                    " blocks, got block ", layer);
  check<ValueError>(!ctx.cache || layer == 0, "Transformer",
                    "a KV cache needs a pass through all blocks, got a pass from block ", layer);
  const Index n = stream.size(1), first = ctx.cache ? ctx.cache->length() : 0;
  ForwardContext inner = ctx;
  if (options.positions == Positions::kAlibi)
    inner.bias =
        ctx.bias + ScoreBias::alibi(options.attention.heads, n, first + n, options.attention.dtype);
  const Index last = std::ssize(blocks) - 1;
  const bool select_in_block = layer <= last && !uses_stream_after_attention(ctx, last);
  Tensor x = stream;
  for (Index i = layer; i <= last; ++i) {
    const std::string name = block_name(i);
    const NameScope scope(name);
    inner.logits_at = i == last && select_in_block ? ctx.logits_at : Tensor();
    x = blocks[std::size_t(i)](x, inner.block(i));
  }
  if (ctx.logits_at.defined() && !select_in_block) x = index_select(x, 1, ctx.logits_at);
  if (ln) x = (*ln)(x);
  x = linear(x, head ? head->weight : tok.weight);
  ctx.end();
  return x;
}

}  // namespace heed::nn
