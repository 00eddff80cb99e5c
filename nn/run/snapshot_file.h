// Reading and writing of a Snapshot as a safetensors file, and the metadata of all weights files.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nn/io/safetensors.h"
#include "nn/train/snapshot.h"

namespace heed::nn {

/// Returns the metadata entry `key`. Throws IoError that names the file if the entry is missing.
std::string metadata_of(const SafeTensors& file, const std::string& key);
/// Returns the metadata entry `key` as a number. Throws IoError that names the file unless the
/// entry is a non-negative integer.
std::int64_t count_of(const SafeTensors& file, const std::string& key);
/// Returns a sentence for the user if the file has no checksum, otherwise "".
std::string checksum_note(const SafeTensors& file);
/// Returns the metadata for a file with the weights of step `step`, if it is known.
std::map<std::string, std::string> weights_metadata(const Snapshot& snapshot,
                                                    std::optional<std::int64_t> step);

///@{
/// Keys in the metadata of a finished run. The value of kFinishedKey is "yes", and the value of
/// kResultKey is the JSON of the result.
inline constexpr const char *kFinishedKey = "finished", *kResultKey = "result";
///@}
/// Returns the step and the evaluation of a row as JSON, with null for missing values.
std::string evaluation_json(const MetricsRow& row);
/// Returns the last row with an evaluation, from the metadata of a saved snapshot; nothing if there
/// is none. Throws IoError that names `path` if the entry is damaged.
std::optional<MetricsRow> last_evaluation_in(const std::map<std::string, std::string>& metadata,
                                             const std::string& path);

/// Writes a snapshot. `config` is the text of config.toml. The history is written as a
/// tensor, so that the header stays small. Throws IoError if the file cannot be written.
void write_snapshot(const Snapshot& snapshot, const std::string& config, const std::string& path);
/// Returns the snapshot that write_snapshot() wrote, with the configuration `config`. The history
/// in the file may have fewer columns than kMetricsColumns; the missing ones become NaN. Throws
/// IoError if parts of the file are missing or contradict each other.
Snapshot read_snapshot(const SafeTensors& file, const RunConfig& config);
/// Returns a sentence for each change since the file was written that affects the bits of results
/// (compiler, SIMD target), and one if the checksum is missing.
std::vector<std::string> snapshot_warnings(const SafeTensors& file);

}  // namespace heed::nn
