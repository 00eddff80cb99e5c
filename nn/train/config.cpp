#include "nn/train/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "nn/io/nearest.h"
#include "nn/io/toml.h"
#include "nn/layers/init.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr int kMaxSteps = 1'000'000'000;

// A pre-norm GPT with learned positions and biases, as the speed presets of nn/train/README.md.
RunConfig gpt(std::int64_t layers, std::int64_t heads, std::int64_t d_model, std::int64_t context,
              std::int64_t batch) {
  RunConfig c;
  c.task = "text";
  c.layers = layers, c.heads = heads, c.d_model = d_model, c.context = context, c.batch = batch;
  c.mlp = c.bias = true;
  c.positions = "learned", c.init = "gpt2";
  c.steps = 2000, c.warmup = 100, c.schedule = "cosine";
  c.lr = 1e-3, c.min_lr = 1e-4, c.beta2 = 0.95, c.weight_decay = 0.1;
  c.eval_every = 250, c.eval_batch = 240;
  return c;
}

// nanoGPT's CPU recipe for tiny shakespeare (its README; tied head, no biases, beta2 0.99).
RunConfig shakespeare_cpu() {
  RunConfig c = gpt(4, 4, 128, 64, 12);
  c.bias = c.norm_bias = false, c.tied = true, c.beta2 = 0.99;
  return c;
}

RunConfig induction() { return {}; }  // the defaults of RunConfig are its recipe

RunConfig urn() {
  RunConfig c;
  c.task = "urn";
  c.layers = 1, c.heads = 1, c.d_model = 32, c.context = 64;
  c.mlp = c.bias = true;
  c.positions = "none", c.init = "torch";
  c.batch = 64, c.steps = 600, c.schedule = "cosine", c.lr = 4e-3, c.min_lr = 2e-4;
  c.eval_batch = 512;
  return c;
}

RunConfig reverse() {
  RunConfig c;
  c.task = "reverse";
  c.layers = 1, c.heads = 1, c.context = 32;
  c.mlp = c.bias = true;
  c.positions = "learned", c.init = "gpt2";
  c.batch = 64, c.steps = 200;
  return c;
}

RunConfig copy() {
  RunConfig c = reverse();
  c.task = "copy";
  return c;
}

struct Preset {
  std::string_view name;
  RunConfig config;
};
std::vector<Preset> presets() {
  return {{"induction", induction()},
          {"reverse", reverse()},
          {"copy", copy()},
          {"urn", urn()},
          {"shakespeare-cpu", shakespeare_cpu()},
          {"micro", gpt(1, 2, 32, 16, 16)},
          {"toy", gpt(2, 4, 64, 64, 32)},
          {"chargpt", gpt(4, 4, 128, 64, 12)},
          {"small", gpt(6, 6, 384, 256, 8)}};
}

template <class T>
std::string toml_value(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return '"' + value + '"';  // validate() has refused what would need an escape
  } else if constexpr (std::is_same_v<T, double>) {
    return fmt::format("{:.17g}", value);
  } else {
    return fmt::format("{}", value);
  }
}

void one_of(std::string_view key, const std::string& value,
            const std::vector<std::string>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
  fail<ValueError>(key, "'", value, "' is not one of ", fmt::format("{}", fmt::join(allowed, ", ")),
                   "; did you mean '", nearest(value, allowed), "'?");
}

template <class T>
void in_range(std::string_view key, T value, T low, T high) {
  check<ValueError>(value >= low && value <= high, key, "needs ", low, " to ", high, ", got ",
                    value);
}

// An absurd size fails here, not in malloc: weights with gradients and AdamW's two moments, what a
// step keeps of the residual stream, attention and logits.
void check_memory(const RunConfig& c, std::int64_t vocab, std::int64_t classes) {
  constexpr double kLimit = 16e9;
  const double bytes = c.dtype == "float64" ? 8 : 4;
  const auto d = double(c.d_model), layers = double(c.layers), tokens = double(c.batch * c.context);
  const double learned = c.positions == "learned" ? double(c.context) : 0;
  const double weights =
      4 * bytes * d *
      ((c.mlp ? 12 : 4) * d * layers + learned + double(vocab) + (c.tied ? 0 : double(classes)));
  const double scores = 3 * bytes * tokens * double(c.heads * c.context) * layers;
  const double stream = 12 * bytes * tokens * d * layers;
  const double logits = 3 * bytes * tokens * double(classes);
  const auto gb = [](double b) { return fmt::format("{:.3g} GB", b / 1e9); };
  check<ValueError>(weights < kLimit, "d-model", "a model of ", c.layers, " layers of d-model ",
                    c.d_model, " with ", vocab, " tokens needs about ", gb(weights),
                    " with its gradients and moments; the limit is 16 GB. Lower d-model or layers");
  const double all = weights + scores + stream + logits;
  check<ValueError>(all < kLimit, "context", "batch ", c.batch, " x context ", c.context, " x ",
                    c.layers, " layers of d-model ", c.d_model, " needs about ", gb(all),
                    "; the limit is 16 GB. Lower batch, context or layers");
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& p : presets()) names.emplace_back(p.name);
  return names;
}

RunConfig preset(std::string_view name) {
  for (const Preset& p : presets())
    if (p.name == name) return p.config;
  fail<ValueError>("preset", "there is no '", name, "'; did you mean '",
                   nearest(std::string(name), preset_names()),
                   "'? Presets: ", fmt::format("{}", fmt::join(preset_names(), ", ")));
}

void validate(const RunConfig& c) {
  using I = std::int64_t;
  in_range<I>("layers", c.layers, 1, 256);
  in_range<I>("heads", c.heads, 1, 1024);
  in_range<I>("d-model", c.d_model, 1, 16384);
  in_range<I>("context", c.context, 1, 65536);
  check<ValueError>(c.d_model % c.heads == 0, "d-model", c.d_model, " is not divisible by heads ",
                    c.heads, "; choose d-model as a multiple of heads");
  one_of("positions", c.positions, {"learned", "sinusoidal", "rope", "alibi", "none"});
  check<ValueError>(c.positions != "rope" || c.d_model / c.heads % 2 == 0, "positions",
                    "rope needs an even d-model / heads, got ", c.d_model / c.heads);
  one_of("norm", c.norm, {"pre", "post", "none"});
  one_of("form", c.form, {"packed_qkv", "separate", "packed_heads", "per_head"});
  one_of("init", c.init, {"fan-in", "torch", "gpt2"});
  one_of("dtype", c.dtype, {"float32", "float64"});
  one_of("schedule", c.schedule, {"constant", "linear", "cosine"});
  check<ValueError>(c.dropout >= 0 && c.dropout < 1, "dropout", "needs 0 to below 1, got ",
                    c.dropout);
  in_range<I>("batch", c.batch, 1, 65536);
  in_range<I>("steps", c.steps, 1, kMaxSteps);
  in_range<I>("warmup", c.warmup, 0, kMaxSteps);
  check<ValueError>(c.lr > 0 && c.lr <= 10, "lr", "needs above 0 to 10, got ", c.lr);
  check<ValueError>(c.min_lr >= 0 && c.min_lr <= c.lr, "min-lr", "needs 0 to lr = ", c.lr, ", got ",
                    c.min_lr);
  for (const auto& [key, beta] : {std::pair{"beta1", c.beta1}, std::pair{"beta2", c.beta2}})
    check<ValueError>(beta >= 0 && beta < 1, key, "needs 0 to below 1, got ", beta);
  check<ValueError>(c.eps > 0 && c.eps <= 1, "eps", "needs above 0 to 1, got ", c.eps);
  in_range("weight-decay", c.weight_decay, 0.0, 10.0);
  check<ValueError>(c.clip >= 0 && std::isfinite(c.clip), "clip", "needs >= 0, got ", c.clip);
  in_range<I>("seed", c.seed, 0, 0xffffffffLL);
  in_range<I>("eval-every", c.eval_every, 0, kMaxSteps);
  in_range<I>("eval-batch", c.eval_batch, 1, 1 << 20);
  in_range<I>("save-every", c.save_every, 0, kMaxSteps);
  RunConfig copy = c;
  copy.visit([]<class T>(std::string_view key, const T& value, std::string_view) {
    if constexpr (std::is_same_v<T, std::string>)
      check<ValueError>(toml_obstacle(value).empty(), key, "'", value, "' holds ",
                        toml_obstacle(value), ", which config.toml cannot keep; rename it");
  });
  check_memory(c, 1, 1);
}

std::string to_toml(const RunConfig& config, const std::vector<std::string>& extra) {
  std::string text;
  for (const std::string& line : extra) text += "# " + line + "\n";
  text += "[train]\n";
  RunConfig copy = config;
  copy.visit([&](std::string_view key, const auto& value, std::string_view) {
    text += fmt::format("{} = {}\n", key, toml_value(value));
  });
  return text;
}

RunConfig from_toml(const std::string& text) {
  RunConfig config;
  std::vector<std::string> keys;
  config.visit([&](std::string_view key, auto&, std::string_view) { keys.emplace_back(key); });
  std::vector<std::string> missing = keys;
  for (const TomlItem& item : read_toml(text, "config")) {
    if (item.key.empty()) continue;
    std::erase(missing, item.key);
    check<ValueError>(item.section == "train" && item.values.size() == 1, "config", "'", item.key,
                      "' in [", item.section, "] is not a [train] key with one value");
    bool known = false;
    config.visit([&]<class T>(std::string_view key, T& value, std::string_view) {
      if (key != item.key) return;
      known = true;
      const std::string& raw = item.values[0];
      if constexpr (std::is_same_v<T, std::string>) {
        value = raw;
      } else if constexpr (std::is_same_v<T, bool>) {
        check<ValueError>(raw == "true" || raw == "false", "config", key,
                          " needs true or false, got '", raw, "'");
        value = raw == "true";
      } else {
        const char* end = raw.data() + raw.size();
        const auto [stop, error] = std::from_chars(raw.data(), end, value);
        check<ValueError>(error == std::errc() && stop == end, "config", key,
                          " needs a number, got '", raw, "'");
      }
    });
    check<ValueError>(known, "config", "unknown key '", item.key, "'; did you mean '",
                      nearest(item.key, keys), "'?");
  }
  // A default in place of a lost value would be another model, often of the same shapes.
  check<ValueError>(missing.empty(), "config", "has no '", missing.empty() ? "" : missing[0], "'");
  return config;
}

Transformer make_model(const RunConfig& c, std::int64_t vocab, std::int64_t classes, Generator& g) {
  check_memory(c, vocab, classes);
  using enum AttentionForm;
  const AttentionForm form = c.form == "separate"       ? kSeparate
                             : c.form == "packed_heads" ? kPackedHeads
                             : c.form == "per_head"     ? kPerHead
                                                        : kPackedQKV;
  // Drawn as matrices, then stored as asked for: the form does not change the model.
  const AttentionForm drawn = form == kPackedHeads ? kPackedQKV
                              : form == kPerHead   ? kSeparate
                                                   : form;
  Generator replaced;  // fan-in and gpt2 draw every parameter anew: once, in order, from g
  Transformer model({.vocab = vocab,
                     .classes = classes,
                     .d_model = c.d_model,
                     .heads = c.heads,
                     .layers = c.layers,
                     .context = c.context,
                     .mlp = c.mlp,
                     .bias = c.bias,
                     .norm_bias = c.norm_bias,
                     .tied = c.tied,
                     .positions = c.positions == "learned"      ? Positions::kLearned
                                  : c.positions == "sinusoidal" ? Positions::kSinusoidal
                                  : c.positions == "rope"       ? Positions::kRope
                                  : c.positions == "alibi"      ? Positions::kAlibi
                                                                : Positions::kNone,
                     .norm = c.norm == "pre"    ? NormPlacement::kPre
                             : c.norm == "post" ? NormPlacement::kPost
                                                : NormPlacement::kNone,
                     .form = drawn,
                     .dropout = c.dropout,
                     .dtype = c.dtype == "float64" ? float64 : float32},
                    c.init == "torch" ? g : replaced);
  if (c.init == "gpt2") init::gpt2(parameters(model), c.layers, g);
  // "fan-in": matrices U(+-1/sqrt(fan_in)), embeddings N(0, 0.5), 0.5 being the variance.
  const auto bound = [](const Tensor& w) { return 1 / std::sqrt(double(w.size(1))); };
  if (c.init == "fan-in")
    for (const NamedTensor& p : parameters(model)) {
      if (p.name == "tok.weight" || p.name == "pos.weight")
        init::normal(p.tensor, 0, std::sqrt(0.5), g);
      else if (p.tensor.rank() == 2)
        init::uniform(p.tensor, -bound(p.tensor), bound(p.tensor), g);
    }
  return form == drawn ? std::move(model) : convert(std::move(model), form);
}

}  // namespace heed::nn
