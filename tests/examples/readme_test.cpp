// README shows examples/tour.cpp as it is.
#include "autograd/base/files.h"
#include "tests/support/catch.h"

TEST_CASE("README quotes the tour word for word") {
  const std::string readme = heed::autograd::read_file(HEED_SOURCE_DIR "/README.md");
  const std::string tour = heed::autograd::read_file(HEED_SOURCE_DIR "/examples/tour.cpp");
  CHECK(readme.find("```cpp\n" + tour + "```") != std::string::npos);
}
