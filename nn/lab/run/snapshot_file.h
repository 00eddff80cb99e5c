// Reading and writing of a Snapshot as a safetensors file, the metadata of all weights files, and
// the text of metrics.csv, which grows during training.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nn/io/safetensors.h"
#include "nn/lab/train/snapshot.h"

namespace heed::lab {

/// Returns the metadata entry `key`. Throws IoError that names the file if the entry is missing.
std::string metadata_of(const SafeTensors& file, const std::string& key);
/// Returns a sentence for the user if the file has no checksum, otherwise "".
std::string checksum_note(const SafeTensors& file);
/// Returns the metadata for a file with the weights of step `step`, if it is known.
std::map<std::string, std::string> weights_metadata(const Snapshot& snapshot,
                                                    std::optional<Index> step);

/// Returns the step and the evaluation of a row as JSON, with null for missing values.
std::string evaluation_json(const MetricsRow& row);
/// Returns the text of metrics.csv: a header and a line per row. NaN is written as an empty field.
/// Numbers have 17 significant digits and no column contains a time, so that equal runs have equal
/// files.
std::string metrics_csv(const std::vector<MetricsRow>& history);
/// Returns the line of one row, with its line break.
std::string metrics_line(const MetricsRow& row);

/// Writes a snapshot. `config` is the text of config.toml. The history is written as a
/// tensor, so that the header stays small. Throws IoError if the file cannot be written.
void write_snapshot(const Snapshot& snapshot, const std::string& config, const std::string& path);
/// Returns the snapshot of a file without config, tensors and history. Its last_evaluation is the
/// last row with an evaluation, even if the run is not finished. Throws IoError that names `path`
/// if an entry of the metadata is damaged. An entry that is missing leaves the default value.
Snapshot read_header(const std::map<std::string, std::string>& metadata, const std::string& path);
/// Returns the snapshot that write_snapshot() wrote, with the configuration `config`. The history
/// in the file may have fewer columns than kMetricsColumns; the missing ones become NaN. Throws
/// IoError if parts of the file are missing or contradict each other, or if a weight or a moment is
/// not finite.
Snapshot read_snapshot(const SafeTensors& file, const RunConfig& config);
/// Returns a sentence for each change since the file was written that affects the bits of results
/// (compiler, SIMD target), and one if the checksum is missing.
std::vector<std::string> snapshot_warnings(const SafeTensors& file);

}  // namespace heed::lab
