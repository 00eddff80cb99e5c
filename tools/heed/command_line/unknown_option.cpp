#include "tools/heed/command_line/unknown_option.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "autograd/base/text.h"
#include "nn/io/nearest.h"
#include "nn/run/run_folder.h"

namespace heed {

using nn::RunFolder;

namespace {

// A word of nanoGPT, PyTorch, transformers or argparse, and what to write instead.
struct Foreign {
  std::string theirs;  // names, separated by blanks, with - for _
  std::string ours;    // key of an option of heed, command of heed, or a sentence
};

// Returns the entry for a name, or "" if there is none.
std::string ours_for(const std::vector<Foreign>& table, const std::string& name) {
  for (const auto& [theirs, ours] : table)
    if (fmt::format(" {} ", theirs).find(fmt::format(" {} ", name)) != std::string::npos)
      return ours;
  return "";
}

const std::vector<Foreign>& foreign_options() {
  static const std::vector<Foreign> table = {
      {"n-layer num-layers", "layers"},
      {"n-head num-heads nhead", "heads"},
      {"n-embd hidden-size", "d-model"},
      {"block-size", "context"},
      {"batch-size", "batch"},
      {"max-iters max-steps", "steps"},
      {"learning-rate", "lr"},
      {"warmup-iters warmup-steps", "warmup"},
      {"lr-scheduler lr-scheduler-type", "schedule"},
      {"lr-decay-iters", "schedule-steps"},
      {"grad-clip max-grad-norm", "clip"},
      {"eval-interval eval-steps", "eval-every"},
      {"out-dir output-dir", "out"},
      {"max-new-tokens", "tokens"},
      {"num-samples", "samples"},
      {"gradient-accumulation-steps",
       "in nanoGPT the batch grows; for 4 parts of 8 sequences, write --batch 32 --accumulate 4"},
      {"eval-iters", "it counts batches, and --eval-batch counts sequences"},
      {"eval-only", "heed eval RUN evaluates a run"},
      {"wandb-log wandb-project log-interval",
       fmt::format("each step is a row of {}", RunFolder::kMetrics)},
      {"always-save-checkpoint", "--save-every N saves the weights every N steps"},
      {"init-from", "--resume continues a run, and --from starts a new one from its weights"},
      {"epochs num-train-epochs", "batches are drawn without end; give a number of --steps"},
      {"device", "heed runs only on the CPU; leave it out"},
      {"compile", "heed is compiled already; leave it out"},
      {"matmul", "it was removed from heed; leave it out"}};
  return table;
}

}  // namespace

std::string unknown_option(const std::string& argument, const std::string& command,
                           const std::vector<std::string>& keys) {
  const std::string given = argument.substr(0, argument.find('='));
  std::string name = given.substr(std::min(given.find_first_not_of('-'), given.size()));
  for (char& c : name)
    if (c == '_') c = '-';
  const auto has = [&](const std::string& key) { return std::ranges::count(keys, key) > 0; };
  const std::string unknown = "unknown option " + given;
  if (has(name)) return unknown + "; write --" + name;
  const std::string ours = ours_for(foreign_options(), name);
  if (has(ours)) return fmt::format("{}; its name in heed is --{}", unknown, ours);
  if (ours.find(' ') != ours.npos) return fmt::format("{}: {}", unknown, ours);
  const std::string near = name.size() > 1 ? nn::nearest(name, keys) : "";
  return fmt::format("{};{} see {} --help", unknown,
                     near.empty() ? "" : " did you mean --" + near + "?", command);
}

std::string unknown_command(const std::string& name, const std::vector<std::string>& commands) {
  static const std::vector<Foreign> table = {{"sample", "generate"},
                                             {"finetune fine-tune", "train --from"},
                                             {"gradient gradients grad", "study or heed gradcheck"},
                                             {"test", "gradcheck"}};
  const std::string ours = ours_for(table, name);
  return fmt::format("unknown command '{}'; did you mean heed {}? Commands: {}", name,
                     ours.empty() ? nn::nearest(name, commands) : ours, heed::join(commands));
}

}  // namespace heed
