// What a run needs of the machine's memory, and what the machine has.
#pragma once

#include <filesystem>
#include <functional>

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

/// Bytes resident in memory at the highest point so far (VmHWM), or while f runs; where Linux does
/// not let a process reset its mark, since the process began.
double resident_peak(const std::function<void()>& f = {});

}  // namespace heed::nn
