// The four forms in which attention stores its projection weights: reading, writing, conversion and
// checks of options. Each form is converted to and from one common form, the struct Projections.
#include <array>
#include <cmath>
#include <sstream>

#include "nn/layers/attention.h"
#include "nn/layers/init.h"

namespace heed::nn {

using namespace autograd;

namespace {

using Options = MultiHeadAttention::Options;
using enum AttentionForm;

using Triple = std::array<Tensor, 3>;  // tensors of q, k and v

// Projection weights independent of the form, as matrices for linear(). Biases may be undefined.
struct Projections {
  Triple weight = {};              // [H d_head, D], [Hkv d_head, D], [Hkv d_value, D]
  Triple bias = {};                // [H d_head], [Hkv d_head], [Hkv d_value]
  Tensor out = {}, out_bias = {};  // [D, H d_value], [D]
};

// Returns the number of rows of the weights of q, k and v.
std::array<std::int64_t, 3> rows(const Options& o) {
  return {o.heads * o.d_head, o.kv_heads * o.d_head, o.kv_heads * o.d_value};
}

// Splits a tensor along an axis on which the rows of q come first, then the rows of k, then the
// rows of v.
Triple unpack_rows(const Tensor& packed, const Options& o, int axis = 0) {
  const auto [q, k, v] = rows(o);
  return {slice(packed, axis, 0, q), slice(packed, axis, q, q + k),
          slice(packed, axis, q + k, q + k + v)};
}

// Splits a weight [H, 2 d_head + d_value, D] or a bias [H, 2 d_head + d_value] of the form
// kPackedHeads into three tensors for q, k and v.
Triple unpack_heads(const Tensor& packed, const Options& o) {
  const auto rows_of_heads = [&](std::int64_t begin, std::int64_t end) {
    const Tensor x = slice(packed, 1, begin, end);
    const std::int64_t n = o.heads * (end - begin);
    return packed.rank() == 3 ? reshape(x, {n, o.d_model}) : reshape(x, {n});
  };
  const std::int64_t d = o.d_head;
  return {rows_of_heads(0, d), rows_of_heads(d, 2 * d), rows_of_heads(2 * d, 2 * d + o.d_value)};
}

// Reshapes per-head weights [H, D, d] to [H d, D].
Tensor head_rows(const Tensor& w) { return reshape(mT(w), {w.size(0) * w.size(2), w.size(1)}); }
// Reshapes weights [H d, D] to per-head weights [H, D, d].
Tensor per_head(const Tensor& rows, std::int64_t heads) {
  return mT(reshape(rows, {heads, rows.size(0) / heads, rows.size(1)}));
}
// Reshapes per-head biases [H, d] to [H d]. Returns an undefined bias unchanged.
Tensor flat(const Tensor& bias) { return bias.defined() ? reshape(bias, {-1}) : bias; }
// Reshapes biases [H d] to per-head biases [H, d]. Returns an undefined bias unchanged.
Tensor per_head_bias(const Tensor& bias, std::int64_t heads) {
  return bias.defined() ? reshape(bias, {heads, -1}) : bias;
}

// Returns the projections of q, k and v. Gradients flow through them to the stored weights.
Projections read_in(const AttentionWeights& w, const Options& o) {
  Projections p;
  const bool packed_bias = w.in_proj_bias.defined();
  switch (o.form) {
    case kPackedQKV:
      p.weight = unpack_rows(w.in_proj_weight, o);
      if (packed_bias) p.bias = unpack_rows(w.in_proj_bias, o);
      break;
    case kSeparate:
      p.weight = {w.q_proj_weight, w.k_proj_weight, w.v_proj_weight};
      p.bias = packed_bias ? unpack_rows(w.in_proj_bias, o)
                           : Triple{w.q_proj_bias, w.k_proj_bias, w.v_proj_bias};
      break;
    case kPackedHeads:
      p.weight = unpack_heads(w.in_proj_weight, o);
      if (packed_bias) p.bias = unpack_heads(reshape(w.in_proj_bias, {o.heads, -1}), o);
      break;
    case kPerHead:
      p.weight = {head_rows(w.W_Q), head_rows(w.W_K), head_rows(w.W_V)};
      p.bias = {flat(w.b_Q), flat(w.b_K), flat(w.b_V)};
      break;
  }
  return p;
}

// Adds the output projection to p. Gradients flow through it to the stored weight.
void read_out(Projections& p, const AttentionWeights& w, const Options& o) {
  const bool heads = o.form == kPerHead;
  p.out = heads ? mT(reshape(w.W_O, {o.heads * o.d_value, o.d_model})) : w.out_proj_weight;
  p.out_bias = heads ? w.b_O : w.out_proj_bias;
}

// Returns the weights in the form o.form. This is the inverse of read_in() and read_out(). The
// tensors are leaves with their own memory, because they are parameters.
AttentionWeights write(const Projections& p, const Options& o) {
  const NoGrad guard;
  AttentionWeights w;
  const auto& [q, k, v] = p.weight;
  const auto& [q_bias, k_bias, v_bias] = p.bias;
  const bool biased = q_bias.defined() && k_bias.defined() && v_bias.defined();
  if (o.form != kPerHead) w.out_proj_weight = p.out, w.out_proj_bias = p.out_bias;
  switch (o.form) {
    case kPackedQKV:
      w.in_proj_weight = cat(p.weight, 0);
      if (biased) w.in_proj_bias = cat(p.bias, 0);
      break;
    case kSeparate:
      w.q_proj_weight = q, w.k_proj_weight = k, w.v_proj_weight = v;
      if (biased)
        w.in_proj_bias = cat(p.bias, 0);
      else
        w.q_proj_bias = q_bias, w.k_proj_bias = k_bias, w.v_proj_bias = v_bias;
      break;
    case kPackedHeads: {
      const auto pack = [&](Triple parts) {
        for (Tensor& x : parts) x = reshape(x, {o.heads, x.size(0) / o.heads, -1});
        return cat(parts, 1);
      };
      w.in_proj_weight = pack(p.weight);
      if (biased) w.in_proj_bias = flat(pack(p.bias));
      break;
    }
    case kPerHead:
      w.W_Q = per_head(q, o.heads), w.b_Q = per_head_bias(q_bias, o.heads);
      w.W_K = per_head(k, o.kv_heads), w.b_K = per_head_bias(k_bias, o.kv_heads);
      w.W_V = per_head(v, o.kv_heads), w.b_V = per_head_bias(v_bias, o.kv_heads);
      w.W_O = reshape(mT(p.out), {o.heads, o.d_value, o.d_model}), w.b_O = p.out_bias;
      break;
  }
  w.visit([](std::string_view, Tensor& x) {
    if (!x.defined()) return;
    const Tensor leaf = empty(x.shape(), x.dtype());
    copy_(leaf, x);
    x = leaf.requires_grad_();
  });
  return w;
}

// Throws ShapeError if the weights do not match a layer with these options. The text names the
// first difference.
void check_fits(AttentionWeights got, const Options& o) {
  const auto shapes_of = [](AttentionWeights& weights) {
    std::vector<std::pair<std::string, std::string>> shapes;
    weights.visit([&](std::string_view name, const Tensor& x) {
      std::ostringstream shape;
      x.defined() ? shape << x.shape() : shape << "none";
      shapes.emplace_back(name, shape.str());
    });
    return shapes;
  };
  Generator scratch;  // the drawn values do not matter, because only shapes are compared
  AttentionWeights wanted = MultiHeadAttention(o, scratch).weights;
  const auto has = shapes_of(got), needs = shapes_of(wanted);
  for (std::size_t i = 0; i < has.size(); ++i)
    check(has[i] == needs[i], "convert", "a layer of these options has ", needs[i].first, " ",
          needs[i].second, ", got ", has[i].second,
          "; give the options that the weights were made with");
}

}  // namespace

MultiHeadAttention::Options MultiHeadAttention::Options::checked() const {
  constexpr std::string_view kName = "MultiHeadAttention";
  Options o = *this;
  check<ValueError>(o.d_model > 0 && o.heads > 0 && o.d_head >= 0 && o.d_value >= 0, kName,
                    "needs `d_model` > 0, `heads` > 0, `d_head` >= 0 and `d_value` >= 0, got ",
                    o.d_model, ", ", o.heads, ", ", o.d_head, ", ", o.d_value);
  check<ValueError>(o.d_head > 0 || o.d_model % o.heads == 0, kName, "`d_model` ", o.d_model,
                    " is not divisible by `heads` ", o.heads,
                    "; choose a multiple, or set `d_head`");
  if (o.d_head == 0) o.d_head = o.d_model / o.heads;
  if (o.d_value == 0) o.d_value = o.d_head;
  if (o.kv_heads == 0) o.kv_heads = o.heads;
  check<ValueError>(o.kv_heads > 0 && o.heads % o.kv_heads == 0, kName,
                    "`kv_heads` needs 0 or a positive divisor of `heads` ", o.heads, ", got ",
                    o.kv_heads);
  check<ValueError>(o.form != kPackedHeads || o.kv_heads == o.heads, kName,
                    "`form` packed_heads stores q, k and v of each head together, got `heads` ",
                    o.heads, " and `kv_heads` ", o.kv_heads, "; choose another form");
  const auto has = [](std::optional<bool> b) { return *b ? "yes" : "no"; };
  for (std::optional<bool>* b : {&o.q_bias, &o.k_bias, &o.v_bias, &o.out_bias})
    *b = b->value_or(o.bias);
  check<ValueError>((o.form != kPackedQKV && o.form != kPackedHeads) ||
                        (o.q_bias == o.k_bias && o.k_bias == o.v_bias),
                    kName, "`form` ", enum_name(o.form),
                    " needs biases for all of q, k and v or for none, got `q_bias` ", has(o.q_bias),
                    ", `k_bias` ", has(o.k_bias), ", `v_bias` ", has(o.v_bias),
                    "; choose the form separate or per_head");
  check<DTypeError>(o.dtype == float32 || o.dtype == float64, kName,
                    "needs `dtype` float32 or float64, got ", o.dtype);
  check<ValueError>(!o.rope || o.d_head % 2 == 0, kName,
                    "RoPE needs an even `d_head` (by default `d_model` / `heads`), got ", o.d_head);
  check<ValueError>(o.dropout >= 0 && o.dropout < 1, kName, "needs `dropout` in [0, 1), got ",
                    o.dropout);
  check<ValueError>(o.window >= 0, kName, "needs `window` >= 0, got ", o.window);
  check<ValueError>(o.soft_cap >= 0 && std::isfinite(o.soft_cap), kName,
                    "needs a finite `soft_cap` >= 0, got ", o.soft_cap);
  check<ValueError>(!autograd::rounds_to_zero(o.soft_cap, o.dtype), kName, "`soft_cap` ",
                    o.soft_cap, " is rounded to 0 in ", o.dtype, "; needs 0 or at least 1e-37");
  const double* factor = std::get_if<double>(&o.scale);
  check<ValueError>(!factor || std::isfinite(*factor), kName, "needs a finite `scale`, got ",
                    factor ? *factor : 0);
  check<ValueError>(o.sink == Sink::kNone || o.fully_masked == autograd::FullyMasked::kZero, kName,
                    "with a sink no row is fully masked; leave fully_masked at kZero");
  return o;
}

MultiHeadAttention::MultiHeadAttention(const Options& o, Generator& g) : options(o.checked()) {
  const auto [q, k, v] = rows(options);
  // The weights are drawn in the order of PyTorch. First comes out_proj, which is a Linear: its
  // bias is drawn and then set to 0. Then come the weights of q, k and v.
  Linear out({.in = options.heads * options.d_value,
              .out = o.d_model,
              .bias = *options.out_bias,
              .dtype = o.dtype},
             g);
  if (out.bias.defined()) init::zeros(out.bias);
  const auto bias = [&](bool wanted, std::int64_t n) {
    return wanted ? heed::autograd::zeros({n}, o.dtype) : Tensor();
  };
  Projections p{
      .bias = {bias(*options.q_bias, q), bias(*options.k_bias, k), bias(*options.v_bias, v)},
      .out = out.weight,
      .out_bias = out.bias};
  const auto draw = [&](std::int64_t n) {
    Tensor weight = empty({n, o.d_model}, o.dtype);
    init::xavier_uniform(weight, g);
    return weight;
  };
  if (o.form == kPackedQKV || o.form == kPackedHeads)
    p.weight = unpack_rows(draw(q + k + v), options);
  else
    p.weight = {draw(q), draw(k), draw(v)};
  weights = write(p, options);
  if (o.qk_norm)
    for (std::optional<RMSNorm>* norm : {&q_norm, &k_norm})
      norm->emplace(RMSNorm::Options{.dim = options.d_head, .dtype = o.dtype});
  const auto per_head = [&](double value) {
    return full({o.heads}, value, o.dtype).requires_grad_();
  };
  if (o.scale == std::variant<ScaleRule, double>(ScaleRule::kLearned))
    head_scale = per_head(1 / std::sqrt(double(options.d_head)));
  if (o.sink == Sink::kLearned) sink_logit = per_head(0);
}

MultiHeadAttention::QKV MultiHeadAttention::project(const Tensor& query, const Tensor& key,
                                                    const Tensor& value) const {
  const Options& o = options;
  const auto heads_of = [](const Tensor& y, std::int64_t heads) {
    return reshape(y, {y.size(0), y.size(1), heads, y.size(2) / heads});
  };
  if (o.form == kPackedQKV && !grad_enabled() && query.is_same(key) && key.is_same(value)) {
    const Tensor y = linear(query, weights.in_proj_weight, weights.in_proj_bias);
    const auto [q, k, v] = unpack_rows(y, o, 2);
    return {heads_of(q, o.heads), heads_of(k, o.kv_heads), heads_of(v, o.kv_heads)};
  }
  // If gradients are enabled, kPackedQKV computes three products like the other forms, and not one
  // product that is sliced into three parts. The backward pass of the slices would pad three
  // gradients with zeros and sum them. The results have the same bits.
  const Projections p = read_in(weights, o);
  const auto projected = [&](const Tensor& x, std::size_t i, std::int64_t heads) {
    return heads_of(linear(x, p.weight[i], p.bias[i]), heads);
  };
  return {projected(query, 0, o.heads), projected(key, 1, o.kv_heads),
          projected(value, 2, o.kv_heads)};
}

Tensor MultiHeadAttention::merge_heads(const Tensor& z) const {
  Projections p;
  read_out(p, weights, options);
  const Tensor joined = reshape(z, {z.size(0), z.size(1), options.heads * options.d_value});
  return linear(joined, p.out, p.out_bias);
}

AttentionWeights convert(const AttentionWeights& weights, const Options& options,
                         AttentionForm to) {
  const Options from = options.checked();
  Options wanted = from;
  wanted.form = to;
  wanted = wanted.checked();
  check_fits(weights, from);
  const NoGrad guard;
  Projections p = read_in(weights, from);
  read_out(p, weights, from);
  return write(p, wanted);
}

}  // namespace heed::nn
