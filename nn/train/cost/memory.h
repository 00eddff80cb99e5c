// What a run needs of the machine's memory, and what the machine has.
#pragma once

#include <filesystem>
#include <string>

#include "nn/train/config.h"

namespace heed::nn {

/// Bytes that this process can still take: what Linux calls MemAvailable, or less where a cgroup
/// (v2 or v1: a container, a systemd unit, a batch job) sets a limit. Infinity where neither says.
/// `root`: where /proc and /sys are.
double available_memory(const std::filesystem::path& root = "/");

// An absurd size fails here, not in malloc: ValueError with both numbers for what is more than
// available_memory(). Rough figures, rather too low.
/// The weights of a model alone.
void check_model_memory(const RunConfig& config, std::int64_t vocab, std::int64_t classes);
/// A run: weights with gradients and AdamW's two moments, what a step keeps of the residual stream
/// and logits.
void check_run_memory(const RunConfig& config, std::int64_t vocab, std::int64_t classes);

/// Returns the error of a run that needs more bytes than are available, or "".
std::string memory_shortage(double needed, double available);

/// Bytes resident in memory at the highest point (VmHWM) since the mark was reset, or the process
/// began.
double resident_peak();
/// Resets that mark to what is resident now. False, and it stays, where Linux does not let a
/// process do so.
bool reset_resident_peak();

}  // namespace heed::nn
