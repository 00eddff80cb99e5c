#include "tools/heed/command_line/unknown_option.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "nn/io/nearest.h"

namespace heed {
namespace {

// An option of heed and its names in nanoGPT, PyTorch, Lightning and transformers.
struct Foreign {
  std::string_view ours;    // heed's key, or a sentence if heed has no such option
  std::string_view theirs;  // the other names, separated by blanks, with - for _
};
constexpr Foreign kForeign[] = {
    {"layers", "n-layer n-layers num-layers num-hidden-layers"},
    {"heads", "n-head n-heads nhead num-heads num-attention-heads"},
    {"d-model", "n-embd hidden-size embed-dim"},
    {"context", "block-size n-ctx seq-len max-length"},
    {"batch", "batch-size"},
    {"steps", "max-iters max-steps num-steps iterations"},
    {"lr", "learning-rate"},
    {"schedule", "lr-scheduler lr-scheduler-type scheduler"},
    {"clip", "grad-clip max-grad-norm max-norm gradient-clip-val"},
    {"eval-every", "eval-interval eval-steps"},
    {"out", "out-dir output-dir"},
    {"heed continues a run with --resume, and starts a new one from its weights with --from",
     "init-from"},
    {"tokens", "max-new-tokens"},
    {"samples", "num-samples num-return-sequences"},
    {"heed counts training in --steps, because it draws batches without end",
     "epochs num-epochs max-epochs num-train-epochs"},
    {"heed runs only on the CPU; leave out this option", "device"},
    {"it was removed from heed; leave it out", "matmul"},
};

}  // namespace

std::string unknown_option(const std::string& argument, const std::string& command,
                           const std::vector<std::string>& keys) {
  const std::string given = argument.substr(0, argument.find('='));
  std::string name = given.substr(std::min(given.find_first_not_of('-'), given.size()));
  for (char& c : name)
    if (c == '_') c = '-';
  const auto has = [&](std::string_view key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  const std::string unknown = "unknown option " + given;
  if (has(name)) return unknown + "; write --" + name;
  for (const auto& [ours, theirs] : kForeign) {
    if (fmt::format(" {} ", theirs).find(fmt::format(" {} ", name)) == std::string::npos) continue;
    if (has(ours)) return fmt::format("{}; its name in heed is --{}", unknown, ours);
    if (ours.find(' ') != ours.npos && has("seed")) return fmt::format("{}: {}", unknown, ours);
  }
  const std::string near = name.size() > 1 ? nn::nearest(name, keys) : "";
  return fmt::format("{};{} see {} --help", unknown,
                     near.empty() ? "" : " did you mean --" + near + "?", command);
}

}  // namespace heed
