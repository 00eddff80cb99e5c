// Fuzz targets: functions that call heed's parsers with arbitrary bytes. The expected outcomes are
// a result or an exception of heed's own class Error. Everything else is a finding: another
// exception, a report of a sanitizer, a result that contradicts itself (std::logic_error), a crash,
// a timeout, or much memory.
#pragma once

#include <stdexcept>
#include <string_view>

namespace heed::fuzz {

///@{
/// Reads a file with these bytes as safetensors and JSON. A safetensors file is also read as
/// the state of a run, and the vocabulary in its metadata is used.
void safetensors(std::string_view bytes);
/// Reads the bytes as TOML and as the config.toml of a run.
void toml(std::string_view bytes);
/// Parses a text of the command line. The first byte selects the parser: einsum, heads, objectives,
/// prompts and whole command lines.
void language(std::string_view bytes);
///@}

/// A target and the name of its folders in corpus/ and regressions/.
struct Target {
  const char* name;
  void (*run)(std::string_view bytes);
};
/// All targets.
inline constexpr Target kTargets[] = {
    {"safetensors", safetensors}, {"toml", toml}, {"language", language}};

/// Throws std::logic_error, a finding, unless `holds`.
inline void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

}  // namespace heed::fuzz
