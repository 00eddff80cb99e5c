// Paths of files that tests read: files in tests/data, and texts that are not part of this
// repository for reasons of copyright.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace heed::testing {

/// Returns the path of a file in tests/data.
inline std::filesystem::path data_file(const char* name) {
  return std::filesystem::path(HEED_SOURCE_DIR) / "tests/data" / name;
}

/// Returns the path of a text in the directory that the environment variable HEED_TEST_DATA names.
/// If it is not set, the directory is ../shared/data. The file may be missing (tests/README.md).
inline std::filesystem::path text_corpus(const char* name) {
  const char* folder = std::getenv("HEED_TEST_DATA");
  return (folder ? std::filesystem::path(folder)
                 : std::filesystem::path(HEED_SOURCE_DIR) / "../shared/data") /
         name;
}

}  // namespace heed::testing
