// names: makemore's transformer on makemore's list of names.
#include <filesystem>

#include "tests/support/files.h"
#include "tests/support/recipes.h"

using namespace heed::nn;
using namespace heed::nn::testing;

TEST_CASE("names: makemore's transformer at 3000 steps") {
  const std::string path = heed::testing::text_corpus("names.txt").string();
  if (!std::filesystem::exists(path)) {
    WARN("skipped: no " << path << "; name its folder in HEED_TEST_DATA");
    return;
  }
  RunConfig config = preset("names");
  config.lines = path;
  const Evaluation e = trained(config).result;
  CHECK(e.loss <= 2.15);
  CHECK(e.loss >= 1.8);  // lower: padding counts, or a leak
  CHECK(e.references.at(0).first == "2-gram");
  CHECK(e.references.at(0).second == Approx(2.4540).margin(0.03));
}
