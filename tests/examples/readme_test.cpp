// Tests that pages quote their example programs word for word. first_contact_test.cpp tests the
// prompts that README.md shows.
#include "autograd/base/files.h"
#include "tests/support/catch.h"

TEST_CASE("README quotes the tour word for word") {
  using heed::autograd::read_file;
  const std::string tour = read_file(HEED_SOURCE_DIR "/examples/tour.cpp");
  CHECK(read_file(HEED_SOURCE_DIR "/README.md").find("```cpp\n" + tour + "```") !=
        std::string::npos);
}

TEST_CASE("autograd/check/YOUR_GRADIENT.md quotes its examples word for word") {
  using heed::autograd::read_file;
  const std::string example = read_file(HEED_SOURCE_DIR "/examples/your_gradient.cpp");
  const std::string page = read_file(HEED_SOURCE_DIR "/autograd/check/YOUR_GRADIENT.md");
  CHECK(page.find("```cpp\n" + example + "```") != std::string::npos);
  const std::string in_c = read_file(HEED_SOURCE_DIR "/examples/your_gradient.c");
  CHECK(page.find("```c\n" + in_c + "```") != std::string::npos);
}
