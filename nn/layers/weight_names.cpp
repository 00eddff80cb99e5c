#include "nn/layers/weight_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "autograd/ops/ops.h"

namespace heed::nn {

using namespace autograd;

namespace {

using enum WeightNames;

// Names of one parameter. Names in a block lack their prefix, such as "blocks.0.". An empty name
// means that the model has no such parameter.
struct ParameterNames {
  std::string_view heed, torch, gpt, transformerlens;  // gpt: nanoGPT and GPT-2
  bool transposed = false;  // GPT-2 and TransformerLens store the matrix as [in, out]
};

constexpr ParameterNames kParameterNames[] = {
    {"tok.weight", "tok.weight", "transformer.wte.weight", "embed.W_E"},
    {"pos.weight", "pos.weight", "transformer.wpe.weight", "pos_embed.W_pos"},
    {"ln1.weight", "ln1.weight", "ln_1.weight", "ln1.w"},
    {"ln1.bias", "ln1.bias", "ln_1.bias", "ln1.b"},
    {"ln2.weight", "ln2.weight", "ln_2.weight", "ln2.w"},
    {"ln2.bias", "ln2.bias", "ln_2.bias", "ln2.b"},
    {"qkv.weight", "attn.in_proj_weight", "attn.c_attn.weight", "", true},
    {"qkv.bias", "attn.in_proj_bias", "attn.c_attn.bias", ""},
    {"proj.weight", "attn.out_proj.weight", "attn.c_proj.weight", "", true},
    {"proj.bias", "attn.out_proj.bias", "attn.c_proj.bias", ""},
    {"attn.W_Q", "", "", "attn.W_Q"},
    {"attn.W_K", "", "", "attn.W_K"},
    {"attn.W_V", "", "", "attn.W_V"},
    {"attn.W_O", "", "", "attn.W_O"},
    {"attn.b_Q", "", "", "attn.b_Q"},
    {"attn.b_K", "", "", "attn.b_K"},
    {"attn.b_V", "", "", "attn.b_V"},
    {"attn.b_O", "", "", "attn.b_O"},
    {"attn.q_norm.weight", "", "", "attn.q_norm.w"},
    {"attn.k_norm.weight", "", "", "attn.k_norm.w"},
    {"attn.sink", "", "", "attn.sinks"},
    {"up.weight", "up.weight", "mlp.c_fc.weight", "mlp.W_in", true},
    {"up.bias", "up.bias", "mlp.c_fc.bias", "mlp.b_in"},
    {"down.weight", "down.weight", "mlp.c_proj.weight", "mlp.W_out", true},
    {"down.bias", "down.bias", "mlp.c_proj.bias", "mlp.b_out"},
    {"gate.weight", "gate.weight", "", "mlp.W_gate", true},
    {"gate.bias", "gate.bias", "", ""},
    {"ln.weight", "ln.weight", "transformer.ln_f.weight", "ln_final.w"},
    {"ln.bias", "ln.bias", "transformer.ln_f.bias", "ln_final.b"},
    {"head.weight", "head.weight", "lm_head.weight", "unembed.W_U", true}};

bool is_gpt(WeightNames names) { return names == kNanoGPT || names == kGPT2; }

std::string_view name_in(const ParameterNames& row, WeightNames names) {
  if (is_gpt(names)) return row.gpt;
  return names == kTorch ? row.torch : row.transformerlens;
}

template <class E>
std::string text_of(const std::variant<E, double>& value) {
  const E* rule = std::get_if<E>(&value);
  return rule ? enum_name(*rule) : fmt::format("{}", std::get<double>(value));
}

// Throws ValueError if a model with these options has no equivalent among the models of `names`.
void check_expressible(const Transformer::Options& o, WeightNames names) {
  const MultiHeadAttention::Options& a = o.attention;
  const bool gpt = is_gpt(names), lens = names == kTransformerLens, torch = names == kTorch;
  const auto need = [&](bool concerned, bool ok, std::string_view key, const auto& value,
                        std::string_view instead) {
    if (concerned && !ok)
      throw ValueError(fmt::format(
          "export: `{}` of the model is {}, but {} has {}; choose other names, or train a model "
          "that has this, too",
          key, value, enum_name(names), instead));
  };
  const auto yes = [](bool b) { return b ? "yes" : "no"; };
  const std::string positions = enum_name(o.positions), norm = enum_name(o.norm);
  need(gpt, o.positions == Positions::kLearned, "positions", positions, "learned positions");
  need(torch, o.positions != Positions::kRope, "positions", positions, "no rotary positions");
  need(lens, o.positions != Positions::kSinusoidal, "positions", positions,
       "learned, rotary, ALiBi or no positions");
  // The slopes of TransformerLens differ from those of Press et al. for other numbers of heads.
  need(lens && o.positions == Positions::kAlibi, std::has_single_bit(std::uint64_t(a.heads)),
       "heads", a.heads, "the slopes of ALiBi only for a power of two");
  need(gpt, o.norm == NormPlacement::kPre, "norm", norm, "norms before each sublayer (pre)");
  need(lens, o.norm != NormPlacement::kPost, "norm", norm, "norms before each sublayer, or none");
  need(gpt, o.norm_kind == NormKind::kLayerNorm, "norm_kind", enum_name(o.norm_kind), "layernorm");
  need(gpt, o.mlp, "mlp", "no", "an MLP in each block");
  const Activation activation = names == kGPT2 ? Activation::kGeluTanh : Activation::kGelu;
  need(gpt, o.activation == activation, "mlp_act", enum_name(o.activation), enum_name(activation));
  need(names == kNanoGPT, o.mlp_ratio == 4, "mlp_ratio", o.mlp_ratio, "4");
  need(gpt, o.tied, "tied", "no", "an output layer with the weights of the token embedding");
  need(names == kGPT2, a.bias, "bias", "no", "biases in all linear layers and norms");
  need(lens, !o.mlp || o.activation != Activation::kSwiglu || !a.bias, "bias", "yes",
       "no biases in an MLP with swiglu");
  const bool bias = torch ? *a.out_bias : a.bias;
  for (const auto& [key, given] : {std::pair("q_bias", *a.q_bias),
                                   {"k_bias", *a.k_bias},
                                   {"v_bias", *a.v_bias},
                                   {"o_bias", *a.out_bias}})
    need(gpt || torch, given == bias, key, yes(given),
         torch  ? "biases of q, k, v and the output together, or none of them"
         : bias ? "biases in all linear layers and norms"
                : "either all biases or none");
  need(gpt, o.norm_bias == bias, "norm_bias", yes(o.norm_bias),
       bias ? "biases in all linear layers and norms" : "either all biases or none");
  need(!lens, !a.qk_norm, "qk_norm", "yes", "no norms of q and k");
  need(!lens, a.soft_cap == 0, "soft_cap", a.soft_cap, "no soft cap");
  need(!lens, a.sink == Sink::kNone, "sink", enum_name(a.sink), "no sinks");
  need(lens, a.sink != Sink::kZero, "sink", "zero", "learned sinks or none");
  need(gpt, a.window == 0, "window", a.window, "no window");
  const std::string scale = text_of(a.scale);
  need(!lens, scale == enum_name(ScaleRule::kInvSqrtHead), "scale", scale, "1/sqrt-d-head");
  need(lens, scale != enum_name(ScaleRule::kLearned), "scale", scale,
       "a scale that is not learned");
  need(!lens, a.kv_heads == a.heads, "kv_heads", a.kv_heads, "keys and values for each head");
  need(!lens, a.d_head * a.heads == a.d_model, "d_head", a.d_head, "d-model / heads");
  need(true, a.d_value == a.d_head, "d_value", a.d_value, "values of the width of keys");
  need(!torch, o.residual_scale == std::variant<ResidualRule, double>(1.0), "residual_scale",
       text_of(o.residual_scale), "the factor 1");
}

// Returns the parameter `name` of heed, such as "blocks.0.qkv.weight", under the name and in the
// layout of another library.
NamedTensor renamed(const NamedTensor& parameter, WeightNames names, bool shares_keys) {
  constexpr std::string_view kBlockPrefix = "blocks.";
  const std::string& name = parameter.name;
  const std::size_t at =
      name.starts_with(kBlockPrefix) ? name.find('.', kBlockPrefix.size()) + 1 : 0;
  const auto* row = std::ranges::find(kParameterNames, name.substr(at), &ParameterNames::heed);
  check<ValueError>(row != std::end(kParameterNames) && !name_in(*row, names).empty(), "export",
                    enum_name(names), " has no name for the parameter ", name);
  std::string own(name_in(*row, names));
  // HookedTransformer stores keys and values that several heads share under names of their own.
  if (shares_keys && (own.ends_with("_K") || own.ends_with("_V")))
    own.insert(own.find('.') + 1, "_");
  // All Conv1D layers of GPT-2 are in blocks.
  const bool is_transposed =
      row->transposed && (names == kTransformerLens || (names == kGPT2 && at > 0));
  const Tensor x = parameter.tensor.detach();
  return {(at == 0 ? "" : (is_gpt(names) ? "transformer.h." : std::string(kBlockPrefix))) +
              (at == 0 ? "" : name.substr(kBlockPrefix.size(), at - kBlockPrefix.size())) + own,
          is_transposed ? mT(x) : x};
}

}  // namespace

std::vector<NamedTensor> weights_with_names(Transformer model, WeightNames names) {
  const Transformer::Options options = model.options;
  check_expressible(options, names);
  const bool lens = names == kTransformerLens,
             shares_keys = lens && options.attention.kv_heads < options.attention.heads;
  model = convert(std::move(model), lens ? AttentionForm::kPerHead : AttentionForm::kPackedQKV);
  std::vector<NamedTensor> weights;
  for (const NamedTensor& parameter : parameters(model))
    weights.push_back(renamed(parameter, names, shares_keys));
  if (options.tied)
    weights.push_back(renamed({"head.weight", model.tok.weight}, names, shares_keys));
  return weights;
}

}  // namespace heed::nn
