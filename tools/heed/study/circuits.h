// `heed study --circuits`: maps of heads and of pairs of heads, from the weights alone.
#pragma once

#include <string>
#include <vector>

#include "tools/heed/command_line/command.h"
#include "tools/heed/report/report.h"

namespace heed {

/// Options of --circuits.
struct CircuitArguments {
  bool circuits = false;      ///< selects the mode
  std::int64_t distance = 0;  ///< tokens from the key to the query, for RoPE
};
/// Returns the options as settings. Their values are stored in `a`, which must outlive them.
std::vector<nn::Setting> circuit_settings(CircuitArguments& a);

/// Computes the circuits of a run, and writes its files into `out` (circuit_files.h). Throws
/// UsageError for a distance that the model does not have.
Report study_circuits(const CircuitArguments& a, const Command& c, const std::string& run,
                      const std::string& weights, const std::string& out, bool overwrite,
                      const std::vector<std::string>& formats);
/// Returns the keys of the result of study_circuits().
Columns circuit_keys();

}  // namespace heed
