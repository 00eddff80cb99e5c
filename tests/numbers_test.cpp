// Every verified number of the five notebooks, computed with our ops by the entry's id in
// seeds/numbers.json, where that file is present.
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "autograd/ops.h"
#include "tests/catch.h"
#include "tests/layouts.h"
#include "tests/notebooks.h"

namespace {

using namespace heed::autograd;
using namespace heed::autograd::testing;
using Json = nlohmann::json;

class Numbers {
 public:
  explicit Numbers(const Json& file) {
    for (const Json& e : file["entries"]) entries_[e["id"]] = e;
  }
  const std::map<std::string, Json>& entries() const { return entries_; }
  Tensor input(const std::string& id, const std::string& name) const {
    return resolve(entries_.at(id)["inputs"].at(name), name);
  }
  Tensor expected(const std::string& id, const std::string& name) const {
    return read(entries_.at(id)["expected"].at(name));
  }

 private:
  static double number(const Json& v) {
    if (v.is_string()) return v == "-inf" ? -kInf : v == "inf" ? kInf : std::nan("");
    return v.get<double>();
  }
  static Tensor read(const Json& x) {
    std::vector<double> data;
    for (const Json& v : x.at("data")) data.push_back(number(v));
    return from_data(data, Dims(x.at("shape").get<std::vector<std::int64_t>>()));
  }
  Tensor resolve(const Json& x, const std::string& name) const {
    if (x.contains("value")) return read(x["value"]);
    if (!x.contains("ref")) return read(x);
    const std::string ref = x["ref"];
    const std::string id = ref.substr(0, ref.find(':'));
    const std::string other = ref.find(':') == ref.npos ? name : ref.substr(ref.find(':') + 1);
    const Json& entry = entries_.at(id);
    return entry["inputs"].contains(other) && !entry["expected"].contains(other)
               ? resolve(entry["inputs"][other], other)
               : read(entry["expected"].at(other));
  }
  std::map<std::string, Json> entries_;
};

using Results = std::map<std::string, Tensor>;

// Entries without a tensor to compute: a message of Python, and ids that are their own input.
const std::set<std::string> kNotTensors = {"s1.in4.error", "s2.in12.sentence"};

// ---- notebook 0: fused q, k, v; heads by reshape, permute and chunk

struct FusedHeads {
  Tensor x, qkv, split, heads, q, k, v, scaled, mask, weights, values, joined_wrong, joined;
};
FusedHeads fused_heads(const Tensor& x, const Tensor& w, const Tensor& b, std::int64_t heads) {
  const std::int64_t n = x.size(0), t = x.size(1), d = x.size(2) / heads;
  FusedHeads r;
  r.x = x, r.qkv = linear(x, w, b);
  r.split = reshape(r.qkv, {n, t, heads, 3 * d});
  r.heads = permute(r.split, {0, 2, 1, 3});
  const std::vector<Tensor> parts = chunk(r.heads, 3, -1);
  r.q = parts[0], r.k = parts[1], r.v = parts[2];
  r.mask = causal_additive({n, heads, t, t});
  const Attention a = by_hand(r.q, r.k, r.v, 1 / std::sqrt(double(d)), r.mask);
  r.scaled = a.scores, r.weights = a.pattern, r.values = a.output;
  r.joined_wrong = reshape(r.values, {n, t, heads * d});  // as in the notebook: positions mixed
  r.joined = reshape(permute(r.values, {0, 2, 1, 3}), {n, t, heads * d});
  return r;
}

// torch.nn.Linear's initialisation, in float32 as drawn.
Tensor uniform_parameter(const Shape& shape, std::int64_t fan_in, Generator& g) {
  Tensor p = empty(shape);
  const double bound = 1 / std::sqrt(double(fan_in));
  g.uniform(std::span(p.mutable_data<float>(), std::size_t(p.numel())), -bound, bound);
  return to(p, float64);
}

// Of manual_seed(0): x, then the layers 512 -> 1536 and 512 -> 512.
struct Model512 {
  Generator g{0};
  Tensor x = to(randn({1, 6, 512}, float32, g), float64);
  Tensor w = uniform_parameter({1536, 512}, 512, g), b = uniform_parameter({1536}, 512, g);
  Tensor w_out = uniform_parameter({512, 512}, 512, g), b_out = uniform_parameter({512}, 512, g);
  FusedHeads heads = fused_heads(x, w, b, 8);
  Tensor output(const Tensor& joined) const { return linear(joined, w_out, b_out); }
};
const Model512& model512() {
  static const Model512 model;
  return model;
}
// output[0, 0, :8], output[0, 5, :8], sum, sum of squares, min, max
Tensor summary(const Tensor& y) {
  const Tensor rows = select(y, 0, 0);
  return cat({slice(select(rows, 0, 0), 0, 0, 8), slice(select(rows, 0, 5), 0, 0, 8),
              stack({sum(y), sum(y * y), min(y), max(y)}, 0)},
             0);
}

// ---- notebook 1: weights per head, all ones

Results hidden_attention(const Tensor& x, std::int64_t heads, std::int64_t d_head) {
  const std::int64_t model = x.size(2), t = x.size(1);
  const Tensor w = ones({heads, model, d_head}, float64),
               w_out = ones({heads, d_head, model}, float64);
  const Tensor q = einsum("bpm,hmd->bphd", {x, w});
  const Tensor scores = einsum("bqhd,bkhd->bhqk", {q, q}) / std::sqrt(double(d_head));
  const Tensor pattern = softmax(masked_fill(scores, logical_not(tril_mask(t, t)), -kInf), -1);
  const Tensor z = einsum("bkhd,bhqk->bqhd", {q, pattern});
  const Tensor out = einsum("bqhd,hdm->bqm", {z, w_out});
  CHECK(allclose(out, expand(slice(out, 2, 0, 1), out.shape()), 0, 1e-9));
  return {{"q", q},
          {"attn_pattern", pattern},
          {"z", z},
          {"attn_out", out},
          {"attn_out[:,:,0]", select(out, 2, 0)}};
}

// ---- notebook 3: one layer, three readings of its code

Results three_readings(const Numbers& n) {
  const auto in = [&](const char* name) { return n.input("s3.derived.mha", name); };
  const Tensor x = unsqueeze(in("sample_input"), 0);
  const auto project = [&](const char* weight) {
    return reshape(linear(x, in(weight)), {1, 3, 2, 2});
  };
  const Tensor q = project("queries_weight"), k = project("keys_weight"),
               v = project("values_weight");
  const auto layer = [&](const Tensor& a, const Tensor& b, const Tensor& c, double scale) {
    const Tensor energy = einsum("nqhd,nkhd->nhqk", {a, b}) / scale;
    const Tensor z = einsum("nhql,nlhd->nqhd", {softmax(energy, 3), c});
    return linear(reshape(z, {1, 3, 4}), in("output_weight"), in("output_bias"));
  };
  const auto heads_first = [](const Tensor& t) { return permute(t, {0, 2, 1, 3}); };
  return {{"correct_positions_sqrt_head_dim", layer(q, k, v, std::sqrt(2))},
          {"positions_sqrt_embedding_size", layer(q, k, v, 2)},
          {"literal_code_heads_attend_heads",
           layer(heads_first(q), heads_first(k), heads_first(v), 2)}};
}

// b[i] = ((step i + first) mod modulus - centre) / 8
Tensor counted(const Shape& shape, std::int64_t step, std::int64_t first, std::int64_t modulus,
               double centre) {
  std::vector<double> v;
  for (std::int64_t i = 0; i < shape.numel(); ++i)
    v.push_back((double((step * i + first) % modulus) - centre) / 8);
  return from_data(v, shape);
}

using Compute = std::function<Results(const Numbers&)>;

void add_notebook_0(std::map<std::string, Compute>& c) {
  const auto attend = [](double scale) {
    return [scale](const Numbers& n) -> Results {
      const auto in = [&](const char* name) { return n.input("s0.in30.w", name); };
      const Attention a = by_hand(in("q"), in("k"), in("v"), scale, in("mask"));
      const Tensor fused = attention(in("q"), in("k"), in("v"), {.scale = scale, .causal = true});
      CHECK(allclose(fused, a.output, 1e-12, 1e-12));
      return {{"w", a.pattern},
              {"out", a.output},
              {"argmax_row2", argmax(select(a.pattern, 0, 2), 0)},
              {"argmax_row3", argmax(select(a.pattern, 0, 3), 0)}};
    };
  };
  for (const char* id : {"s0.in30.w", "s0.in31.out", "s0.md.claim"}) c[id] = attend(1);
  c["s0.derived.scaled"] = attend(0.5);
  c["s0.in29.mask"] = [](const Numbers&) -> Results {
    return {{"mask", masked_fill(zeros({6, 6}, float64), eq(tril(ones({6, 6})), 0.0), -kInf)}};
  };
  const auto of = [](const char* name, Tensor FusedHeads::*part) {
    return [=](const Numbers&) -> Results { return {{name, model512().heads.*part}}; };
  };
  c["s0.in36.x"] = of("x", &FusedHeads::x);
  c["s0.in38.qkv"] = of("qkv", &FusedHeads::qkv);
  c["s0.in41.qkv"] = of("qkv", &FusedHeads::split);
  c["s0.in42.qkv"] = of("qkv", &FusedHeads::heads);
  c["s0.in44.scaled"] = of("scaled", &FusedHeads::scaled);
  c["s0.in47.weights"] = of("attention_weights", &FusedHeads::weights);
  c["s0.in48.values"] = of("values", &FusedHeads::values);
  c["s0.in54.concat"] = of("values", &FusedHeads::joined);
  c["s0.in43.qkv"] = [](const Numbers&) -> Results {
    const FusedHeads& h = model512().heads;
    return {{"q", h.q}, {"k", h.k}, {"v", h.v}};
  };
  c["s0.in46.mask01"] = [](const Numbers&) -> Results {
    return {{"mask[0][1]", select(select(model512().heads.mask, 0, 0), 0, 1)}};
  };
  c["s0.in53.sdp"] = [](const Numbers&) -> Results {
    return {{"attention_weights", model512().heads.weights}, {"values", model512().heads.values}};
  };
  c["s0.in55.out"] = [](const Numbers&) -> Results {
    return {{"output", model512().output(model512().heads.joined)}};
  };
  c["s0.in69.mha"] = [](const Numbers&) -> Results {
    const FusedHeads& h = model512().heads;
    return {{"0 x", h.x},           {"1 qkv", h.qkv},
            {"2 qkv", h.split},     {"3 qkv", h.heads},
            {"4 q", h.q},           {"5 k", h.k},
            {"6 v", h.v},           {"7 attention_weights", h.weights},
            {"8 values", h.values}, {"9 output", model512().output(h.joined)}};
  };
  c["s0.derived.mha512"] = [](const Numbers&) -> Results {
    const Model512& m = model512();
    return {{"as_in_seed_reshape_bug", summary(m.output(m.heads.joined_wrong))},
            {"correct_transposed_first", summary(m.output(m.heads.joined))}};
  };
  c["s0.derived.mha4"] = [](const Numbers& n) -> Results {
    const auto in = [&](const char* name) { return n.input("s0.derived.mha4", name); };
    const FusedHeads h = fused_heads(in("x"), in("qkv_weight"), in("qkv_bias"), 2);
    const auto out = [&](const Tensor& joined) {
      return linear(joined, in("out_weight"), in("out_bias"));
    };
    return {{"attention_weights", h.weights},
            {"as_in_seed_reshape_bug", out(h.joined_wrong)},
            {"correct_transposed_first", out(h.joined)}};
  };
}

void add_notebooks_1_to_3(std::map<std::string, Compute>& c) {
  c["s1.in4.causal"] = [](const Numbers& n) -> Results {
    const Tensor scores = n.input("s1.in4.causal", "attn_scores");
    return {{"masked", masked_fill(scores, gt(triu(ones({3, 3}), 1), 0.0), -kInf)}};
  };
  c["s1.derived.small"] = [](const Numbers& n) {
    return hidden_attention(n.input("s1.derived.small", "x"), 2, 2);
  };
  c["s1.derived.formula"] = [](const Numbers&) {
    std::vector<double> x;
    for (int b = 0; b < 12; ++b)
      for (int t = 0; t < 20; ++t)
        for (int m = 0; m < 30; ++m) x.push_back(((7 * b + 5 * t + 3 * m) % 11 - 5) / 64.0);
    return hidden_attention(from_data(x, {12, 20, 30}), 2, 10);
  };
  c["s1.derived.rand"] = [](const Numbers&) {
    Generator g(0);
    return hidden_attention(to(rand({12, 20, 30}, float32, g), float64), 2, 10);
  };
  const auto words = [](const Numbers& n) -> Results {
    const Tensor ids = to(n.input("s2.in12.sentence", "sentence"), int64);
    const Tensor x = embedding(n.input("s2.in13.emb0", "weight"), ids);
    const Tensor omega = matmul(x, mT(x)), w = softmax(omega, 1);
    Tensor one_by_one = zeros({8, 8}, float64);
    for (std::int64_t i = 0; i < 64; ++i)
      one_by_one.mutable_data<double>()[i] = sum(select(x, 0, i / 8) * select(x, 0, i % 8)).item();
    return {{"embedded_sentence[0]", select(x, 0, 0)},
            {"X", x},
            {"omega_mat", omega},
            {"omega", omega},
            {"allclose", full({}, allclose(omega, one_by_one, 1e-12, 1e-12))},
            {"attention_weights", w},
            {"context_vectors", matmul(w, x)}};
  };
  for (const char* id : {"s2.in13.emb0", "s2.in22.shape", "s2.in7.allclose", "s2.in8.shape",
                         "s2.in11.shape", "s2.derived.selfattn"})
    c[id] = words;
  const auto projected = [](const Numbers& n) -> Results {
    const auto in = [&](const char* name) { return n.input("s2.in27.ctx2", name); };
    const auto project = [&](const char* u) { return mT(matmul(in(u), mT(in("X")))); };
    const Tensor omega = matmul(project("U_query"), mT(project("U_key")));
    const Tensor omega_2 = select(omega, 0, 1), w = softmax(omega_2 / 4.0, 0);
    return {{"omega", omega},
            {"omega_2", omega_2},
            {"attention_weights_2", w},
            {"context_vector_2", matmul(w, project("U_value"))}};
  };
  for (const char* id : {"s2.in20.shape", "s2.in23.omega2", "s2.in26.w2", "s2.in27.ctx2"})
    c[id] = projected;
  const auto sample = [](const Numbers& n) -> Results {
    const Tensor x = n.input("s3.sa.out", "sample_input");
    const Attention a = by_hand(x, x, x, 0.5);
    return {{"output", a.output}, {"weights", a.pattern}};
  };
  c["s3.sa.out"] = c["s3.sa.w"] = sample;
  c["s3.derived.mha"] = three_readings;
  c["s3.mha.shape"] = [](const Numbers& n) -> Results {
    return {{"output", three_readings(n).at("correct_positions_sqrt_head_dim")}};
  };
}

void add_notebook_4(std::map<std::string, Compute>& c) {
  const auto fixed = [&c](const char* id, const char* name, auto f) {
    c[id] = [=](const Numbers&) -> Results { return {{name, f(Notebook4(2))}}; };
  };
  using N = Notebook4;
  const auto row = [](const Tensor& t, std::int64_t i) { return select(t, 0, i); };
  const auto p = [](const N& n) { return softmax(select(matmul(n.q, mT(n.k)), 0, 0), 0); };
  fixed("s4.in3.q1", "q1", [=](const N& n) { return row(n.q, 0); });
  fixed("s4.in4.k1", "k1", [=](const N& n) { return row(n.k, 0); });
  fixed("s4.in5.v1", "v1", [=](const N& n) { return row(n.v, 0); });
  fixed("s4.in6.k2", "k2", [=](const N& n) { return row(n.k, 1); });
  fixed("s4.in7.v2", "v2", [=](const N& n) { return row(n.v, 1); });
  fixed("s4.in8.C1", "C1", [=](const N& n) { return matmul(row(n.q, 0), row(n.k, 0)); });
  fixed("s4.in9.C2", "C2", [=](const N& n) { return matmul(row(n.q, 0), row(n.k, 1)); });
  fixed("s4.in10", "out", [=](const N& n) {
    return stack({matmul(row(n.q, 0), row(n.k, 0)), matmul(row(n.q, 0), row(n.k, 1))}, 0);
  });
  fixed("s4.in11.p_attn", "p_attn", p);
  fixed("s4.in12", "p", [](const N&) { return softmax(tensor({2, 1}, float64), 0); });
  fixed("s4.in13", "out", [=](const N& n) { return select(p(n), 0, 0) * row(n.v, 0); });
  fixed("s4.in14", "out", [=](const N& n) { return select(p(n), 0, 1) * row(n.v, 1); });
  fixed("s4.in15", "output", [=](const N& n) { return matmul(p(n), n.v); });
  fixed("s4.in16.Q", "Q", [](const N& n) { return n.q; });
  fixed("s4.in17.K", "K", [](const N& n) { return n.k; });
  fixed("s4.in18.V", "V", [](const N& n) { return n.v; });
  const auto attend = [](std::int64_t d, double scale) {
    return [=](const Numbers&) -> Results {
      const N n(d);
      const Attention a = by_hand(n.q, n.k, n.v, scale);
      CHECK(allclose(attention(n.q, n.k, n.v, {.scale = scale}), a.output, 1e-13, 0));
      return {{"scores", a.scores},
              {"C", select(a.scores, 0, 0)},
              {"output", a.output},
              {"p_attn", a.pattern}};
    };
  };
  c["s4.in20"] = attend(2, 1);
  c["s4.in24"] = c["s4.md.scores"] = attend(8, 1);
  c["s4.in26"] = c["s4.in26.printed_scores"] = attend(8, 1 / std::sqrt(8));
  c["s4.in61.size"] = c["s4.derived.ones"] = [](const Numbers&) -> Results {
    const Tensor q = ones({3, 8, 4}, float64), k = ones({3, 3, 8, 4}, float64);
    const Attention a = by_hand(q, k, k, 0.5);
    CHECK(near(a.output, ones_like(k), 1e-14));
    CHECK(near(a.pattern, full({3, 3, 8, 8}, 0.125, float64), 1e-15));
    return {{"o", a.output}, {"p_attn", a.pattern}};
  };
  c["s4.derived.broadcast"] = [](const Numbers&) -> Results {
    return {{"o", attention(counted({3, 8, 4}, 7, 2, 13, 6), counted({3, 3, 8, 4}, 5, 1, 17, 8),
                            counted({3, 3, 8, 4}, 11, 4, 19, 9))}};
  };
  c["s4.derived.mask"] = [](const Numbers&) -> Results {
    const N n(8);
    Results r;
    for (const auto& [suffix, keep] :
         {std::pair{"a", f64({{1, 0}})}, std::pair{"b", f64({{0, 0}})}}) {
      const Tensor scores = matmul(n.q, mT(n.k)) / std::sqrt(8);
      const Tensor pattern = softmax(masked_fill(scores, eq(keep, 0.0), -1e9), -1);
      r[std::string("p_") + suffix] = pattern;
      r[std::string("output_") + suffix] = matmul(pattern, n.v);
    }
    return r;
  };
}

std::map<std::string, Compute> notebook_computations() {
  std::map<std::string, Compute> c;
  add_notebook_0(c);
  add_notebooks_1_to_3(c);
  add_notebook_4(c);
  return c;
}

// Everything that an entry states of one result: shape, data within the stated tolerance, and our
// float64 reference to 1e-9.
void compare(const Json& want, const Tensor& got) {
  CHECK(got.shape() == Dims(want.at("shape").get<std::vector<std::int64_t>>()));
  const std::vector<double> g = values(got);
  const auto each = [&](const char* key, double tol_abs, double tol_rel) {
    REQUIRE(want[key].size() == g.size());
    double worst = 0;
    for (std::size_t i = 0; i < g.size(); ++i) {
      const Json& v = want[key][i];
      const double w = v.is_string() ? (v == "-inf"  ? -kInf
                                        : v == "inf" ? kInf
                                                     : std::nan(""))
                                     : v.get<double>();
      if (g[i] == w) continue;
      const double excess = std::abs(g[i] - w) - (tol_abs + tol_rel * std::abs(w));
      if (!(excess <= worst)) worst = std::isnan(excess) ? kInf : excess;
    }
    CAPTURE(key, tol_abs, tol_rel);
    CHECK(worst <= 0);
  };
  if (want.contains("data")) each("data", want.value("tol_abs", 0.0), want.value("tol_rel", 0.0));
  if (want.contains("reference")) each("reference", 1e-9, 1e-9);
}

TEST_CASE("every verified number of the notebooks") {
#ifdef HEED_SHARED_DIR
  const auto path = std::filesystem::path(HEED_SHARED_DIR) / "seeds/numbers.json";
#else
  const std::filesystem::path path;
#endif
  if (!std::filesystem::exists(path)) {
    WARN("skipped: no numbers.json (HEED_SHARED_DIR unset or without seeds/): '" << path.string()
                                                                                 << "'");
    return;
  }
  const Numbers numbers(Json::parse(std::ifstream(path)));
  const auto computations = notebook_computations();
  std::set<std::string> unknown;
  for (const auto& [id, compute] : computations) unknown.insert(id);
  int verified = 0;
  for (const auto& [id, entry] : numbers.entries()) {
    unknown.erase(id);
    if (entry.at("verified") != true) continue;
    CAPTURE(id, entry.at("what").get<std::string>());
    ++verified;
    if (kNotTensors.count(id)) continue;
    const auto found = computations.find(id);
    CHECK(found != computations.end());
    if (found == computations.end()) continue;
    const Results results = found->second(numbers);
    for (const auto& [name, want] : entry.at("expected").items()) {
      CAPTURE(name);
      if (want.is_array()) {  // [name, shape] of each result in turn
        for (std::size_t i = 0; i < want.size(); ++i)
          CHECK(results.at(std::to_string(i) + " " + want[i][0].get<std::string>()).shape() ==
                Dims(want[i][1].get<std::vector<std::int64_t>>()));
        continue;
      }
      REQUIRE(results.count(name) == 1);
      if (want.is_object())
        compare(want, results.at(name));
      else
        CHECK(results.at(name).item() == double(want.get<bool>()));
    }
  }
  CHECK(unknown.empty());
  CHECK(verified >= 60);
}

}  // namespace
