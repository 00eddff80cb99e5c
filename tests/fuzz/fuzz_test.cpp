// Replays the inputs of the fuzz targets: the seed corpora, and each input that was once a finding.
#include "autograd/base/files.h"
#include "tests/fuzz/targets.h"
#include "tests/support/catch.h"

namespace {

TEST_CASE("the fuzz targets read their seed corpora and earlier findings") {
  for (const heed::fuzz::Target& target : heed::fuzz::kTargets) {
    std::size_t inputs = 0;
    for (const char* kind : {"corpus", "regressions"}) {
      const auto folder =
          std::filesystem::path(HEED_SOURCE_DIR) / "tests/fuzz" / kind / target.name;
      if (!std::filesystem::exists(folder)) continue;
      for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        INFO(entry.path());
        const std::string bytes = heed::autograd::read_file(entry.path().string());
        CHECK_NOTHROW(target.run(bytes));
        // A shorter copy in a separate buffer lets AddressSanitizer find reads past the end.
        for (const std::size_t part : {std::size_t{2}, std::size_t{4}, std::size_t{8}}) {
          const std::vector<char> cut(bytes.begin(),
                                      bytes.end() - std::ptrdiff_t(bytes.size() / part));
          CHECK_NOTHROW(target.run({cut.data(), cut.size()}));
        }
        ++inputs;
      }
    }
    INFO(target.name);
    CHECK(inputs > 0);
  }
}

}  // namespace
