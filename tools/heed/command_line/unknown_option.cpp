#include "tools/heed/command_line/unknown_option.h"

#include <algorithm>
#include <string_view>

#include "nn/io/nearest.h"

namespace heed {
namespace {

struct Foreign {
  const char* theirs;  // with - for _
  const char* ours;    // an option, or a sentence
};
constexpr Foreign kForeign[] = {
    // nanoGPT
    {"n-layer", "layers"},
    {"n-head", "heads"},
    {"n-embd", "d-model"},
    {"block-size", "context"},
    {"batch-size", "batch"},
    {"max-iters", "steps"},
    {"learning-rate", "lr"},
    {"warmup-iters", "warmup"},
    {"eval-interval", "eval-every"},
    {"eval-iters", "eval-batch"},
    {"grad-clip", "clip"},
    {"out-dir", "out"},
    {"init-from", "resume"},
    {"dataset", "text"},
    {"max-new-tokens", "tokens"},
    {"num-samples", "samples"},
    {"start", "prompt"},
    // PyTorch, Lightning, transformers
    {"n-layers", "layers"},
    {"num-layers", "layers"},
    {"num-hidden-layers", "layers"},
    {"n-heads", "heads"},
    {"nhead", "heads"},
    {"num-heads", "heads"},
    {"num-attention-heads", "heads"},
    {"hidden-size", "d-model"},
    {"embed-dim", "d-model"},
    {"n-ctx", "context"},
    {"seq-len", "context"},
    {"max-length", "context"},
    {"max-steps", "steps"},
    {"num-steps", "steps"},
    {"iterations", "steps"},
    {"lr-scheduler", "schedule"},
    {"lr-scheduler-type", "schedule"},
    {"scheduler", "schedule"},
    {"warmup-steps", "warmup"},
    {"max-grad-norm", "clip"},
    {"max-norm", "clip"},
    {"gradient-clip-val", "clip"},
    {"wd", "weight-decay"},
    {"adam-epsilon", "eps"},
    {"eval-steps", "eval-every"},
    {"save-steps", "save-every"},
    {"num-workers", "threads"},
    {"num-threads", "threads"},
    {"output-dir", "out"},
    {"manual-seed", "seed"},
    {"resume-from-checkpoint", "resume"},
    {"checkpoint", "resume"},
    {"fast-dev-run", "dry-run"},
    {"overfit-batches", "overfit-batch"},
    {"dropout-p", "dropout"},
    {"temp", "temperature"},
    {"gradient-accumulation-steps", "accumulate"},
    {"accumulate-grad-batches", "accumulate"},
    {"early-stopping-patience", "patience"},
    {"num-return-sequences", "samples"},
    {"gradient-clip-value", "clip-value"},
    // no counterpart
    {"epochs", "training is counted in --steps, and data is drawn without end"},
    {"num-epochs", "training is counted in --steps, and data is drawn without end"},
    {"max-epochs", "training is counted in --steps, and data is drawn without end"},
    {"num-train-epochs", "training is counted in --steps, and data is drawn without end"},
    {"lr-decay-iters", "the learning rate decays over --steps"},
    {"decay-lr", "the course of the learning rate is --schedule"},
    {"device", "heed runs on the CPU; leave it out"},
    {"compile", "heed is compiled; leave it out"},
};

}  // namespace

std::string unknown_option(const std::string& argument, const std::string& command,
                           const std::vector<std::string>& keys) {
  const std::string given = argument.substr(0, argument.find('='));
  std::string name = given.substr(std::min(given.find_first_not_of('-'), given.size()));
  for (char& c : name)
    if (c == '_') c = '-';
  const auto has = [&](const std::string& key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  const std::string help = "see heed " + command + (command.empty() ? "" : " ") + "--help";
  if (has(name)) return "there is no " + given + "; write --" + name;
  for (const Foreign& f : kForeign) {
    if (name != f.theirs) continue;
    if (has(f.ours)) return "there is no " + given + "; here it is --" + f.ours;
    if (std::string_view(f.ours).find(' ') != std::string_view::npos && has("seed"))
      return "there is no " + given + ": " + f.ours;
  }
  const std::string near = name.size() > 1 ? nn::nearest(name, keys) : "";
  if (near.empty()) return "there is no " + given + "; " + help;
  return "there is no " + given + "; did you mean --" + near + "? " + help;
}

}  // namespace heed
