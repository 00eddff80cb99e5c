// A snapshot as a safetensors file, and the metadata that every file of weights has.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nn/io/safetensors.h"
#include "nn/train/snapshot.h"

namespace heed::nn {

/// The metadata entry `key`. IoError that names the file if there is none.
std::string metadata_of(const SafeTensors& file, const std::string& key);
/// The entry as a count. IoError that names the file unless it is a number from 0 on.
std::int64_t count_of(const SafeTensors& file, const std::string& key);
/// A sentence if the file has no checksum, else "".
std::string checksum_note(const SafeTensors& file);
/// The metadata of a file with the weights of this step.
std::map<std::string, std::string> weights_metadata(const Snapshot& snapshot, std::int64_t step);

/// Writes the tensors, the history and the random streams, all but the configuration. IoError.
void write_snapshot(const Snapshot& snapshot, const std::string& path);
/// The snapshot in a file that write_snapshot() wrote, for `config`. Its history may have fewer
/// columns than today's: the missing ones are NaN. IoError unless its parts fit together.
Snapshot read_snapshot(const SafeTensors& file, const RunConfig& config);
/// Returns a sentence for each change since the file was written that decides bits (compiler, SIMD
/// target), and one for a missing checksum.
std::vector<std::string> snapshot_warnings(const SafeTensors& file, const RunConfig& config);

}  // namespace heed::nn
