// Compares the table of limits in nn/io/README.md with the constants.
#include "nn/io/limits.h"

#include <regex>

#include "autograd/base/files.h"
#include "autograd/base/shape.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::nn;

#define LIMIT(name) \
  { #name, std::uint64_t(name) }

TEST_CASE("the page of nn/io states every limit of the readers with its value") {
  using heed::autograd::kMaxRank;
  const std::map<std::string, std::uint64_t> limits = {
      LIMIT(kMaxTomlBytes), LIMIT(kMaxTomlKeyParts),  LIMIT(kMaxTomlNesting),
      LIMIT(kMaxElements),  LIMIT(kMaxTomlTableName), LIMIT(kMaxSafetensorsHeader),
      LIMIT(kMaxJsonDepth), LIMIT(kMaxRank),          LIMIT(kMaxLabelBytes),
      LIMIT(kMaxTextBytes), LIMIT(kMaxManifestBytes), LIMIT(kMaxSymbols),
      LIMIT(kMaxPairsBytes)};
  const std::filesystem::path folder = std::filesystem::path(HEED_SOURCE_DIR) / "nn/io";
  const auto matches = [&](const char* file, const char* pattern, std::size_t groups) {
    std::map<std::string, std::string> found;
    const std::string text = heed::autograd::read_file((folder / file).string());
    const std::regex expression(pattern);
    for (std::sregex_iterator it(text.begin(), text.end(), expression), end; it != end; ++it)
      found[(*it)[1]] = groups > 1 ? (*it)[2].str() : "";
    return found;
  };
  std::map<std::string, std::uint64_t> page;
  for (auto [name, value] : matches("README.md", R"(\| `(kM\w+)` \| ([0-9,]+) \|)", 2)) {
    std::erase(value, ',');
    page[name] = std::stoull(value);
  }
  CHECK(page == limits);
  for (const auto& [name, ignored] : matches("limits.h", R"(inline constexpr \S+ (\w+) =)", 1)) {
    INFO(name << " is missing in the table");
    CHECK(page.contains(name));
  }
}

}  // namespace
