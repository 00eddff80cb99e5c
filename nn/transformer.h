// The causal model: embeddings, blocks of attention and MLP, a head over the vocabulary.
#pragma once

#include <optional>

#include "nn/attention.h"
#include "nn/cache.h"

namespace heed::nn {

/// Where a block normalises: before each sublayer (GPT-2), after the residual sum (Vaswani et al.
/// 2017), or nowhere.
enum class NormPlacement { kPre, kPost, kNone };

/// Attention and, unless attention-only, an MLP, each added to the stream [B, T, d_model].
struct Block : Module {
  struct Options {
    MultiHeadAttention::Options attention;
    bool mlp = true;
    NormPlacement norm = NormPlacement::kPre;
    bool norm_bias = true;
    double dropout = 0;  ///< on what each sublayer adds
  } options;
  std::optional<LayerNorm> ln1, ln2;
  MultiHeadAttention attn;
  std::optional<MLP> mlp;

  explicit Block(const Options& o, Generator& g = default_generator());
  Tensor operator()(const Tensor& x, const KeepMask& keep, const Pass& pass) const;
  /// Names are those of peers' GPTs: ln1, ln2, qkv, proj, up, down.
  template <class F>
  void visit(F&& f) {
    if (ln1) f("ln1", *ln1);
    if (ln2) f("ln2", *ln2);
    f("qkv.weight", attn.in_proj_weight);
    f("qkv.bias", attn.in_proj_bias);
    f("q.weight", attn.q_proj_weight);
    f("k.weight", attn.k_proj_weight);
    f("v.weight", attn.v_proj_weight);
    f("proj", attn.out_proj);
    if (mlp) {
      f("up", mlp->up);
      f("down", mlp->down);
    }
  }
};

struct Transformer : Module {
  struct Options {
    std::int64_t vocab;        ///< input tokens
    std::int64_t classes = 0;  ///< output columns; 0: vocab
    std::int64_t d_model = 64, heads = 4, layers = 2;
    std::int64_t context = 64;  ///< longest T; learned positions have this many rows
    bool mlp = true;
    bool bias = true;  ///< in linears (never in the head)
    bool norm_bias = true;
    bool tied = false;  ///< the head is tok.weight and owns no parameter
    Positions positions = Positions::kLearned;
    NormPlacement norm = NormPlacement::kPre;
    AttentionForm form = AttentionForm::kPackedQKV;
    double dropout = 0;
    DType dtype = float32;
  } options;
  Embedding tok;
  std::optional<Embedding> pos;
  std::vector<Block> blocks;
  std::optional<LayerNorm> ln;
  std::optional<Linear> head;  ///< no bias

  /// ValueError naming the option that does not fit.
  explicit Transformer(const Options& o, Generator& g = default_generator());
  /// int64 ids [B, T], T <= context -> logits [B, T, classes]. `keep` masks padding; the causal
  /// mask is always there. With pass.cache ids are the n tokens after the cached ones, with which
  /// they count against the context -> logits [B, n, classes], those of the full pass.
  Tensor forward(const Tensor& ids, const Pass& pass = {}, const KeepMask& keep = {}) const;
  /// The same from embeddings [B, T, d_model] on: for gradients with respect to inputs.
  Tensor forward_embedded(const Tensor& embedded, const Pass& pass = {},
                          const KeepMask& keep = {}) const;
  /// An empty cache for `context` tokens of each of `batch` sequences.
  KVCache cache(std::int64_t batch = 1) const;
  template <class F>
  void visit(F&& f) {
    f("tok", tok);
    if (pos) f("pos", *pos);
    for (std::size_t i = 0; i < blocks.size(); ++i) f("blocks." + std::to_string(i), blocks[i]);
    if (ln) f("ln", *ln);
    if (head) f("head", *head);
  }
};

}  // namespace heed::nn
