#include "nn/train/config.h"

#include <fmt/format.h>

#include <cmath>

#include "autograd/base/text.h"
#include "autograd/base/utf8.h"
#include "nn/io/nearest.h"
#include "nn/io/toml.h"
#include "nn/layers/init.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr Range kSteps{1, 1e9}, kStepsOrNone{0, 1e9}, kShare{0, 1, false, true};

// A pre-norm GPT with learned positions and biases, as the speed presets of nn/train/README.md.
RunConfig gpt(std::int64_t layers, std::int64_t heads, std::int64_t d_model, std::int64_t context,
              std::int64_t batch) {
  RunConfig c;
  c.task = "text";
  c.layers = layers, c.heads = heads, c.d_model = d_model, c.context = context, c.batch = batch;
  c.mlp = c.bias = true;
  c.positions = Positions::kLearned, c.init = Init::kGPT2;
  c.steps = 2000, c.warmup = 100, c.schedule = Decay::kCosine;
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
  c.positions = Positions::kNone, c.init = Init::kTorch;
  c.batch = 64, c.steps = 600, c.schedule = Decay::kCosine, c.lr = 4e-3, c.min_lr = 2e-4;
  c.eval_batch = 512;
  return c;
}

RunConfig reverse() {
  RunConfig c;
  c.task = "reverse";
  c.layers = 1, c.heads = 1, c.context = 32;
  c.mlp = c.bias = true;
  c.positions = Positions::kLearned, c.init = Init::kGPT2;
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

// An absurd size fails here, not in malloc: weights with gradients and AdamW's two moments, what a
// step keeps of the residual stream, attention and logits.
void check_memory(const RunConfig& c, std::int64_t vocab, std::int64_t classes) {
  constexpr double kLimit = 16e9;
  const double bytes = double(element_size(c.dtype));
  const auto d = double(c.d_model), layers = double(c.layers), tokens = double(c.batch * c.context);
  const double learned = c.positions == Positions::kLearned ? double(c.context) : 0;
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

std::vector<Setting> RunConfig::settings() {
  std::vector<Setting> list = {
      {"task", task, "NAME", "what to learn; see heed tasks"},
      {"text", text, "FILE", "UTF-8 file to learn from, for the task text"},
      {"layers", layers, {1, 256}, "blocks"},
      {"heads", heads, {1, 1024}, "attention heads per block; divides d-model"},
      {"d-model", d_model, {1, 16384}, "width of the residual stream"},
      {"context", context, {1, 65536}, "longest sequence, tokens"},
      {"mlp", mlp, "an MLP of 4 x d-model after each attention"},
      {"bias", bias, "biases in linear layers"},
      {"norm-bias", norm_bias, "biases in LayerNorms"},
      {"tied", tied, "the output layer is the token embedding"},
      {"positions", positions, "how the model knows where a token stands"},
      {"norm", norm, "LayerNorm before (pre) or after (post) each sublayer"},
      {"form", form, "how q, k, v are stored"},
      {"init", init, "how weights are drawn"},
      {"dropout", dropout, kShare, "probability"},
      {"dtype", dtype, "of weights and arithmetic"},
      {"batch", batch, {1, 65536}, "sequences per step"},
      {"steps", steps, kSteps, "optimizer steps"},
      {"warmup", warmup, kStepsOrNone, "steps of linear warm-up"},
      {"schedule", schedule, "course of the learning rate after the warm-up"},
      {"lr", lr, {0, 10, true}, "peak learning rate"},
      {"min-lr", min_lr, {0, 10}, "learning rate at the end of linear or cosine"},
      {"beta1", beta1, kShare, "decay of the mean of gradients"},
      {"beta2", beta2, kShare, "decay of the mean of squares"},
      {"eps", eps, {0, 1, true}, "added to the root"},
      {"weight-decay", weight_decay, {0, 10}, "decoupled, on matrices only"},
      {"clip", clip, {0}, "largest global gradient norm; 0: no clipping"},
      {"seed", seed, {0, 0xffffffff}, "of initialization, data and dropout, each its own stream"},
      {"eval-every", eval_every, kStepsOrNone, "steps between evaluations; 0: only at the end"},
      {"eval-batch",
       eval_batch,
       {1, 1 << 20},
       "sequences of an evaluation (text: windows; the last takes all)"},
      {"save-every", save_every, kStepsOrNone,
       "steps between checkpoints/NNNNNN.safetensors; 0: none"}};
  std::string group;
  for (Setting& s : list) {
    if (s.key == "task") group = "Data";
    if (s.key == "layers") group = "Model";
    if (s.key == "batch") group = "Optimization (AdamW)";
    if (s.key == "seed") group = "Run";
    s.group = group;
    if (s.kind == Setting::Kind::kSwitch) s.shown = s.get() == "true" ? "yes" : "no";
  }
  list[1].may_be_empty = true;
  return list;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& p : presets()) names.emplace_back(p.name);
  return names;
}

RunConfig preset(std::string_view name) {
  for (const Preset& p : presets())
    if (p.name == name) return p.config;
  fail<ValueError>("preset", name_problem(name, preset_names()));
}

void validate(const RunConfig& c) {
  RunConfig copy = c;
  for (const Setting& s : copy.settings())
    if (const std::string problem = s.problem(s.key, s.get()); !problem.empty())
      throw ValueError(problem);
  check<ValueError>(c.d_model % c.heads == 0, "d-model", c.d_model, " is not divisible by heads ",
                    c.heads, "; choose d-model as a multiple of heads");
  check<ValueError>(c.positions != Positions::kRope || c.d_model / c.heads % 2 == 0, "positions",
                    "rope needs an even d-model / heads, got ", c.d_model / c.heads);
  check<ValueError>(c.min_lr <= c.lr, "min-lr", "needs 0 to lr = ", c.lr, ", got ", c.min_lr);
  check<ValueError>(is_utf8(c.text), "text", "'", c.text,
                    "' is not UTF-8, which config.toml cannot keep; rename it");
  check_memory(c, 1, 1);
}

std::string to_toml(const RunConfig& config, const std::vector<std::string>& extra) {
  std::string text;
  for (const std::string& line : extra) text += "# " + line + "\n";
  text += "[train]\n";
  RunConfig copy = config;
  for (const Setting& s : copy.settings()) text += toml_line(s);
  return text;
}

RunConfig from_toml(const std::string& text, const std::string& file) {
  RunConfig config;
  const std::vector<Setting> settings = config.settings();
  std::vector<std::string> missing = keys(settings);
  for (const TomlItem& item : read_toml(text, file)) {
    check<ValueError>(item.section == "train", item.where, "'", item.key, "' in [", item.section,
                      "] is not a key of [train]");
    if (item.key.empty()) continue;
    setting_named(item, settings).set(item.where + ": " + item.key, item.values[0]);
    std::erase(missing, item.key);
  }
  // A default in place of a lost value would be another model, often of the same shapes.
  check<ValueError>(missing.empty(), file, "has no '", missing.empty() ? "" : missing[0], "'");
  return config;
}

Schedule schedule(const RunConfig& c) {
  return {.decay = c.schedule,
          .lr = c.lr,
          .min_lr = c.min_lr,
          .warmup_steps = c.warmup,
          .total_steps = c.steps};
}

Transformer make_model(const RunConfig& c, std::int64_t vocab, std::int64_t classes, Generator& g) {
  check_memory(c, vocab, classes);
  using enum AttentionForm;
  // Drawn as matrices, then stored as asked for: the form does not change the model.
  const AttentionForm drawn = c.form == kPackedHeads ? kPackedQKV
                              : c.form == kPerHead   ? kSeparate
                                                     : c.form;
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
                     .positions = c.positions,
                     .norm = c.norm,
                     .form = drawn,
                     .dropout = c.dropout,
                     .dtype = c.dtype},
                    c.init == Init::kTorch ? g : replaced);
  if (c.init == Init::kGPT2) init::gpt2(parameters(model), c.layers, g);
  // "fan-in": matrices U(+-1/sqrt(fan_in)), embeddings N(0, 0.5), 0.5 being the variance.
  const auto bound = [](const Tensor& w) { return 1 / std::sqrt(double(w.size(1))); };
  if (c.init == Init::kFanIn)
    for (const NamedTensor& p : parameters(model)) {
      if (p.name == "tok.weight" || p.name == "pos.weight")
        init::normal(p.tensor, 0, std::sqrt(0.5), g);
      else if (p.tensor.rank() == 2)
        init::uniform(p.tensor, -bound(p.tensor), bound(p.tensor), g);
    }
  return c.form == drawn ? std::move(model) : convert(std::move(model), c.form);
}

}  // namespace heed::nn
