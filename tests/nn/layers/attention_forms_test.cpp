// Tests of the four stored forms of MultiHeadAttention: equal results, conversion, initial values
// and weight decay.
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"
#include "tests/support/models.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::autograd::testing;
using heed::nn::testing::random_layer;
using Options = MultiHeadAttention::Options;
using enum AttentionForm;

constexpr AttentionForm kForms[] = {kPackedQKV, kSeparate, kPackedHeads, kPerHead};

// Returns the layer with its weights stored in another form.
MultiHeadAttention converted(const MultiHeadAttention& layer, AttentionForm to) {
  Options o = layer.options;
  o.form = to;
  MultiHeadAttention result(o);
  result.weights = convert(layer.weights, layer.options, to);
  return result;
}
std::vector<Tensor> tensors(const MultiHeadAttention& layer) {
  std::vector<Tensor> list;
  for (const NamedTensor& p : parameters(layer)) list.push_back(p.tensor);
  return list;
}
// Returns the gradients of all parameters, then the output, then the gradients of both inputs. The
// gradients of the parameters are converted to the form packed_qkv. convert() can do this, because
// gradients convert like weights.
std::vector<Tensor> run(const MultiHeadAttention& layer, const ForwardContext& ctx = {}) {
  const Tensor x = draw({2, 5, 12}, 3).requires_grad_(),
               memory = draw({2, 6, 12}, 4).requires_grad_();
  const Tensor y = layer.forward(x, memory, memory, ctx);
  std::vector<Tensor> wanted = tensors(layer);
  wanted.push_back(x), wanted.push_back(memory);
  std::vector<Tensor> g = grad(y, wanted, {.grad_output = draw(y.shape(), 5)});
  MultiHeadAttention holder(layer.options);
  std::size_t next = 0;
  for_each_parameter(holder, [&](const std::string&, Tensor& p) { p = g[next++]; });
  std::vector<Tensor> all = tensors(converted(holder, kPackedQKV));
  all.push_back(y), all.push_back(g[next]), all.push_back(g[next + 1]);
  return all;
}

TEST_CASE("all four stored forms give the same outputs and gradients") {
  const Options variants[] = {
      {.d_model = 12, .heads = 3, .dtype = float64},
      {.d_model = 12, .heads = 3, .d_head = 5, .d_value = 2, .bias = false, .dtype = float64},
      {.d_model = 12,
       .heads = 4,
       .out_bias = false,
       .causal = true,
       .rope = false,
       .dtype = float64},
      {.d_model = 12, .heads = 2, .causal = true, .rope = true, .dtype = float64}};
  for (const Options& o : variants) {
    const MultiHeadAttention packed = random_layer(o);
    const auto want = run(packed);
    for (const AttentionForm from : kForms)
      for (const AttentionForm to : kForms) {
        CAPTURE(o.heads, int(from), int(to));
        const MultiHeadAttention layer = converted(converted(packed, from), to);
        const auto got = run(layer);
        REQUIRE(got.size() == want.size());
        for (std::size_t i = 0; i < got.size(); ++i) CHECK(close(got[i], want[i]));
        const auto back = tensors(converted(layer, kPackedQKV)), first = tensors(packed);
        for (std::size_t i = 0; i < back.size(); ++i) CHECK(same_bits(back[i], first[i]));
      }
  }
}

TEST_CASE("packed_heads equals the layer of notebook 0: linear, heads, then three chunks") {
  const Options o{.d_model = 12, .heads = 3, .form = kPackedHeads, .dtype = float64};
  const MultiHeadAttention layer = random_layer(o);
  const AttentionWeights& w = layer.weights;
  CHECK(w.in_proj_weight.shape() == Shape{3, 12, 12});
  const Tensor x = draw({2, 5, 12}, 3);
  const Tensor qkv = linear(x, reshape(w.in_proj_weight, {36, 12}), w.in_proj_bias);
  const auto parts = chunk(permute(reshape(qkv, {2, 5, 3, 12}), {0, 2, 1, 3}), 3, -1);
  const Tensor z = attention(parts[0], parts[1], parts[2]);
  const Tensor joined = reshape(permute(z, {0, 2, 1, 3}), {2, 5, 12});
  CHECK(close(layer(x), linear(joined, w.out_proj_weight, w.out_proj_bias)));
}

TEST_CASE("per_head equals the layer of notebook 1, computed with einsum") {
  const MultiHeadAttention layer = random_layer({.d_model = 30,
                                                 .heads = 2,
                                                 .d_head = 10,
                                                 .form = kPerHead,
                                                 .causal = true,
                                                 .dtype = float64});
  const AttentionWeights& w = layer.weights;
  CHECK(w.W_Q.shape() == Shape{2, 30, 10});
  CHECK(w.b_Q.shape() == Shape{2, 10});
  CHECK(w.W_O.shape() == Shape{2, 10, 30});
  const Tensor x = draw({2, 5, 30}, 3);
  const auto project = [&](const Tensor& weight, const Tensor& bias) {
    return bias +
           einsum("batch pos d_model, head d_model d_head -> batch pos head d_head", {x, weight});
  };
  const Tensor q = project(w.W_Q, w.b_Q), k = project(w.W_K, w.b_K), v = project(w.W_V, w.b_V);
  Tensor scores = einsum(
                      "batch q_pos head d_head, batch k_pos head d_head -> "
                      "batch head q_pos k_pos",
                      {q, k}) /
                  std::sqrt(10.0);
  scores = masked_fill(scores, logical_not(tril_mask(5, 5)), -kInf);
  const Tensor z = einsum(
      "batch head q_pos k_pos, batch k_pos head d_head -> "
      "batch q_pos head d_head",
      {softmax(scores, -1), v});
  const Tensor out = w.b_O + einsum(
                                 "batch pos head d_head, head d_head d_model -> "
                                 "batch pos d_model",
                                 {z, w.W_O});
  CHECK(close(layer(x), out));
}

TEST_CASE("each projection may have a bias; the packed forms need all of q, k and v or none") {
  for (int bits = 0; bits < 16; ++bits) {
    CAPTURE(bits);
    const bool q = bits & 1, k = bits & 2, v = bits & 4, out = bits & 8;
    Options o{.d_model = 12, .heads = 3, .form = kPerHead, .dtype = float64};
    const MultiHeadAttention all(o);  // has all biases; those not in `layer` are set to 0
    o.q_bias = q, o.k_bias = k, o.v_bias = v, o.out_bias = out;
    const MultiHeadAttention layer = random_layer(o);
    CHECK(parameters(layer).size() == std::size_t(4 + q + k + v + out));
    {
      const NoGrad guard;
      for (const NamedTensor& to : parameters(all)) {
        if (is_bias(to.name)) fill_(to.tensor, 0);
        for (const NamedTensor& from : parameters(layer))
          if (from.name == to.name) copy_(to.tensor, from.tensor);
      }
    }
    const Tensor x = draw({2, 5, 12}, 3);
    CHECK(same_bits(layer(x), all(x)));
    const MultiHeadAttention separate = converted(layer, kSeparate);
    CHECK(close(separate(x), all(x)));
    CHECK(separate.weights.in_proj_bias.defined() == (q && k && v));  // as in PyTorch
    CHECK(separate.weights.q_proj_bias.defined() == (q && !(k && v)));
    if (q == k && k == v) {
      const auto got = run(converted(layer, kPackedQKV)), want = run(layer);
      for (std::size_t i = 0; i < want.size(); ++i) CHECK(close(got[i], want[i]));
    } else {
      CHECK_THROWS_AS(converted(layer, kPackedHeads), ValueError);
    }
  }
}

TEST_CASE("heads that share keys and values equal heads with copies of them") {
  for (const std::int64_t kv : {1, 2}) {
    const Options o{
        .d_model = 12, .heads = 4, .d_head = 3, .kv_heads = kv, .form = kPerHead, .dtype = float64};
    const MultiHeadAttention grouped = random_layer(o);
    Options full_options = o;
    full_options.kv_heads = 4;
    MultiHeadAttention full_layer(full_options);
    std::vector<std::int64_t> rows;
    for (std::int64_t h = 0; h < 4; ++h) rows.push_back(h / (4 / kv));
    const Tensor index = from_data(rows, {4});
    full_layer.weights = grouped.weights;
    for (Tensor* w : {&full_layer.weights.W_K, &full_layer.weights.W_V, &full_layer.weights.b_K,
                      &full_layer.weights.b_V})
      *w = index_select(*w, 0, index);
    const Tensor x = draw({2, 5, 12}, 3);
    CHECK(close(grouped(x), full_layer(x)));
    const auto got = run(converted(grouped, kSeparate)), want = run(grouped);
    for (std::size_t i = 0; i < want.size(); ++i) CHECK(close(got[i], want[i]));
  }
}

TEST_CASE("packed_heads draws the weights of packed_qkv, and per_head those of separate") {
  const Tensor x = draw({2, 5, 12}, 3);
  const auto output = [&](AttentionForm form) {
    Generator g(6);
    return MultiHeadAttention({.d_model = 12, .heads = 3, .form = form, .dtype = float64}, g)(x);
  };
  CHECK(close(output(kPackedHeads), output(kPackedQKV)));
  CHECK(close(output(kPerHead), output(kSeparate)));
}

TEST_CASE("convert throws if the weights do not match the options") {
  const Options o{.d_model = 12, .heads = 3};
  const MultiHeadAttention layer(o);
  Options wider = o;
  wider.d_head = 5;
  CHECK_THROWS_WITH(convert(layer.weights, wider, kPerHead),
                    "convert: a layer of these options has in_proj_weight [45, 12], got [36, 12]; "
                    "give the options that the weights were made with");
  Options other = o;
  other.form = kSeparate;
  CHECK_THROWS_WITH(convert(layer.weights, other, kPerHead),
                    "convert: a layer of these options has in_proj_weight none, got [36, 12]; give "
                    "the options that the weights were made with");
}

TEST_CASE("a layer draws its weights like torch.nn.MultiheadAttention, with and without biases") {
  for (const bool bias : {true, false}) {
    Generator g(9), same(9);
    const MultiHeadAttention layer({.d_model = 8, .heads = 2, .bias = bias}, g);
    // A layer without a bias draws no values for the bias.
    const Linear out({.in = 8, .out = 8, .bias = bias}, same);
    const Tensor in = empty({24, 8});
    init::xavier_uniform(in, same);
    CHECK(same_bits(layer.weights.out_proj_weight, out.weight));
    CHECK(same_bits(layer.weights.in_proj_weight, in));
    CHECK(layer.weights.out_proj_bias.defined() == bias);
    if (bias) CHECK(largest(layer.weights.out_proj_bias) == 0);
  }
}

TEST_CASE("the form in the configuration of a run does not change its model") {
  Generator draws(2);
  const Tensor ids = randint(0, 33, {2, 9}, draws);
  const auto logits = [&](AttentionForm form, Init init) {
    RunConfig c;
    c.model.attention.form = form, c.init = init, c.model.attention.bias = true,
    c.model.attention.dtype = float64;
    Generator g(1);
    return make_model(c, 33, 32, g).forward(ids);
  };
  using enum AttentionForm;
  for (const Init init : {Init::kFanIn, Init::kTorch, Init::kGPT2}) {
    CAPTURE(enum_name(init));
    CHECK(close(logits(kPackedHeads, init), logits(kPackedQKV, init), 1e-12));
    CHECK(close(logits(kPerHead, init), logits(kSeparate, init), 1e-12));
  }
}

TEST_CASE("weight decay applies to matrices and not to biases, in every form") {
  for (const AttentionForm form : kForms) {
    const MultiHeadAttention layer({.d_model = 12, .heads = 3, .form = form});
    const auto groups = decay_groups(parameters(layer), 0.1);
    std::size_t biases = 0;
    for (const ParameterGroup& group : groups)
      for (const NamedTensor& p : group.parameters) {
        CAPTURE(p.name);
        const bool bias = p.name.starts_with("b_") || p.name.ends_with("bias");
        CHECK(group.weight_decay == (bias ? 0 : 0.1));
        biases += bias;
      }
    CHECK(biases == (form == kPerHead ? 4 : 2));
  }
}

}  // namespace
