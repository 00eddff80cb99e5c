// Tests of weights with the names of other libraries: names, layouts, and every option that another
// library does not have. tools/peers/export_parity.py compares logits.
#include "nn/layers/weight_names.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/models.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using Catch::Matchers::StartsWith;
using heed::nn::testing::random_model;
using enum WeightNames;

// Options of a model that all libraries can have, except that nanoGPT needs Activation::kGelu.
Transformer::Options common_options() {
  return {.vocab = 5,
          .layers = 1,
          .context = 3,
          .attention = {.d_model = 4, .heads = 2},
          .activation = Activation::kGeluTanh,
          .tied = true};
}

std::string names_and_shapes(const std::vector<NamedTensor>& tensors) {
  std::ostringstream text;
  for (const NamedTensor& t : tensors) text << t.name << t.tensor.shape() << "\n";
  return text.str();
}

Tensor find(const std::vector<NamedTensor>& tensors, const std::string& name) {
  for (const NamedTensor& t : tensors)
    if (t.name == name) return t.tensor;
  return {};
}

bool same_tensors(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  return std::ranges::equal(a, b, [](const NamedTensor& x, const NamedTensor& y) {
    return x.name == y.name && same_bits(x.tensor, y.tensor);
  });
}

TEST_CASE("weights for PyTorch load into torch.nn.MultiheadAttention and torch.nn.Linear") {
  Transformer::Options o = common_options();
  o.tied = false, o.activation = Activation::kSwiglu, o.positions = Positions::kAlibi;
  const Transformer model = random_model(o);
  const auto weights = weights_with_names(model, kTorch);
  CHECK(names_and_shapes(weights) ==
        "tok.weight[5, 4]\nblocks.0.ln1.weight[4]\nblocks.0.ln1.bias[4]\nblocks.0.ln2.weight[4]\n"
        "blocks.0.ln2.bias[4]\nblocks.0.attn.in_proj_weight[12, 4]\n"
        "blocks.0.attn.in_proj_bias[12]\nblocks.0.attn.out_proj.weight[4, 4]\n"
        "blocks.0.attn.out_proj.bias[4]\nblocks.0.up.weight[16, 4]\nblocks.0.up.bias[16]\n"
        "blocks.0.down.weight[4, 16]\nblocks.0.down.bias[4]\nblocks.0.gate.weight[16, 4]\n"
        "blocks.0.gate.bias[16]\nln.weight[4]\nln.bias[4]\nhead.weight[5, 4]\n");
}

TEST_CASE("weights for TransformerLens have a matrix per head; shared keys have other names") {
  Transformer::Options o = common_options();
  o.attention.kv_heads = 1, o.attention.qk_norm = true;
  o.mlp = false;
  const Transformer model = random_model(o);
  const auto weights = weights_with_names(model, kTransformerLens);
  CHECK(names_and_shapes(weights) ==
        "embed.W_E[5, 4]\npos_embed.W_pos[3, 4]\nblocks.0.ln1.w[4]\nblocks.0.ln1.b[4]\n"
        "blocks.0.attn.q_norm.w[2]\nblocks.0.attn.k_norm.w[2]\nln_final.w[4]\nln_final.b[4]\n"
        "blocks.0.attn.W_Q[2, 4, 2]\nblocks.0.attn._W_K[1, 4, 2]\nblocks.0.attn._W_V[1, 4, 2]\n"
        "blocks.0.attn.W_O[2, 2, 4]\nblocks.0.attn.b_Q[2, 2]\nblocks.0.attn._b_K[1, 2]\n"
        "blocks.0.attn._b_V[1, 2]\nblocks.0.attn.b_O[4]\nunembed.W_U[4, 5]\n");
  CHECK(same_bits(find(weights, "unembed.W_U"), mT(model.tok.weight)));
}

TEST_CASE("an option that the other library does not have is named, with what it has instead") {
  Transformer::Options o = common_options();
  o.positions = Positions::kAlibi, o.attention.heads = 3, o.attention.d_head = 2;
  CHECK_THROWS_WITH(weights_with_names(Transformer(o), kTransformerLens),
                    StartsWith("`heads` of the model is 3, but transformerlens has the "
                               "slopes of ALiBi only for a power of two; choose other names"));
}

// Returns the logits of nanoGPT or GPT-2 with these weights. The code uses no layers of heed.
Tensor gpt_logits(const std::vector<NamedTensor>& weights, WeightNames names, const Tensor& ids,
                  Index heads) {
  const auto get = [&](const std::string& name) { return find(weights, name); };
  const auto dense = [&](const Tensor& x, const std::string& name) {
    const Tensor w = get(name + ".weight");
    return linear(x, names == kGPT2 ? mT(w) : w, get(name + ".bias"));
  };
  const auto norm = [&](const Tensor& x, const std::string& name) {
    return layer_norm(x, {x.size(-1)}, get(name + ".weight"), get(name + ".bias"));
  };
  const Index n = ids.size(0);
  const Tensor wpe = get("transformer.wpe.weight");
  Tensor x = embedding(get("transformer.wte.weight"), ids) + slice(wpe, 0, 0, n);
  for (int layer = 0; get(fmt::format("transformer.h.{}.ln_1.weight", layer)).defined(); ++layer) {
    const std::string h = fmt::format("transformer.h.{}.", layer);
    std::vector<Tensor> qkv;  // [heads, n, d_head] each
    for (const Tensor& y : chunk(dense(norm(x, h + "ln_1"), h + "attn.c_attn"), 3, -1))
      qkv.push_back(transpose(reshape(y, {n, heads, -1}), 0, 1));
    const Tensor s = matmul(qkv[0], mT(qkv[1])) / std::sqrt(double(qkv[0].size(-1)));
    const Tensor hidden = logical_not(tril_mask(n, n));
    const Tensor z = matmul(softmax(masked_fill(s, hidden, -HUGE_VAL), -1), qkv[2]);
    x = x + dense(reshape(contiguous(transpose(z, 0, 1)), {n, -1}), h + "attn.c_proj");
    const Tensor up = dense(norm(x, h + "ln_2"), h + "mlp.c_fc");
    x = x + dense(names == kGPT2 ? gelu_tanh(up) : gelu(up), h + "mlp.c_proj");
  }
  return linear(norm(x, "transformer.ln_f"), get("lm_head.weight"));
}

TEST_CASE("each option alone is an error of export, or a known option of the other library") {
  const std::set<std::string> by_all = {"layers",  "heads",   "d-model",
                                        "context", "dropout", "dtype"};
  struct Library {
    std::set<std::string> accepts;  // settings, besides `by_all`
    std::set<std::string> refuses;  // values of these settings, or with an error of another option
  };
  const std::map<WeightNames, Library> libraries = {
      {kNanoGPT, {{}, {"bias=false: norm-bias"}}},
      {kGPT2, {{"mlp-ratio"}, {}}},
      {kTorch,
       {{"window", "mlp", "mlp-act", "mlp-ratio", "bias", "norm-bias", "tied", "positions",
         "norm-kind", "norm"},
        {"positions=rope: positions"}}},
      {kTransformerLens,
       {{"window", "mlp", "mlp-act", "mlp-ratio", "bias", "norm-bias", "tied", "positions",
         "norm-kind", "norm", "d-head", "kv-heads", "scale", "qk-norm", "soft-cap", "o-bias"},
        {"positions=sinusoidal: positions", "norm=post: norm", "mlp-act=swiglu: bias"}}}};
  for (const auto& [names, library] : libraries) {
    CAPTURE(enum_name(names));
    std::set<std::string> accepted, refused, expected = by_all;
    expected.insert(library.accepts.begin(), library.accepts.end());
    RunConfig plain;
    plain.model = common_options();
    if (names != kGPT2) plain.model.activation = Activation::kGelu;
    for (const Setting& setting : plain.settings()) {
      std::vector<std::string> values = setting.names;
      for (const char* value : {"true", "false", "1", "3", "0.5", "12"}) values.push_back(value);
      for (const std::string& value : values) {
        CAPTURE(setting.key, value);
        RunConfig c = plain;
        const std::vector<Setting> settings = c.settings();
        const Setting& s = *find_setting(settings, setting.key);
        if (setting.group != "Model" || !s.problem("", value).empty()) continue;
        s.set("", value);
        try {
          if (c.model.checked() == plain.model.checked()) continue;
        } catch (const ValueError&) {  // contradicts the other options
          continue;
        }
        const Transformer model = random_model(c.model);
        std::vector<NamedTensor> weights;
        try {
          weights = weights_with_names(model, names);
        } catch (const ValueError& e) {
          const std::string text = e.what();
          CHECK_THAT(text, StartsWith("`") && Contains("` of the model is ") &&
                               Contains(", but " + enum_name(names) + " has "));
          std::string named = text.substr(1, text.find('`', 1) - 1);
          std::ranges::replace(named, '_', '-');
          if (expected.contains(s.key) || named != s.key)
            refused.insert(fmt::format("{}={}: {}", s.key, value, named));
          continue;
        }
        accepted.insert(s.key);
        const SafeTensors file{"file", weights};
        CHECK(names_in(file) == names);
        const Transformer back = with_weights(Transformer(c.model), file, names);
        CHECK(same_tensors(parameters(back), parameters(model)));
        if (names == kTorch || names == kTransformerLens) continue;
        const Tensor ids = arange(std::min<Index>(3, c.model.context));
        const Tensor logits = gpt_logits(weights, names, ids, c.model.attention.heads);
        CHECK(allclose(squeeze(model(unsqueeze(ids, 0)), 0), logits, 1e-4, 1e-5));
      }
    }
    CHECK(accepted == expected);
    CHECK(refused == library.refuses);
  }
}

TEST_CASE("a file that does not fit a model is an error that names the tensor and both shapes") {
  const Transformer model = random_model(common_options());
  const std::vector<NamedTensor> weights = weights_with_names(model, kGPT2);
  const std::string h = "transformer.h.0.";
  const auto problem = [&](const std::string& name, const Tensor& x) {
    SafeTensors file{"file", weights};
    std::erase_if(file.tensors, [&](const NamedTensor& t) { return t.name == name; });
    if (x.defined()) file.tensors.push_back({name, x});
    try {
      with_weights(Transformer(model.options), file, names_in(file));
    } catch (const IoError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK_THAT(problem(h + "mlp.c_fc.weight", zeros({16, 4})),
             Contains(h + "mlp.c_fc.weight is float32 [16, 4] in the file, needs float32 [4, 16]"));
  CHECK_THAT(problem(h + "attn.c_attn.weight", zeros({12, 4})),
             Contains(h + "mlp.c_fc.weight is float32 [4, 16] in the file, needs float32 [16, 4]"));
  CHECK_THAT(problem(h + "ln_1.bias", {}), Contains("missing " + h + "ln_1.bias [4]"));
  CHECK_THAT(problem("lm_head.bias", ones({5})), Contains("unexpected \"lm_head.bias\""));
  CHECK_THAT(problem("lm_head.weight", zeros({5, 4})), Contains("set `tied` to false"));
  CHECK_THAT(problem("transformer.wte.weight", {}), Contains("contains no token embedding"));
  // The output layer of GPT2LMHeadModel is not in its file, and old files have masks.
  CHECK(problem("lm_head.weight", {}) == "");
  CHECK(problem("lm_head.bias", zeros({5})) == "");
  CHECK(problem(h + "attn.bias", to(reshape(tril_mask(3, 3), {1, 1, 3, 3}), float32)) == "");
  CHECK_THAT(problem(h + "attn.bias", ones({1, 1, 3, 3})),
             StartsWith("file: " + h + "attn.bias differs from that of heed with these options"));
}

TEST_CASE("a mask or a rotary table of a HookedTransformer must be that of the model") {
  Transformer::Options o = common_options();
  const auto accepts = [&](const std::string& name, const Tensor& x) {
    const Transformer model = random_model(o);
    SafeTensors file{"file", weights_with_names(model, kTransformerLens)};
    file.tensors.push_back({"blocks.0.attn." + name, x});
    try {
      with_weights(Transformer(o), file, kTransformerLens);
    } catch (const IoError& e) {
      CHECK_THAT(e.what(), StartsWith("file: blocks.0.attn." + name + " differs"));
      return false;
    }
    return true;
  };
  const Tensor causal = tril_mask(3, 3), local = tensor({{1, 0, 0}, {1, 1, 0}, {0, 1, 1}});
  // Sines of the positions 0 to 2 for d_head = 2, whose only frequency is 1.
  const double s1 = std::sin(1.0), s2 = std::sin(2.0);
  const Tensor sines = tensor({{0, 0}, {s1, s1}, {s2, s2}});
  CHECK(accepts("mask", causal));
  CHECK(accepts("mask", zeros({0, 0}, bool8)));
  CHECK_FALSE(accepts("mask", local));
  CHECK_FALSE(accepts("rotary_sin", sines));  // the positions are learned
  o.attention.window = 2;
  CHECK(accepts("mask", local));
  CHECK_FALSE(accepts("mask", causal));
  o.positions = Positions::kRope;
  CHECK(accepts("rotary_sin", sines));
  CHECK_FALSE(accepts("rotary_cos", sines));
  CHECK_FALSE(accepts("rotary_sin", sines * 1.0001));
  CHECK_FALSE(accepts("rotary_sin", slice(sines, 1, 0, 1)));
}

}  // namespace
