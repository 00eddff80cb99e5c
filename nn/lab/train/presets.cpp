// Presets: the configurations that `heed train TASK` and `heed train --preset NAME` start from.
#include <algorithm>
#include <sstream>

#include "nn/io/nearest.h"
#include "nn/lab/train/config.h"

namespace heed::lab {

using namespace autograd;

namespace {

// A preset as the settings that differ from those of the preset `base` or, if `base` is "", from
// the default values of RunConfig. They have the names and values of config.toml.
struct Preset {
  std::string_view name, base;
  const char* settings;
  int seconds = 0;
};

constexpr Preset kPresets[] = {
    {"induction", "", "", 2},
    {"reverse", "",
     "task=reverse layers=1 heads=1 context=32 mlp=true bias=true positions=learned init=gpt2 "
     "batch=64 steps=200",
     1},
    {"copy", "reverse", "task=copy", 1},
    // With two heads, the loss of some seeds stays on a plateau: the model predicts one of the
    // values in the sequence, but not the value that belongs to the key.
    {"recall", "", "task=recall heads=4 batch=64 steps=500", 5},
    {"markov", "", "task=markov heads=1 d-model=32 context=100 steps=1000 schedule=cosine lr=5e-3",
     4},
    {"dyck", "", "task=dyck mlp=true bias=true steps=1300 schedule=cosine", 13},
    // A small version of the experiment of Nanda et al. 2023: one layer, all training sums in each
    // step, and weight decay. The model is smaller and has LayerNorms, so that training takes less
    // than a minute. The model has memorized the training sums at step 150, and generalizes at step
    // 1400 to 2050. With a weight decay of 1, it generalizes at step 850 already, but for some
    // seeds the accuracy has no plateau before step 850.
    {"modadd", "",
     "task=modadd layers=1 heads=4 context=3 mlp=true bias=true positions=learned init=gpt2 "
     "batch=1404 steps=2500 warmup=10 lr=2e-3 weight-decay=0.4 eval-every=100 eval-batch=1405",
     42},
    {"modadd-paper", "modadd",
     "task-modulus=113 task-train-share=0.3 d-model=128 lr=1e-3 weight-decay=1 batch=3830 "
     "steps=12000 eval-every=500 eval-batch=8939"},
    // The recipe of induction, with smaller initial weights and a smaller learning rate that
    // decays. They keep the final loss close to the loss of guessing.
    {"random", "", "task=random init=gpt2 schedule=cosine min-lr=1e-5 lr=3e-4", 2},
    // nanoGPT's CPU recipe for tiny shakespeare, as in its README: the output layer has the weights
    // of the embedding, no biases, beta2 0.99.
    {"shakespeare-cpu", "chargpt", "bias=false norm-bias=false tied=true beta2=0.99"},
    // Pre-norm GPTs with learned positions and biases, for measuring speed
    // (nn/lab/train/README.md).
    {"micro", "chargpt", "layers=1 heads=2 d-model=32 context=16 batch=16"},
    {"toy", "chargpt", "layers=2 d-model=64 batch=32"},
    {"chargpt", "",
     "task=text layers=4 heads=4 d-model=128 context=64 mlp=true bias=true positions=learned "
     "init=gpt2 batch=12 steps=2000 warmup=100 schedule=cosine lr=1e-3 min-lr=1e-4 beta2=0.95 "
     "weight-decay=0.1 eval-every=250 eval-batch=240"},
    {"small", "chargpt", "layers=6 heads=6 d-model=384 context=256 batch=8"}};

const Preset* find_preset(std::string_view name) {
  const auto* found = std::ranges::find(kPresets, name, &Preset::name);
  return found == std::end(kPresets) ? nullptr : found;
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& p : kPresets) names.emplace_back(p.name);
  return names;
}

std::string preset_of(const std::string& task) {
  return task == "text" || task == "lines" ? "shakespeare-cpu" : task;
}

RunConfig preset(std::string_view name) {
  const Preset* p = find_preset(name);
  if (!p) fail<ValueError>("preset", name_problem(name, preset_names()));
  RunConfig config = p->base.empty() ? RunConfig() : preset(p->base);
  const std::vector<Setting> settings = config.settings();
  std::istringstream words(p->settings);
  for (std::string key, value; std::getline(words, key, '=') && words >> value; words >> std::ws)
    find_setting(settings, key)->set(key, value);
  return config;
}

int preset_seconds(std::string_view name) {
  const Preset* p = find_preset(name);
  return p ? p->seconds : 0;
}

}  // namespace heed::lab
