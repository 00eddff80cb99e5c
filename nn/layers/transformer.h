// The causal model: embeddings, blocks of attention and MLP, a head over the vocabulary.
#pragma once

#include <optional>

#include "nn/layers/attention.h"
#include "nn/layers/kv_cache.h"

namespace heed::nn {

/// Place of a block's norms: before each sublayer (GPT-2), after the residual sum (Vaswani et al.
/// 2017), or nowhere.
enum class NormPlacement { kPre, kPost, kNone };
template <>
struct EnumNames<NormPlacement> {
  static constexpr std::pair<NormPlacement, const char*> kTable[] = {
      {NormPlacement::kPre, "pre"}, {NormPlacement::kPost, "post"}, {NormPlacement::kNone, "none"}};
};

/// How a model knows where a token stands.
enum class Positions {
  kLearned,     ///< a table added to the embeddings (GPT-2)
  kSinusoidal,  ///< sines and cosines added to the embeddings (Vaswani et al. 2017)
  kRope,        ///< q and k rotated (Su et al. 2021)
  kAlibi,       ///< scores fall with the distance (Press et al. 2022)
  kNone,        ///< only by causality
};
template <>
struct EnumNames<Positions> {
  static constexpr std::pair<Positions, const char*> kTable[] = {
      {Positions::kLearned, "learned"},
      {Positions::kSinusoidal, "sinusoidal"},
      {Positions::kRope, "rope"},
      {Positions::kAlibi, "alibi"},
      {Positions::kNone, "none"}};
};

/// Returns whether positions are relative (rope, alibi, none), so that the oldest tokens of a cache
/// can be dropped. A table has no row for positions beyond its end.
bool are_relative(Positions positions);

/// Row p, columns 2i and 2i + 1: sin and cos of p / 10000^(2i / dim) -> [count, dim], float32 or
/// float64 (Vaswani et al. 2017, section 3.5).
Tensor sinusoidal_positions(std::int64_t count, std::int64_t dim, DType dtype = float32);

/// Factor of each sublayer's output before it is added to the stream.
enum class ResidualRule {
  kInvSqrtDepth,  ///< 1/sqrt(2 layers): the stream's variance does not grow with depth
};
template <>
struct EnumNames<ResidualRule> {
  static constexpr std::pair<ResidualRule, const char*> kTable[] = {
      {ResidualRule::kInvSqrtDepth, "1/sqrt-2-layers"}};
};

/// Options of a Transformer; a Block reads those that concern it.
struct TransformerOptions {
  std::int64_t vocab = 0;    ///< input tokens; has to be given
  std::int64_t classes = 0;  ///< output columns; 0: vocab
  std::int64_t layers = 2;
  std::int64_t context = 64;  ///< longest T; learned positions have this many rows
  /// Attention of every block. d_model and dtype are the whole model's; bias is that of all linears
  /// except the head; dropout is also applied to the embeddings and to what each sublayer adds. A
  /// Transformer sets `causal` to true and `rope` by `positions`.
  MultiHeadAttention::Options attention = {.d_model = 64, .heads = 4};
  bool mlp = true;
  double mlp_ratio = 4;  ///< width of the MLP / d_model
  Activation activation = Activation::kGelu;
  bool norm_bias = true;
  bool tied = false;  ///< the head is tok.weight and owns no parameter
  Positions positions = Positions::kLearned;
  NormPlacement norm = NormPlacement::kPre;
  NormKind norm_kind = NormKind::kLayerNorm;
  std::variant<ResidualRule, double> residual_scale = 1.0;  ///< of each sublayer's output
  Precision matmul = Precision::kFloat32;  ///< of all linears (ops.h), where dtype is float32

  /// Returns these options with everything filled in that was left open, attention's too. Throws
  /// as MultiHeadAttention::Options::checked() does. Allocates nothing.
  TransformerOptions checked() const;
};

/// Attention and, unless attention-only, an MLP, each added to the stream [B, T, d_model].
struct Block : Module {
  using Options = TransformerOptions;
  NormPlacement norm;
  double residual_scale;  ///< what each sublayer adds, times this
  std::optional<Norm> ln1, ln2;
  MultiHeadAttention attn;
  std::optional<MLP> mlp;

  explicit Block(const Options& o, Generator& g = default_generator());
  /// [B, T, d_model] -> the same. Sites besides attn's: hook_resid_pre, hook_resid_mid between the
  /// sublayers, if there is an MLP, and hook_resid_post; hook_attn_out and hook_mlp_out are what is
  /// added to the stream, scaled and after dropout. So resid_mid = resid_pre + attn_out, but with
  /// norms after the sum: there resid_mid and resid_post are the norms' outputs.
  Tensor operator()(const Tensor& x, const ForwardContext& ctx = {}) const;
  /// Names are those of peers' GPTs: ln1, ln2, qkv, proj, up, down, gate; per head
  /// TransformerLens'.
  template <class F>
  void visit(F&& f) {
    if (ln1) f("ln1", *ln1);
    if (ln2) f("ln2", *ln2);
    attn.visit([&](std::string_view name, auto& x) { f(parameter_name(name), x); });
    if (mlp) mlp->visit(f);
  }

 private:
  static std::string parameter_name(std::string_view attention);
};

struct Transformer : Module {
  using Options = TransformerOptions;
  Options options;  ///< as checked() returns them
  Embedding tok;
  std::optional<Embedding> pos;
  Tensor sinusoid;  ///< [context, d_model], no parameter; undefined unless kSinusoidal
  std::vector<Block> blocks;
  std::optional<Norm> ln;
  std::optional<Linear> head;  ///< no bias

  /// Throws as Options::checked() does.
  explicit Transformer(const Options& o, Generator& g = default_generator());
  /// int64 ids [B, T], T <= context -> logits [B, T, classes]. ctx.keep masks padding; the causal
  /// mask is always there. With ctx.cache ids are the n tokens after the cached ones, with which
  /// they count against the context -> logits [B, n, classes], those of the full pass. Where the
  /// cache has dropped tokens (ValueError unless positions are relative), those of a full pass that
  /// hides from each token what had been dropped before it.
  Tensor forward(const Tensor& ids, const ForwardContext& ctx = {}) const;
  Tensor operator()(const Tensor& ids, const ForwardContext& ctx = {}) const {
    return forward(ids, ctx);
  }
  /// Runs the model from embeddings [B, T, d_model] on: for gradients with respect to inputs.
  Tensor forward_embedded(const Tensor& embedded, const ForwardContext& ctx = {}) const;
  /// An empty cache for `context` tokens of each of `batch` sequences; spare as KVCache's.
  KVCache cache(std::int64_t batch = 1, std::int64_t spare = 0) const;
  template <class F>
  void visit(F&& f) {
    f("tok", tok);
    if (pos) f("pos", *pos);
    for (std::size_t i = 0; i < blocks.size(); ++i) f(block_name(std::int64_t(i)), blocks[i]);
    if (ln) f("ln", *ln);
    if (head) f("head", *head);
  }
};

/// Returns the model with its attention stored in another form. The parameters are new tensors,
/// which optimizers of the old ones do not update.
Transformer convert(Transformer model, AttentionForm to);

}  // namespace heed::nn
