// Memory that a run needs, and memory that this machine has available.
#pragma once

#include <filesystem>
#include <string>

#include "nn/train/config.h"

namespace heed::nn {

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
/// Throws ValueError that states both numbers if a run needs more than available_memory(). The
/// estimate is a lower bound. It counts the weights, their gradients, AdamW's two moments, and what
/// a step stores: values of the residual stream, logits and, if the step checks invariants, arrays
/// of attention.
void check_run_memory(const RunConfig& config, std::int64_t vocab, std::int64_t classes);

/// Returns about how many bytes one shard of a step stores: values of the residual stream, logits,
/// gradients of the weights and, if the step checks invariants, arrays of attention.
double shard_bytes(const RunConfig& config, std::int64_t vocab, std::int64_t classes);

/// Returns the error message for a run that needs more bytes than are available, or "" if they
/// suffice.
std::string memory_shortage(double needed, double available);

/// Returns the largest number of bytes resident in memory (VmHWM) since the last call of
/// reset_resident_peak(), or since the process began.
double resident_peak();
/// Resets the peak to the bytes that are resident now. Returns false, and changes nothing, if Linux
/// does not allow it.
bool reset_resident_peak();

}  // namespace heed::nn
