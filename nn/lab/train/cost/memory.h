// Memory that a run needs, and memory that this machine has available.
#pragma once

#include <filesystem>
#include <string>

#include "nn/lab/train/config.h"

namespace heed::lab {

/// Returns the bytes that this process can still allocate: MemAvailable of Linux, or less if a
/// cgroup (v1 or v2) of a container, a systemd unit or a batch job has a lower limit. Returns
/// infinity if neither number exists. `root` is the directory that contains /proc and /sys.
double available_memory(const std::filesystem::path& root = "/");

/// Returns the number of elements of the matrices of a model, with its embeddings and without
/// biases and norms.
double weight_count(const Transformer::Options& model, std::int64_t vocab, std::int64_t classes);
/// Returns the bytes of these matrices.
double weight_bytes(const Transformer::Options& model, std::int64_t vocab, std::int64_t classes);

/// Throws ValueError that states both numbers if the weights of the model need more than
/// available_memory(). A model that is much too large therefore fails here and not in malloc. The
/// estimate is a lower bound.
void check_model_memory(const RunConfig& config, std::int64_t vocab, std::int64_t classes);
/// Returns a lower bound of the bytes that a run needs: the weights, their gradients, AdamW's two
/// moments, and what a step stores: values of the residual stream and logits.
double run_bytes(const RunConfig& config, std::int64_t vocab, std::int64_t classes);
/// Throws ValueError that states both numbers if run_bytes() is more than available_memory().
void check_run_memory(const RunConfig& config, std::int64_t vocab, std::int64_t classes);

/// Returns about how many bytes one shard of a step stores: values of the residual stream, logits
/// and gradients of the weights.
double shard_bytes(const RunConfig& config, std::int64_t vocab, std::int64_t classes);

/// Returns the largest number of bytes resident in memory (VmHWM) since the process began.
double resident_peak();

}  // namespace heed::lab
