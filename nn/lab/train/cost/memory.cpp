#include "nn/lab/train/cost/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "autograd/base/error.h"
#include "autograd/base/text.h"

namespace heed::lab {

using namespace autograd;
namespace fs = std::filesystem;

namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

std::string gigabytes(double bytes) { return fmt::format("{:.3g} GB", bytes / 1e9); }

// Returns the number after `key`, such as "MemAvailable:", in a file. If `key` is empty, the file
// contains only a number. Returns infinity if the number is missing.
double number_in(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string word; in >> word;)
    if (key.empty() || word == key) {
      if (!key.empty()) in >> word;
      return parse_number<double>(word).value_or(kUnlimited);
    }
  return kUnlimited;
}

// Returns the bytes that the limits of a cgroup, and of the cgroups above it, still allow.
double left_in(fs::path group, const fs::path& top, const char* limit, const char* used) {
  double least = kUnlimited;
  for (;; group = group.parent_path()) {
    const double most = number_in(group / limit, ""), now = number_in(group / used, "");
    if (std::isfinite(most)) least = std::min(least, most - (std::isfinite(now) ? now : 0));
    if (group == top || !group.has_relative_path()) return std::max(least, 0.0);
  }
}

// Returns a text such as "a model of 2 layers of d-model 64 with 33 tokens needs about 1.2 GB".
std::string model_text(const Transformer::Options& m, std::int64_t vocab, double bytes) {
  return "a model of " + std::to_string(m.layers) + " layers of d-model " +
         std::to_string(m.attention.d_model) + " with " + std::to_string(vocab) +
         " tokens needs about " + gigabytes(bytes);
}

}  // namespace

double weight_count(const Transformer::Options& m, std::int64_t vocab, std::int64_t classes) {
  const MultiHeadAttention::Options a = m.attention.checked();
  const double rows = double((a.heads + a.kv_heads) * (a.d_head + a.d_value));  // of q, k, v and o
  const double matrices = m.activation == Activation::kSwiglu ? 3 : 2;
  const double mlp = m.mlp ? matrices * m.mlp_ratio * double(a.d_model) : 0;
  const double learned = m.positions == Positions::kLearned ? double(m.context) : 0;
  return double(a.d_model) * ((rows + mlp) * double(m.layers) + learned + double(vocab) +
                              (m.tied ? 0 : double(classes)));
}

double weight_bytes(const Transformer::Options& m, std::int64_t vocab, std::int64_t classes) {
  return double(element_size(m.attention.dtype)) * weight_count(m, vocab, classes);
}

double available_memory(const fs::path& root) {
  double least = 1024 * number_in(root / "proc/meminfo", "MemAvailable:");
  // A line is like "0::/a/b" for cgroup v2, or like "5:memory:/a/b" for v1.
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path inside = fs::path(line.substr(second + 1)).relative_path();
    const fs::path v2 = root / "sys/fs/cgroup", v1 = v2 / "memory";
    if (controllers.empty())
      least = std::min(least, left_in(v2 / inside, v2, "memory.max", "memory.current"));
    if (controllers.find("memory") != std::string::npos)
      least = std::min(least,
                       left_in(v1 / inside, v1, "memory.limit_in_bytes", "memory.usage_in_bytes"));
  }
  return least;
}

void check_model_memory(const RunConfig& c, std::int64_t vocab, std::int64_t classes) {
  const double limit = available_memory(), weights = weight_bytes(c.model, vocab, classes);
  check<ValueError>(weights < limit, "`d-model`", model_text(c.model, vocab, weights), "; ",
                    gigabytes(limit), " of memory are available; lower `d-model` or `layers`");
}

double shard_bytes(const RunConfig& c, std::int64_t vocab, std::int64_t classes) {
  const Transformer::Options& m = c.model;
  const auto layers = double(m.layers), context = double(m.context);
  const double bytes = double(element_size(m.attention.dtype));
  const double tokens = double(c.batch / std::max<std::int64_t>(1, c.shards)) * context;
  const double stream = 8 * bytes * tokens * double(m.attention.d_model) * layers;
  const double logits = 3 * bytes * tokens * double(classes);
  return weight_bytes(m, vocab, classes) + stream + logits;
}

double run_bytes(const RunConfig& c, std::int64_t vocab, std::int64_t classes) {
  return 3 * weight_bytes(c.model, vocab, classes) + shard_bytes(c, vocab, classes);
}

void check_run_memory(const RunConfig& c, std::int64_t vocab, std::int64_t classes) {
  const Transformer::Options& m = c.model;
  const double limit = available_memory(), weights = 4 * weight_bytes(m, vocab, classes);
  check<ValueError>(weights < limit, "`d-model`", model_text(m, vocab, weights),
                    " with its gradients and moments; ", gigabytes(limit),
                    " of memory are available; lower `d-model` or `layers`");
  const double all = run_bytes(c, vocab, classes);
  check<ValueError>(all < limit, "`context`", "batch ", c.batch, " x context ", m.context, " x ",
                    m.layers, " layers of d-model ", m.attention.d_model, " needs about ",
                    gigabytes(all), "; ", gigabytes(limit),
                    " of memory are available; lower `batch`, `context` or `layers`, or raise "
                    "`shards`");
}

double resident_peak() { return 1024 * number_in("/proc/self/status", "VmHWM:"); }

}  // namespace heed::lab
