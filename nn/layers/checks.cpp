// Registers every layer for the gradient checks. They check first and second derivatives with
// respect to the input and every parameter.
#include <utility>

#include "autograd/graph/check_registry.h"
#include "nn/layers/transformer.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Returns the dtype of constants that are used in the same op as x.
DType dtype_beside(const Tensor& x) { return x.dtype() == float32 ? float32 : float64; }

// Returns a sample that checks f(module, x). The check differentiates f with respect to the inputs
// of the check: x and all parameters of the module. Each evaluation makes a new module from these
// inputs.
template <class M, class F>
Sample module_sample(const std::string& name, const typename M::Options& options, const Tensor& x,
                     F f) {
  Generator g(11);
  M module(options, g);
  std::vector<Tensor> inputs{x};
  for (const NamedTensor& p : parameters(module)) inputs.push_back(p.tensor.detach());
  return {name,
          [options, f](Args t) {
            M m = with_parameters<M>(options, dtype_beside(t[0]), {t.begin() + 1, t.end()});
            return f(m, t[0]);
          },
          inputs};
}

// Check of a layer whose input needs an axis.
struct LayerCheck : Check {
  LayerCheck(std::string_view name, SampleFn samples)
      : Check(name, std::move(samples), needs_axis()) {}
};

constexpr auto kCall = [](auto& m, const Tensor& x) { return m(x); };

const LayerCheck kLinearLayer("nn.Linear", [](SampleGen& g) -> Samples {
  return {module_sample<Linear>("bias", {.in = 3, .out = 2, .dtype = float64}, g.normal({2, 3}),
                                kCall)};
});
const Check kEmbeddingLayer("nn.Embedding", [](SampleGen& g) -> Samples {
  const Tensor ids = from_data(std::vector<Index>{2, 0, 2, 1}, {2, 2});
  const Tensor drawn = g.integers(0, 4, {5});
  const Embedding::Options o{.count = 4, .dim = 3, .dtype = float64};
  return {module_sample<Embedding>("repeated ids", o, g.normal({2, 2, 3}),
                                   [ids](auto& m, const Tensor& x) { return m(ids) * x; }),
          module_sample<Embedding>("drawn ids", o, g.normal({5, 1}),
                                   [drawn](auto& m, const Tensor& x) { return m(drawn) * x; })};
});
const LayerCheck kLayerNormLayer("nn.LayerNorm", [](SampleGen& g) -> Samples {
  LayerNorm::Options o{.normalized_shape = 4, .dtype = float64};
  Samples samples{module_sample<LayerNorm>("bias", o, g.apart({3, 4}), kCall)};
  o.elementwise_affine = false;
  samples.push_back(module_sample<LayerNorm>("not affine", o, g.apart({3, 4}), kCall));
  o = {.normalized_shape = {2, 3}, .dtype = float64};
  samples.push_back(module_sample<LayerNorm>("over two axes", o, g.apart({2, 2, 3}), kCall));
  return samples;
});
const LayerCheck kRmsNormLayer("nn.RMSNorm", [](SampleGen& g) -> Samples {
  return {module_sample<RMSNorm>("weight", {.dim = 4, .dtype = float64}, g.uniform({3, 4}, 0.5, 2),
                                 kCall)};
});
const LayerCheck kNormLayer("nn.Norm", [](SampleGen& g) -> Samples {
  Norm::Options o{.dim = 4, .bias = false, .dtype = float64};
  Samples samples{module_sample<Norm>("LayerNorm", o, g.apart({3, 4}), kCall)};
  o.kind = NormKind::kRMSNorm;
  samples.push_back(module_sample<Norm>("RMSNorm", o, g.uniform({3, 4}, 0.5, 2), kCall));
  return samples;
});
const LayerCheck kMlp("nn.MLP", [](SampleGen& g) -> Samples {
  Samples samples;
  for (const std::string& name : enum_names<Activation>())
    samples.push_back(module_sample<MLP>(
        name,
        {.dim = 3, .hidden = 5, .activation = *enum_value<Activation>(name), .dtype = float64},
        g.normal({2, 3}), kCall));
  return samples;
});

constexpr MultiHeadAttention::Options kAttention = {
    .d_model = 4, .heads = 2, .causal = true, .dtype = float64};
const LayerCheck kAttentionLayer("nn.MultiHeadAttention", [](SampleGen& g) -> Samples {
  auto o = kAttention;
  Samples samples{module_sample<MultiHeadAttention>("causal", o, g.normal({2, 3, 4}), kCall)};
  o.rope = true;
  o.bias = false;
  samples.push_back(module_sample<MultiHeadAttention>("RoPE", o, g.normal({1, 3, 4}), kCall));
  o = kAttention;
  o.causal = false;
  o.d_head = 3, o.d_value = 2;
  const Index lengths[] = {2, 0};  // all tokens of the second sequence are padding
  const KeepMask padding = KeepMask::padding(lengths, 4);
  samples.push_back(module_sample<MultiHeadAttention>(
      "cross, padding", o, g.normal({2, 3, 4}),
      [padding, memory = g.normal({2, 4, 4})](auto& m, const Tensor& x) {
        const Tensor keys = to(memory, dtype_beside(x));
        return m.forward(x, keys, keys, {.keep = padding});
      }));
  samples.push_back(module_sample<MultiHeadAttention>(
      "query, key, value", o, g.normal({2, 3 + 4 + 4, 4}), [](auto& m, const Tensor& x) {
        return m.forward(slice(x, 1, 0, 3), slice(x, 1, 3, 7), slice(x, 1, 7, 11));
      }));
  o = kAttention;
  o.kv_heads = 1, o.scale = 0.7;
  samples.push_back(module_sample<MultiHeadAttention>(
      "shared keys and values, ALiBi", o, g.normal({2, 3, 4}), [](auto& m, const Tensor& x) {
        return m(x, {.bias = ScoreBias::alibi(2, 3, 3, dtype_beside(x))});
      }));
  return samples;
});
const LayerCheck kAttentionOptions("nn.MultiHeadAttention.options", [](SampleGen& g) -> Samples {
  Samples samples;
  const auto add = [&](const std::string& name, const MultiHeadAttention::Options& o, auto f) {
    samples.push_back(module_sample<MultiHeadAttention>(name, o, g.normal({2, 4, 4}), f));
  };
  auto o = kAttention;
  o.qk_norm = true, o.rope = true;
  add("QK-norm, RoPE", o, kCall);
  o = kAttention;
  o.window = 2;
  add("window", o, kCall);
  o.soft_cap = 0.7, o.causal = false;
  add("window on both sides, soft cap", o, kCall);
  o = kAttention;
  o.soft_cap = 1.3, o.window = 2, o.qk_norm = true;
  add("soft cap, window, QK-norm", o, kCall);
  return samples;
});
const LayerCheck kBlock("nn.Block", [](SampleGen& g) -> Samples {
  Samples samples;
  for (const std::string& name : enum_names<NormPlacement>())
    samples.push_back(module_sample<Block>(
        "norm " + name, {.attention = kAttention, .norm = *enum_value<NormPlacement>(name)},
        g.apart({1, 3, 4}), kCall));
  Block::Options o{.attention = kAttention};
  o.mlp_ratio = 1.25, o.activation = Activation::kSwiglu;
  for (const NormPlacement norm : {NormPlacement::kPre, NormPlacement::kPost}) {
    o.norm = norm, o.norm_kind = NormKind::kRMSNorm;
    samples.push_back(module_sample<Block>("norm " + enum_name(norm) + ", RMSNorm, SwiGLU", o,
                                           g.apart({1, 3, 4}), kCall));
  }
  return samples;
});
const Check kTransformer(
    "nn.Transformer",
    [](SampleGen& g) -> Samples {
      const auto run = [](auto& m, const Tensor& x) { return m.forward_embedded(x); };
      const auto loss = [](auto& m, const Tensor& x) {
        const Tensor ids = from_data(std::vector<Index>{0, 2, 1}, {1, 3});
        const Tensor targets = from_data(std::vector<Index>{2, 1, -100}, {1, 3});
        return cross_entropy(m.forward(ids) + 0.0 * sum(x), targets);
      };
      Transformer::Options o{.vocab = 3,
                             .layers = 1,
                             .context = 3,
                             .attention = {.d_model = 4, .heads = 2, .dtype = float64}};
      Samples samples{module_sample<Transformer>("GPT", o, g.apart({1, 3, 4}), run)};
      o.tied = true;
      samples.push_back(module_sample<Transformer>("tied head, loss", o, g.normal({1}), loss));
      o.mlp = false;
      for (const Positions kind :
           {Positions::kRope, Positions::kSinusoidal, Positions::kAlibi, Positions::kNone}) {
        o.positions = kind;
        samples.push_back(module_sample<Transformer>("attention only, positions " + enum_name(kind),
                                                     o, g.apart({1, 3, 4}), run));
      }
      return samples;
    },
    {{SampleSize::kLarge, "a model of 3 tokens; its layers are checked at this size"}});

}  // namespace
}  // namespace heed::nn
