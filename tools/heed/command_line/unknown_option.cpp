#include "tools/heed/command_line/unknown_option.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "autograd/base/text.h"
#include "nn/io/nearest.h"

namespace heed {
namespace {

using Row = std::pair<std::string_view, std::string_view>;

// Options of nanoGPT, with - for _, and the keys of heed.
constexpr Row kForeignOptions[] = {
    {"n-layer", "layers"},           {"n-head", "heads"},        {"n-embd", "d-model"},
    {"block-size", "context"},       {"batch-size", "batch"},    {"max-iters", "steps"},
    {"learning-rate", "lr"},         {"warmup-iters", "warmup"}, {"grad-clip", "clip"},
    {"eval-interval", "eval-every"}, {"out-dir", "out"},         {"max-new-tokens", "tokens"}};

// Commands of other programs, and those of heed.
constexpr Row kForeignCommands[] = {{"sample", "generate"},
                                    {"finetune", "train --from"},
                                    {"gradient", "study or heed gradcheck"},
                                    {"test", "gradcheck"}};

// Commands and options that were removed from heed, and what to do instead.
constexpr Row kRemoved[] = {
    {"sweep", "train the runs in a loop (examples/sweeps), and compare them with heed compare"},
    {"score", "heed eval RUN --prompt TEXT shows the log probability and rank of each token"},
    {"runs", "heed info DIR lists the runs of a directory"},
    {"diff", "cmp compares the weights files of two runs"},
    {"verify", "each command verifies the checksum of a run that it reads"},
    {"--circuits", "examples/python computes QK and OV circuits with NumPy"},
    {"--clip-value", "--clip limits the global norm of the gradient"},
    {"--cut",
     "--block prevents queries from attending to keys; --show cells has what flows through cells"},
    {"--csv", "--json prints all numbers"},
    {"--dry-run", "--print-config prints the configuration, parameters and FLOP per token"},
    {"--overwrite", "each result has a new directory; --out names it"},
    {"--simd", "set HEED_SIMD in the environment"}};

// Returns the second text of the row that begins with `name`; "" if there is none.
std::string_view find_in(std::span<const Row> table, std::string_view name) {
  const auto row = std::ranges::find(table, name, &Row::first);
  return row == table.end() ? std::string_view() : row->second;
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
  const std::string ours(find_in(kForeignOptions, name));
  if (has(ours)) return fmt::format("{}; its name in heed is --{}", unknown, ours);
  if (const auto instead = find_in(kRemoved, "--" + name); !instead.empty())
    return fmt::format("{}: it was removed; {}", unknown, instead);
  // A guess has few other letters, begins with the name, or is a word of it: batch of first-batch.
  const auto is_near = [&](const std::string& key) {
    return key.starts_with(name) || 3 * nn::edit_distance(name, key) <= name.size() + 1 ||
           ("-" + name + "-").find("-" + key + "-") != std::string::npos;
  };
  std::vector<std::string> near_keys;
  std::ranges::copy_if(keys, std::back_inserter(near_keys), is_near);
  const std::string near = name.size() > 1 ? nn::nearest(name, near_keys) : "";
  return fmt::format("{};{} see {} --help", unknown,
                     near.empty() ? "" : " did you mean --" + near + "?", command);
}

std::string unknown_command(const std::string& name, const std::vector<std::string>& commands) {
  if (const auto instead = find_in(kRemoved, name); !instead.empty())
    return fmt::format("unknown command '{}': it was removed; {}", name, instead);
  const std::string_view ours = find_in(kForeignCommands, name);
  return fmt::format("unknown command '{}'; did you mean heed {}? Commands: {}", name,
                     ours.empty() ? nn::nearest(name, commands) : ours, heed::join(commands));
}

}  // namespace heed
