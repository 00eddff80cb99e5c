// Presets: the configurations that `heed train TASK` and `heed train --preset NAME` start from.
#include <vector>

#include "nn/io/nearest.h"
#include "nn/train/config.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Returns a pre-norm GPT with learned positions and biases. The presets for measuring speed
// (nn/train/README.md) are of this kind.
RunConfig gpt(std::int64_t layers, std::int64_t heads, std::int64_t d_model, std::int64_t context,
              std::int64_t batch) {
  RunConfig c;
  c.task = "text";
  c.model.layers = layers, c.model.attention.heads = heads, c.model.attention.d_model = d_model,
  c.model.context = context, c.batch = batch;
  c.model.mlp = c.model.attention.bias = true;
  c.model.positions = Positions::kLearned, c.init = Init::kGPT2;
  c.steps = 2000, c.warmup = 100, c.schedule = Decay::kCosine;
  c.lr = 1e-3, c.min_lr = 1e-4, c.beta2 = 0.95, c.weight_decay = 0.1;
  c.eval_every = 250, c.eval_batch = 240;
  return c;
}

// Returns nanoGPT's CPU recipe for tiny shakespeare, as in its README: the output layer has the
// weights of the embedding, no biases, beta2 0.99.
RunConfig shakespeare_cpu() {
  RunConfig c = gpt(4, 4, 128, 64, 12);
  c.model.attention.bias = c.model.norm_bias = false, c.model.tied = true, c.beta2 = 0.99;
  return c;
}

// Returns the recipe of the transformer in Karpathy's makemore for names.txt: PyTorch's default
// initial weights, no schedule, no clipping.
RunConfig names() {
  RunConfig c;
  c.task = "lines";
  c.model.layers = 4, c.model.attention.heads = 4, c.model.attention.d_model = 64,
  c.model.context = 16;
  c.model.mlp = c.model.attention.bias = true, c.model.activation = Activation::kGeluTanh;
  c.model.positions = Positions::kLearned, c.init = Init::kTorch;
  c.batch = 32, c.steps = 3000, c.warmup = 0;
  c.lr = 5e-4, c.beta2 = 0.99, c.weight_decay = 0.01, c.clip = 0;
  c.eval_every = 500, c.eval_batch = 1000;
  return c;
}

RunConfig induction() { return {}; }  // the default values of RunConfig are those of induction

RunConfig urn() {
  RunConfig c;
  c.task = "urn";
  c.model.layers = 1, c.model.attention.heads = 1, c.model.attention.d_model = 32,
  c.model.context = 64;
  c.model.mlp = c.model.attention.bias = true;
  c.model.positions = Positions::kNone, c.init = Init::kTorch;
  c.batch = 64, c.steps = 600, c.schedule = Decay::kCosine, c.lr = 4e-3, c.min_lr = 2e-4;
  c.eval_batch = 512;
  return c;
}

RunConfig recall() {
  RunConfig c;
  c.task = "recall";
  // With two heads, the loss of some seeds stays on a plateau: the model predicts one of the values
  // in the sequence, but not the value that belongs to the key.
  c.model.attention.heads = 4;
  c.batch = 64, c.steps = 500;
  return c;
}

RunConfig markov() {
  RunConfig c;
  c.task = "markov";
  c.model.attention.heads = 1, c.model.attention.d_model = 32, c.model.context = 100;
  c.steps = 1000, c.schedule = Decay::kCosine, c.lr = 5e-3;
  return c;
}

// Returns markov() with small initial weights and a small learning rate. They make a plateau of the
// loss visible, on which the model predicts each symbol with its frequency (unigram rule).
RunConfig markov_phases() {
  RunConfig c = markov();
  c.task_parameters = {{"symbols", "3"}};
  c.model.attention.d_model = 16, c.init = Init::kGPT2;
  c.steps = 1500, c.schedule = Decay::kConstant, c.lr = 2e-3;
  return c;
}

RunConfig dyck() {
  RunConfig c;
  c.task = "dyck";
  c.model.mlp = c.model.attention.bias = true;
  c.steps = 1300, c.schedule = Decay::kCosine;
  return c;
}

// Returns a small version of the experiment of Nanda et al. 2023: one layer, all training sums in
// each step, and weight decay. The model is smaller and has LayerNorms, so that training takes less
// than a minute. The model has memorized the training sums at step 150, and generalizes at step
// 1400 to 2050. With a weight decay of 1, it generalizes at step 850 already, but for some
// seeds the accuracy has no plateau before step 850.
RunConfig modadd() {
  RunConfig c;
  c.task = "modadd";
  c.model.layers = 1, c.model.attention.heads = 4, c.model.context = 3;
  c.model.mlp = c.model.attention.bias = true;
  c.model.positions = Positions::kLearned, c.init = Init::kGPT2;
  c.batch = 1404, c.steps = 2500, c.warmup = 10;
  c.lr = 2e-3, c.weight_decay = 0.4;
  c.eval_every = 100, c.eval_batch = 1405;
  return c;
}

RunConfig modadd_paper() {
  RunConfig c = modadd();
  c.task_parameters = {{"modulus", "113"}, {"train-share", "0.3"}};
  c.model.attention.d_model = 128, c.lr = 1e-3, c.weight_decay = 1;
  c.batch = 3830, c.steps = 12000, c.eval_every = 500, c.eval_batch = 8939;
  return c;
}

RunConfig reverse() {
  RunConfig c;
  c.task = "reverse";
  c.model.layers = 1, c.model.attention.heads = 1, c.model.context = 32;
  c.model.mlp = c.model.attention.bias = true;
  c.model.positions = Positions::kLearned, c.init = Init::kGPT2;
  c.batch = 64, c.steps = 200;
  return c;
}

RunConfig copy() {
  RunConfig c = reverse();
  c.task = "copy";
  return c;
}

// Returns the model gpt-nano of minGPT, with a recipe for small tasks. Dropout is left out, because
// these small tasks do not need it.
RunConfig gpt_nano(const char* task, std::int64_t context) {
  RunConfig c = gpt(3, 3, 48, context, 64);
  c.task = task;
  c.steps = 1000, c.warmup = 20, c.lr = 1e-3, c.min_lr = 1e-5;
  c.eval_every = 100, c.eval_batch = 512;
  return c;
}

// Returns the recipe of adder. After 1000 steps, 3 of 10 seeds give wrong answers to more than 5 %
// of the held-out sums; after 1500 steps, none does.
RunConfig adder() {
  RunConfig c = gpt_nano("adder", 6);
  c.steps = 1500;
  return c;
}

// Returns the recipe of induction for random tokens, with smaller initial weights and learning
// rates. They keep the final loss close to the loss of guessing.
RunConfig random_tokens() {
  RunConfig c;
  c.task = "random";
  c.init = Init::kGPT2;
  c.schedule = Decay::kCosine, c.min_lr = 1e-5, c.lr = 3e-4;
  return c;
}

struct Preset {
  std::string_view name;
  RunConfig config;
  int seconds = 0;
};
std::vector<Preset> presets() {
  return {{"induction", induction(), 2},
          {"reverse", reverse(), 1},
          {"copy", copy(), 1},
          {"urn", urn(), 3},
          {"recall", recall(), 5},
          {"markov", markov(), 4},
          {"markov-phases", markov_phases(), 4},
          {"dyck", dyck(), 13},
          {"modadd", modadd(), 42},
          {"modadd-paper", modadd_paper()},
          {"sort", gpt_nano("sort", 11), 6},
          {"adder", adder(), 4},
          {"random", random_tokens(), 2},
          {"shakespeare-cpu", shakespeare_cpu()},
          {"names", names()},
          {"micro", gpt(1, 2, 32, 16, 16)},
          {"toy", gpt(2, 4, 64, 64, 32)},
          {"chargpt", gpt(4, 4, 128, 64, 12)},
          {"small", gpt(6, 6, 384, 256, 8)}};
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& p : presets()) names.emplace_back(p.name);
  return names;
}

std::string preset_of(const std::string& task) {
  return task == "text" ? "shakespeare-cpu" : task == "lines" ? "names" : task;
}

RunConfig preset(std::string_view name) {
  for (const Preset& p : presets())
    if (p.name == name) return p.config;
  fail<ValueError>("preset", name_problem(name, preset_names()));
}

int preset_seconds(std::string_view name) {
  for (const Preset& p : presets())
    if (p.name == name) return p.seconds;
  return 0;
}

}  // namespace heed::nn
