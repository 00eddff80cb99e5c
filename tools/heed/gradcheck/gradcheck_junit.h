// JUnit files: the form in which CI services read test results.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heed {

struct JunitCase {
  std::string classname, name;
  std::string failure = {}, skipped = {};  ///< why; both empty: it passed
  std::string output = {};                 ///< in <system-out>
};

/// One test suite as XML 1.0 in UTF-8. What XML cannot hold, control characters and bytes that are
/// not UTF-8, becomes U+FFFD.
std::string junit_xml(std::string_view suite, double seconds, const std::vector<JunitCase>& cases);

}  // namespace heed
