// Transformer: a causal language model of embeddings, blocks of attention and MLP, and an output
// layer over the vocabulary.
#pragma once

#include <optional>

#include "nn/layers/attention.h"
#include "nn/layers/kv_cache.h"

namespace heed::nn {

/// Placement of the norms of a block.
enum class NormPlacement {
  kPre,   ///< before each sublayer (GPT-2)
  kPost,  ///< after each residual sum (Vaswani et al. 2017)
  kNone   ///< no norms
};
template <>
inline constexpr auto kEnumNames<NormPlacement> = std::to_array({"pre", "post", "none"});

/// Encoding of positions.
enum class Positions {
  kLearned,     ///< a learned table is added to the embeddings (GPT-2)
  kSinusoidal,  ///< sines and cosines are added to the embeddings (Vaswani et al. 2017)
  kRope,        ///< q and k are rotated (Su et al. 2021)
  kAlibi,       ///< a bias lowers scores in proportion to the distance (Press et al. 2022)
  kNone,        ///< no encoding; only the causal mask depends on positions
};
template <>
inline constexpr auto kEnumNames<Positions> = std::to_array({"learned", "sinusoidal", "rope",
                                                             "alibi", "none"});

/// Returns a table of shape [count, dim] and dtype float32 or float64 (Vaswani et al. 2017, section
/// 3.5). In row p, columns 2i and 2i + 1 contain sin and cos of p / 10000^(2i / dim).
Tensor sinusoidal_positions(Index count, Index dim, DType dtype = float32);

/// Options of a Transformer and of its blocks.
struct TransformerOptions {
  Index vocab = 0;     ///< number of different input tokens; must be set
  Index classes = 0;   ///< number of output classes; 0 means vocab
  Index layers = 2;    ///< number of blocks
  Index context = 64;  ///< context length, which is the largest number of tokens T
  /// Options of the attention in every block. Some of them apply to the whole model: d_model and
  /// dtype are those of all layers, and bias is also used for the MLPs. Dropout is also applied to
  /// the embeddings and to the output of each sublayer. checked() sets `causal` to true, and `rope`
  /// according to `positions`.
  MultiHeadAttention::Options attention = {.d_model = 64, .heads = 4};
  bool mlp = true;                            ///< false: the blocks have no MLP
  double mlp_ratio = 4;                       ///< width of the MLP divided by d_model
  Activation activation = Activation::kGelu;  ///< activation function of the MLPs
  bool norm_bias = true;                      ///< true: LayerNorms have biases
  bool tied = false;                          ///< true: the output layer's weight is tok.weight
  Positions positions = Positions::kLearned;  ///< encoding of positions
  NormPlacement norm = NormPlacement::kPre;   ///< placement of the norms
  NormKind norm_kind = NormKind::kLayerNorm;  ///< kind of all norms

  /// Returns these options with all defaults filled in, also those of `attention`. Throws
  /// DTypeError unless the dtype is float32 or float64. Throws ValueError if another option is out
  /// of range, or if options contradict each other. The error text names these options. Allocates
  /// no tensors.
  TransformerOptions checked() const;
  /// Returns true if all options are equal.
  bool operator==(const TransformerOptions&) const = default;
};

/// Block of a Transformer: attention and an optional MLP. The output of each is added to the
/// residual stream.
struct Block : Module {
  using Options = TransformerOptions;  ///< options of the whole model
  NormPlacement norm;                  ///< placement of the norms
  std::optional<Norm> ln1;             ///< norm of attention; empty with NormPlacement::kNone
  std::optional<Norm> ln2;             ///< norm of the MLP; empty with kNone or without an MLP
  MultiHeadAttention attn;             ///< first sublayer
  std::optional<MLP> mlp;              ///< second sublayer; empty if Options::mlp is false

  /// Draws the parameters of attention and then those of the MLP from g. Throws ValueError or
  /// DTypeError for invalid options.
  explicit Block(const Options& o, Generator& g = default_generator());
  /// Returns the residual stream after the block, shape [B, T, d_model], for x of the same shape.
  /// With ctx.logits_at [P], the MLP runs only at these positions, and the shape is [B, P,
  /// d_model].
  ///
  /// A block has the following sites besides those of attn. hook_attn_out and hook_mlp_out are the
  /// terms that are added to the stream, after dropout. hook_resid_pre is the
  /// stream before the block, and hook_resid_post the stream after it. If the block has an MLP,
  /// hook_resid_mid is the stream between the sublayers. Thus hook_resid_mid = hook_resid_pre +
  /// hook_attn_out. The exception is NormPlacement::kPost, where hook_resid_mid and hook_resid_post
  /// are the outputs of the norms. Throws the errors of MultiHeadAttention::forward().
  Tensor operator()(const Tensor& x, const ForwardContext& ctx = {}) const;
  /// Calls f(name, x) for all parameters and child modules. The names are those of the GPTs in
  /// tools/peers: ln1, ln2, qkv, proj, up, down and gate.
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

/// Causal language model, such as a GPT. Its sites for a Probe are hook_embed and those of the
/// blocks.
struct Transformer : Module {
  using Options = TransformerOptions;  ///< options of the model
  Options options;                     ///< options as returned by checked()
  Embedding tok;                       ///< token embeddings [vocab, d_model]
  std::optional<Embedding> pos;        ///< learned positions [context, d_model]; only with kLearned
  Tensor sinusoid;  ///< positions [context, d_model], not a parameter; only with kSinusoidal
  std::vector<Block> blocks;   ///< blocks, one per layer
  std::optional<Norm> ln;      ///< norm before the output layer; only with NormPlacement::kPre
  std::optional<Linear> head;  ///< output layer without bias; empty if options.tied is true

  /// Draws all parameters from g. Throws the errors of Options::checked().
  explicit Transformer(const Options& o, Generator& g = default_generator());
  /// Returns the logits, shape [B, T, classes], for int64 ids of shape [B, T] with T <= context.
  /// With ctx.logits_at [P], the shape is [B, P, classes]. The causal mask is always applied;
  /// ctx.keep can mask padding as well.
  ///
  /// With ctx.cache, `ids` are the n tokens after the cached ones. Cached and new tokens together
  /// must fit into the context. The result has shape [B, n, classes] and equals the last n rows of
  /// a forward pass over all tokens.
  ///
  /// Throws ShapeError if `ids` has another rank or more than `context` tokens. Throws DTypeError
  /// unless `ids` are int64. Throws ValueError if an id is outside the vocabulary, if the cache
  /// does not fit the model or is full, and if ctx.probe records or replaces a site that no forward
  /// pass has reached.
  Tensor forward(const Tensor& ids, const ForwardContext& ctx = {}) const;
  /// Returns forward(ids, ctx).
  Tensor operator()(const Tensor& ids, const ForwardContext& ctx = {}) const {
    return forward(ids, ctx);
  }
  /// Returns the logits for token embeddings of shape [B, T, d_model], which replace those of
  /// `tok`. This is useful for gradients with respect to the inputs. It does not reach the site
  /// hook_embed. In all other respects it works like forward().
  Tensor forward_embedded(const Tensor& embedded, const ForwardContext& ctx = {}) const;
  /// Returns the logits if x [B, T, d_model] is the residual stream before block `layer`. A run
  /// with a change in this block or a later one can start here from the stream of an unchanged run.
  /// It reaches only the sites of these blocks. In all other respects it works like forward().
  /// Throws ValueError for a negative layer or one above the number of layers.
  Tensor forward_from(Index layer, const Tensor& x, const ForwardContext& ctx = {}) const;
  /// Returns an empty cache for `batch` sequences of at most `context` tokens. Throws
  /// ShapeError for a negative size.
  KVCache cache(Index batch = 1) const;
  /// Calls f(name, child) for all child modules, in the order tok, pos, blocks, ln, head.
  template <class F>
  void visit(F&& f) {
    f("tok", tok);
    if (pos) f("pos", *pos);
    for (std::size_t i = 0; i < blocks.size(); ++i) f(block_name(Index(i)), blocks[i]);
    if (ln) f("ln", *ln);
    if (head) f("head", *head);
  }
};

/// Lets the model accept sequences of up to `context` tokens; does nothing if it already does. A
/// table of sinusoidal positions gets more rows. Throws ValueError, and leaves the model unchanged,
/// if its positions are learned, because it has no weights for further positions, or if `context`
/// is out of range.
void extend_context(Transformer& model, Index context);

}  // namespace heed::nn
