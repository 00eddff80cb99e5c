#include "nn/layers/weight_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <type_traits>
#include <variant>

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
  return names == kTorch ? row.torch : names == kHeed ? row.heed : row.transformerlens;
}

// Returns the value of an option as text.
template <class T>
std::string shown(const T& value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? "yes" : "no";
  else if constexpr (std::is_enum_v<T>)
    return enum_name(value);
  else
    return fmt::format("{}", value);
}
std::string shown(const std::optional<bool>& value) { return shown(*value); }
template <class E>
std::string shown(const std::variant<E, double>& value) {
  return std::visit([](const auto& v) { return shown(v); }, value);
}

using O = Transformer::Options;
using A = MultiHeadAttention::Options;

// Compares the options of a model with those that the models of `names` can have. accept() and
// need() set the options that they name to their default values in `rest`. If `rest` differs from
// `standard` in the end, the model has another option that is not at its default value.
struct Expressed {
  const O& options;
  WeightNames names;
  O rest = options;
  const O standard = {};

  template <class T, class Owner>
  static auto& member(auto& all, T Owner::*option) {
    if constexpr (std::is_same_v<Owner, O>)
      return all.*option;
    else
      return all.attention.*option;
  }
  void accept(auto... named) { ((member(rest, named) = member(standard, named)), ...); }
  // Throws ValueError if `concerned` is true and `ok` is not.
  void need(bool concerned, bool ok, auto option, std::string_view key, std::string_view instead) {
    if (concerned && !ok)
      throw ValueError(fmt::format(
          "`{}` of the model is {}, but {} has {}; choose other names, or a model that has this, "
          "too",
          key, shown(member(options, option)), enum_name(names), instead));
    accept(option);
  }
};

// Throws ValueError if a model with these options has no equivalent among the models of `names`.
// Options that this function does not name must have their default values.
void check_expressible(const O& o, WeightNames names) {
  if (names == kHeed) return;
  Expressed e{o, names};
  const A& a = o.attention;
  const bool gpt = is_gpt(names), lens = names == kTransformerLens, torch = names == kTorch;
  e.accept(&O::vocab, &O::classes, &O::layers, &O::context, &A::d_model, &A::causal, &A::rope,
           &A::dropout, &A::dtype);
  e.need(gpt, o.positions == Positions::kLearned, &O::positions, "positions", "learned positions");
  e.need(torch, o.positions != Positions::kRope, &O::positions, "positions", "no rotary positions");
  e.need(lens, o.positions != Positions::kSinusoidal, &O::positions, "positions",
         "learned, rotary, ALiBi or no positions");
  // If the number of heads is not a power of two, the slopes of TransformerLens differ from those
  // of Press et al.
  e.need(lens && o.positions == Positions::kAlibi, std::has_single_bit(std::uint64_t(a.heads)),
         &A::heads, "heads", "the slopes of ALiBi only for a power of two");
  e.need(gpt, o.norm == NormPlacement::kPre, &O::norm, "norm", "norms before each sublayer (pre)");
  e.need(lens, o.norm != NormPlacement::kPost, &O::norm, "norm",
         "norms before each sublayer, or none");
  e.need(gpt, o.norm_kind == NormKind::kLayerNorm, &O::norm_kind, "norm_kind", "layernorm");
  e.need(gpt, o.mlp, &O::mlp, "mlp", "an MLP in each block");
  const Activation activation = names == kGPT2 ? Activation::kGeluTanh : Activation::kGelu;
  e.need(gpt, o.activation == activation, &O::activation, "mlp_act", enum_name(activation));
  e.need(names == kNanoGPT, o.mlp_ratio == 4, &O::mlp_ratio, "mlp_ratio", "4");
  e.need(gpt, o.tied, &O::tied, "tied", "an output layer with the weights of the token embedding");
  e.need(names == kGPT2, a.bias, &A::bias, "bias", "biases in all linear layers and norms");
  e.need(lens, !o.mlp || o.activation != Activation::kSwiglu || !a.bias, &A::bias, "bias",
         "no biases in an MLP with swiglu");
  const char* const other =
      a.bias ? "biases in all linear layers and norms" : "either all biases or none";
  e.need(gpt || torch, a.out_bias == a.bias, &A::out_bias, "o_bias",
         torch ? "biases of q, k, v and the output together, or none of them" : other);
  e.need(gpt, o.norm_bias == a.bias, &O::norm_bias, "norm_bias", other);
  e.need(!lens, !a.qk_norm, &A::qk_norm, "qk_norm", "no norms of q and k");
  e.need(!lens, a.soft_cap == 0, &A::soft_cap, "soft_cap", "no soft cap");
  e.need(gpt, a.window == 0, &A::window, "window", "no window");
  e.need(!lens, a.scale == e.standard.attention.scale, &A::scale, "scale", "1/sqrt-d-head");
  e.need(!lens, a.kv_heads == a.heads, &A::kv_heads, "kv_heads", "keys and values for each head");
  e.need(!lens, a.d_head * a.heads == a.d_model, &A::d_head, "d_head", "d-model / heads");
  e.need(true, a.d_value == a.d_head, &A::d_value, "d_value", "values of the width of keys");
  check<ValueError>(e.rest == e.standard, "weights", "the model has an option that the names ",
                    enum_name(names),
                    " cannot express; give the options of the library their default values");
}

constexpr std::string_view kBlockPrefix = "blocks.";

// Returns the length of the prefix of a name in a block, such as "blocks.0."; otherwise 0.
std::size_t prefix_of(std::string_view name) {
  return name.starts_with(kBlockPrefix) ? name.find('.', kBlockPrefix.size()) + 1 : 0;
}

// Returns the row of a parameter of heed, such as "blocks.0.qkv.weight", or nullptr if the other
// library has no name for it.
const ParameterNames* row_of(std::string_view name, WeightNames names) {
  const auto* row =
      std::ranges::find(kParameterNames, name.substr(prefix_of(name)), &ParameterNames::heed);
  return row != std::end(kParameterNames) && !name_in(*row, names).empty() ? row : nullptr;
}

std::string name_with(const ParameterNames& row, std::string_view name, WeightNames names,
                      bool shares_keys) {
  std::string own(name_in(row, names));
  // If several heads share keys and values, HookedTransformer names these weights _W_K, _b_K, _W_V
  // and _b_V.
  if (shares_keys && (own.ends_with("_K") || own.ends_with("_V")))
    own.insert(own.find('.') + 1, "_");
  const std::size_t at = prefix_of(name);
  if (at == 0) return own;
  return std::string(is_gpt(names) ? "transformer.h." : kBlockPrefix) +
         std::string(name.substr(kBlockPrefix.size(), at - kBlockPrefix.size())) + own;
}

// Returns a view of a parameter under the name and in the layout of another library.
NamedTensor renamed(const NamedTensor& parameter, WeightNames names, bool shares_keys) {
  const std::string& name = parameter.name;
  const Tensor x = parameter.tensor.detach();
  if (names == kHeed) return {name, x};
  const ParameterNames* row = row_of(name, names);
  check<ValueError>(row, "weights", enum_name(names), " has no name for the parameter ", name);
  // All Conv1D layers of GPT-2 are in blocks.
  const bool is_transposed =
      row->transposed && (names == kTransformerLens || (names == kGPT2 && prefix_of(name) > 0));
  return {name_with(*row, name, names, shares_keys), is_transposed ? mT(x) : x};
}

// Replaces the projection weights of each block by views of them, one matrix per head.
void split_into_heads(std::vector<NamedTensor>& list, const Transformer& model) {
  std::erase_if(list, [](const NamedTensor& t) {
    return t.name.find(".qkv.") != std::string::npos || t.name.find(".proj.") != std::string::npos;
  });
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    const MultiHeadAttention& attn = model.blocks[i].attn;
    const HeadWeights h = by_head(attn.weights, attn.options);
    for (const auto& [name, x] : {std::pair("W_Q", h.W_Q),
                                  {"W_K", h.W_K},
                                  {"W_V", h.W_V},
                                  {"W_O", h.W_O},
                                  {"b_Q", h.b_Q},
                                  {"b_K", h.b_K},
                                  {"b_V", h.b_V},
                                  {"b_O", h.b_O}})
      if (x.defined()) list.push_back({fmt::format("blocks.{}.attn.{}", i, name), x});
  }
}

// Returns views of all parameters under the names of another library. If the output layer is tied,
// its weight is the last one.
std::vector<NamedTensor> views(const Transformer& model, WeightNames names) {
  const NoGrad guard;
  const O& o = model.options;
  const bool shares_keys = names == kTransformerLens && o.attention.kv_heads < o.attention.heads;
  std::vector<NamedTensor> own = parameters(model), list;
  if (names == kTransformerLens) split_into_heads(own, model);
  for (const NamedTensor& parameter : own) list.push_back(renamed(parameter, names, shares_keys));
  if (o.tied) list.push_back(renamed({"head.weight", model.tok.weight}, names, shares_keys));
  return list;
}

// Returns whether a mask [..., T, T], or a table [T, d_head] of rotary positions, is that of a
// model with these options. An empty one, as HookedTransformer has since version 3, shows nothing.
bool is_own_table(const NamedTensor& t, const O& o) {
  const Tensor x = to(t.tensor, float64);
  if (x.numel() == 0) return true;
  const Index rows = x.rank() < 2 ? 0 : x.size(-2), half = o.attention.d_head / 2;
  const bool is_rotary = t.name.find("rotary_") != std::string::npos;
  if (x.numel() != rows * (is_rotary ? 2 * half : rows)) return false;
  if (is_rotary && o.positions != Positions::kRope) return false;
  Tensor own;
  if (is_rotary) {  // rope() of rows (1, ..., 1, 0, ..., 0) is the cosines and then the sines
    const Tensor one = ones({rows, half}, float64);
    const Tensor part =
        chunk(rope(cat({one, zeros_like(one)}, -1)), 2, -1)[t.name.ends_with("sin")];
    own = cat({part, part}, -1);
  } else {
    own = to(tril_mask(rows, rows), float64);
    if (o.attention.window > 0) own = own - to(tril_mask(rows, rows, -o.attention.window), float64);
  }
  // HookedTransformer computes the angles, which are below `rows`, in float32.
  return allclose(reshape(x, own.shape()), own, 0, 1e-6 * double(rows));
}

// Returns whether a tensor that is not a parameter does not change the logits: a mask or a table of
// attention, a bias of 0, or positions that a HookedTransformer with ALiBi has but does not use.
// Throws IoError for a mask or a table that a model with these options does not have.
bool is_unused(const NamedTensor& t, const O& o, const std::string& path) {
  const std::string last = t.name.substr(t.name.rfind('.') + 1);
  if (last == "IGNORE" || t.name.ends_with("attn.masked_bias")) return true;
  if (last == "mask" || last.starts_with("rotary_") ||
      (t.name.ends_with("attn.bias") && t.tensor.rank() == 4)) {
    check<IoError>(is_own_table(t, o), path, t.name,
                   " differs from that of heed with these options: a causal mask with the window, "
                   "or rotary tables of base 10000 over d_head; use another model");
    return true;
  }
  if (t.name == "pos_embed.W_pos") return o.positions == Positions::kAlibi;
  const bool is_bias = last == "bias" || last.starts_with("b_") || last.starts_with("_b_");
  return is_bias && std::ranges::all_of(to(t.tensor, float64).to_vector<double>(),
                                        [](double x) { return x == 0; });
}

}  // namespace

std::vector<NamedTensor> weights_with_names(const Transformer& model, WeightNames names) {
  check_expressible(model.options, names);
  const bool lacks_head = names == kHeed && model.options.tied;  // as parameters()
  std::vector<NamedTensor> weights = views(model, names);
  if (lacks_head) weights.pop_back();
  return weights;
}

WeightNames names_in(const SafeTensors& file) {
  constexpr std::string_view kPackedWeight = "blocks.0.qkv.weight";
  for (const WeightNames names : {kTransformerLens, kGPT2, kHeed}) {
    const Tensor tok = find_named(file, "tok.weight", names);
    if (!tok.defined()) continue;
    check<IoError>(tok.rank() == 2, file.path, name_in(kParameterNames[0], names), " has shape ",
                   tok.shape(), "; needs [symbols, d_model]");
    const Tensor qkv = find_named(file, kPackedWeight, names);
    if (names == kHeed) return find_named(file, kPackedWeight, kTorch).defined() ? kTorch : kHeed;
    const bool is_conv1d = qkv.defined() && qkv.rank() == 2 && qkv.size(0) == tok.size(1);
    return names == kTransformerLens || is_conv1d ? names : kNanoGPT;
  }
  fail<IoError>(
      file.path,
      "contains no token embedding (transformer.wte.weight, embed.W_E or tok.weight); "
      "needs a whole model with the names of torch, nanogpt, gpt2, transformerlens or heed");
}

Tensor find_named(const SafeTensors& file, std::string_view name, WeightNames names) {
  const ParameterNames* row = row_of(name, names);
  return row ? file.find(name_with(*row, name, names, false)) : Tensor();
}

Transformer with_weights(Transformer model, SafeTensors file, WeightNames names) {
  O options = model.options;
  if (is_gpt(names)) {  // a file of such a GPT shows or states these, and heed exports one value
    options.activation = names == kGPT2 ? Activation::kGeluTanh : Activation::kGelu;
    options.mlp_ratio = 4, options.tied = true;
  }
  check_expressible(options, names);
  std::vector<NamedTensor> into = views(model, names);
  const auto is_missing = [&](const NamedTensor& t) { return !file.find(t.name).defined(); };
  if (model.options.tied && is_missing(into.back())) into.pop_back();
  std::erase_if(file.tensors, [&](const NamedTensor& t) {
    return std::ranges::count(into, t.name, &NamedTensor::name) == 0 &&
           is_unused(t, model.options, file.path);
  });
  load_parameters(into, file);
  // A tied output layer and the token embedding are one tensor here, and two in the file.
  for (const NamedTensor& t : into)
    check<IoError>(same_bits(t.tensor, file.find(t.name)), file.path, t.name,
                   " differs from the weights of the output layer, but the model is tied; "
                   "set `tied` to false");
  return model;
}

}  // namespace heed::nn
