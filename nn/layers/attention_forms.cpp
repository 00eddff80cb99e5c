// The four stored forms of attention's projections: each is read as the same seven matrices and
// vectors, and written from them.
#include <cmath>
#include <sstream>

#include "nn/layers/attention.h"
#include "nn/layers/init.h"

namespace heed::nn {

using namespace autograd;

namespace {

using Options = MultiHeadAttention::Options;
using enum AttentionForm;

// What every form holds, as matrices for linear(); biases may be undefined.
struct Projections {
  Tensor q = {}, k = {}, v = {};                 // [H d_head, D], [Hkv d_head, D], [Hkv d_value, D]
  Tensor q_bias = {}, k_bias = {}, v_bias = {};  // their rows
  Tensor out = {}, out_bias = {};                // [D, H d_value], [D]
};

// Rows of q, k and v in a packed weight.
struct Rows {
  std::int64_t q, k, v;
  explicit Rows(const Options& o)
      : q(o.heads * o.d_head), k(o.kv_heads * o.d_head), v(o.kv_heads * o.d_value) {}
};

// Part of each head's rows in packed heads [H, 2 d_head + d_value, ...] -> [H * part, ...].
Tensor head_part(const Tensor& packed, const Options& o, std::int64_t begin, std::int64_t end) {
  const Tensor part = slice(packed, 1, begin, end);
  return packed.rank() == 3 ? reshape(part, {o.heads * (end - begin), o.d_model})
                            : reshape(part, {o.heads * (end - begin)});
}
// [H, D, d] <-> [H d, D]
Tensor head_rows(const Tensor& w) { return reshape(mT(w), {w.size(0) * w.size(2), w.size(1)}); }
Tensor per_head(const Tensor& rows, std::int64_t heads) {
  return mT(reshape(rows, {heads, rows.size(0) / heads, rows.size(1)}));
}
// The same for what may be no bias.
Tensor flat(const Tensor& bias) { return bias.defined() ? reshape(bias, {-1}) : bias; }
Tensor per_head_bias(const Tensor& bias, std::int64_t heads) {
  return bias.defined() ? reshape(bias, {heads, -1}) : bias;
}

// n rows from `begin` on.
Tensor part(const Tensor& x, std::int64_t begin, std::int64_t n) {
  return slice(x, 0, begin, begin + n);
}
// in_proj_bias, if that is how they are stored: q's, then k's, then v's.
void read_flat_bias(Projections& p, const AttentionWeights& w, const Rows& rows) {
  if (!w.in_proj_bias.defined()) return;
  p.q_bias = part(w.in_proj_bias, 0, rows.q);
  p.k_bias = part(w.in_proj_bias, rows.q, rows.k);
  p.v_bias = part(w.in_proj_bias, rows.q + rows.k, rows.v);
}

// Differentiable: what a forward pass multiplies its inputs by.
Projections read_in(const AttentionWeights& w, const Options& o) {
  const Rows rows(o);
  Projections p;
  switch (o.form) {
    case kPackedQKV:
      p.q = part(w.in_proj_weight, 0, rows.q);
      p.k = part(w.in_proj_weight, rows.q, rows.k);
      p.v = part(w.in_proj_weight, rows.q + rows.k, rows.v);
      read_flat_bias(p, w, rows);
      return p;
    case kSeparate:
      p.q = w.q_proj_weight, p.k = w.k_proj_weight, p.v = w.v_proj_weight;
      p.q_bias = w.q_proj_bias, p.k_bias = w.k_proj_bias, p.v_bias = w.v_proj_bias;
      read_flat_bias(p, w, rows);
      return p;
    case kPackedHeads: {
      const std::int64_t d = o.d_head, end = 2 * d + o.d_value;
      p.q = head_part(w.in_proj_weight, o, 0, d);
      p.k = head_part(w.in_proj_weight, o, d, 2 * d);
      p.v = head_part(w.in_proj_weight, o, 2 * d, end);
      if (!w.in_proj_bias.defined()) return p;
      const Tensor bias = reshape(w.in_proj_bias, {o.heads, end});
      p.q_bias = head_part(bias, o, 0, d);
      p.k_bias = head_part(bias, o, d, 2 * d);
      p.v_bias = head_part(bias, o, 2 * d, end);
      return p;
    }
    case kPerHead:
      p.q = head_rows(w.W_Q), p.k = head_rows(w.W_K), p.v = head_rows(w.W_V);
      p.q_bias = flat(w.b_Q), p.k_bias = flat(w.b_K), p.v_bias = flat(w.b_V);
      return p;
  }
  return p;
}

// The same for what merges the heads.
void read_out(Projections& p, const AttentionWeights& w, const Options& o) {
  const bool heads = o.form == kPerHead;
  p.out = heads ? mT(reshape(w.W_O, {o.heads * o.d_value, o.d_model})) : w.out_proj_weight;
  p.out_bias = heads ? w.b_O : w.out_proj_bias;
}

// The inverse of both, for options of the form to write.
AttentionWeights write(const Projections& p, const Options& o) {
  const NoGrad guard;  // parameters: leaves, each with memory of its own
  AttentionWeights w;
  const bool biased = p.q_bias.defined() && p.k_bias.defined() && p.v_bias.defined();
  const auto flat_bias = [&] { return cat({p.q_bias, p.k_bias, p.v_bias}, 0); };
  if (o.form != kPerHead) w.out_proj_weight = p.out, w.out_proj_bias = p.out_bias;
  switch (o.form) {
    case kPackedQKV:
      w.in_proj_weight = cat({p.q, p.k, p.v}, 0);
      if (biased) w.in_proj_bias = flat_bias();
      break;
    case kSeparate:
      w.q_proj_weight = p.q, w.k_proj_weight = p.k, w.v_proj_weight = p.v;
      if (biased)
        w.in_proj_bias = flat_bias();
      else
        w.q_proj_bias = p.q_bias, w.k_proj_bias = p.k_bias, w.v_proj_bias = p.v_bias;
      break;
    case kPackedHeads: {
      const auto heads = [&](const Tensor& rows, std::int64_t d) {
        return reshape(rows, {o.heads, d, -1});
      };
      const auto pack = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
        return cat({heads(q, o.d_head), heads(k, o.d_head), heads(v, o.d_value)}, 1);
      };
      w.in_proj_weight = pack(p.q, p.k, p.v);
      if (biased) w.in_proj_bias = flat(pack(p.q_bias, p.k_bias, p.v_bias));
      break;
    }
    case kPerHead:
      w.W_Q = per_head(p.q, o.heads), w.b_Q = per_head_bias(p.q_bias, o.heads);
      w.W_K = per_head(p.k, o.kv_heads), w.b_K = per_head_bias(p.k_bias, o.kv_heads);
      w.W_V = per_head(p.v, o.kv_heads), w.b_V = per_head_bias(p.v_bias, o.kv_heads);
      w.W_O = reshape(mT(p.out), {o.heads, o.d_value, o.d_model}), w.b_O = p.out_bias;
      break;
  }
  w.visit([](std::string_view, Tensor& x) {
    if (!x.defined()) return;
    const Tensor leaf = empty(x.shape(), x.dtype());
    copy_(leaf, x);
    x = leaf.requires_grad();
  });
  return w;
}

// Fills in what was left open, and says what does not fit.
Options checked(Options o) {
  constexpr std::string_view kName = "MultiHeadAttention";
  check<ValueError>(o.d_model > 0 && o.heads > 0 && o.d_head >= 0 && o.d_value >= 0, kName,
                    "needs d_model > 0, heads > 0, d_head >= 0 and d_value >= 0, got ", o.d_model,
                    ", ", o.heads, ", ", o.d_head, ", ", o.d_value);
  check<ValueError>(o.d_head > 0 || o.d_model % o.heads == 0, kName, "d_model ", o.d_model,
                    " is not divisible by heads ", o.heads, "; choose a multiple, or set d_head");
  if (o.d_head == 0) o.d_head = o.d_model / o.heads;
  if (o.d_value == 0) o.d_value = o.d_head;
  if (o.kv_heads == 0) o.kv_heads = o.heads;
  check<ValueError>(o.kv_heads > 0 && o.heads % o.kv_heads == 0, kName, "kv_heads ", o.kv_heads,
                    " does not divide heads ", o.heads);
  check<ValueError>(o.form != kPackedHeads || o.kv_heads == o.heads, kName,
                    "packed_heads stores q, k and v of each head together, got heads ", o.heads,
                    " and kv_heads ", o.kv_heads, "; choose another form");
  const auto has = [](std::optional<bool> bias) { return *bias ? "true" : "false"; };
  for (std::optional<bool>* bias : {&o.q_bias, &o.k_bias, &o.v_bias, &o.out_bias})
    *bias = bias->value_or(o.bias);
  check<ValueError>((o.form != kPackedQKV && o.form != kPackedHeads) ||
                        (o.q_bias == o.k_bias && o.k_bias == o.v_bias),
                    kName, "a packed bias is all or none, got q ", has(o.q_bias), ", k ",
                    has(o.k_bias), ", v ", has(o.v_bias), "; choose the form separate or per_head");
  check<DTypeError>(o.dtype == float32 || o.dtype == float64, kName,
                    "needs dtype float32 or float64, got ", o.dtype);
  check<ValueError>(!o.rope || o.d_head % 2 == 0, kName, "RoPE needs an even d_head, got ",
                    o.d_head);
  check<ValueError>(o.dropout >= 0 && o.dropout < 1, kName, "needs dropout in [0, 1), got ",
                    o.dropout);
  return o;
}

// Says which of the weights is not what a layer of these options has.
void check_fits(AttentionWeights got, const Options& o) {
  Generator scratch;  // only the shapes are looked at
  AttentionWeights wanted = MultiHeadAttention(o, scratch).weights;
  std::vector<Tensor> shapes;
  wanted.visit([&](std::string_view, Tensor& x) { shapes.push_back(x); });
  std::size_t next = 0;
  const auto shape_of = [](const Tensor& x) {
    std::ostringstream out;
    if (x.defined())
      out << x.shape();
    else
      out << "none";
    return out.str();
  };
  got.visit([&](std::string_view name, Tensor& x) {
    const Tensor& want = shapes[next++];
    const bool fits = x.defined() == want.defined() && (!x.defined() || x.shape() == want.shape());
    check(fits, "convert", "a layer of these options has ", name, " ", shape_of(want), ", got ",
          shape_of(x), "; give the options that the weights were made with");
  });
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const Options& o, Generator& g) : options(checked(o)) {
  check<ValueError>(std::isfinite(scale()), "MultiHeadAttention", "needs a finite scale, got ",
                    scale());
  const Rows rows(options);
  // PyTorch's order: out_proj as a Linear, its bias drawn and set to 0, then q, k, v.
  Linear out({.in = options.heads * options.d_value,
              .out = o.d_model,
              .bias = *options.out_bias,
              .dtype = o.dtype},
             g);
  if (out.bias.defined()) init::zeros(out.bias);
  const auto bias = [&](bool wanted, std::int64_t n) {
    return wanted ? heed::autograd::zeros({n}, o.dtype) : Tensor();
  };
  Projections p{.q_bias = bias(*options.q_bias, rows.q),
                .k_bias = bias(*options.k_bias, rows.k),
                .v_bias = bias(*options.v_bias, rows.v),
                .out = out.weight,
                .out_bias = out.bias};
  const auto draw = [&](std::int64_t n) {
    const Tensor weight = empty({n, o.d_model}, o.dtype);
    init::xavier_uniform(weight, g);
    return weight;
  };
  if (o.form == kPackedQKV || o.form == kPackedHeads) {
    const Tensor all = draw(rows.q + rows.k + rows.v);
    p.q = part(all, 0, rows.q);
    p.k = part(all, rows.q, rows.k);
    p.v = part(all, rows.q + rows.k, rows.v);
  } else {
    p.q = draw(rows.q), p.k = draw(rows.k), p.v = draw(rows.v);
  }
  weights = write(p, options);
}

MultiHeadAttention::QKV MultiHeadAttention::project(const Tensor& query, const Tensor& key,
                                                    const Tensor& value) const {
  // Packed, too, in three products: a slice of their common result would cost its gradient twice
  // over, in zeros around it and in sums.
  const Projections p = read_in(weights, options);
  const auto part = [](const Tensor& x, const Tensor& weight, const Tensor& bias,
                       std::int64_t heads, std::int64_t d) {
    return reshape(linear(x, weight, bias), {x.size(0), x.size(1), heads, d});
  };
  const Options& o = options;
  return {part(query, p.q, p.q_bias, o.heads, o.d_head),
          part(key, p.k, p.k_bias, o.kv_heads, o.d_head),
          part(value, p.v, p.v_bias, o.kv_heads, o.d_value)};
}

Tensor MultiHeadAttention::merge_heads(const Tensor& z) const {
  Projections p;
  read_out(p, weights, options);
  const Tensor joined = reshape(z, {z.size(0), z.size(1), options.heads * options.d_value});
  return linear(joined, p.out, p.out_bias);
}

AttentionWeights convert(const AttentionWeights& weights, const Options& options,
                         AttentionForm to) {
  const Options from = checked(options);
  Options wanted = from;
  wanted.form = to;
  wanted = checked(wanted);
  check_fits(weights, from);
  const NoGrad guard;
  Projections p = read_in(weights, from);
  read_out(p, weights, from);
  return write(p, wanted);
}

}  // namespace heed::nn
