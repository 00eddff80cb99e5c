// Files that tests read: what is kept in tests/data, and texts that are not ours to ship.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace heed::testing {

inline std::filesystem::path kept_file(const char* name) {
  return std::filesystem::path(HEED_SOURCE_DIR) / "tests/data" / name;
}

/// In the folder that HEED_TEST_DATA names, else in ../shared/data. May be absent: see
/// tests/README.md.
inline std::filesystem::path text_corpus(const char* name) {
  const char* folder = std::getenv("HEED_TEST_DATA");
  return (folder ? std::filesystem::path(folder)
                 : std::filesystem::path(HEED_SOURCE_DIR) / "../shared/data") /
         name;
}

}  // namespace heed::testing
