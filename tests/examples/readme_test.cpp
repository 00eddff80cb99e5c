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

TEST_CASE("the pages on your own gradient quote their examples word for word") {
  const auto contains = [](const std::string& page, const std::string& language,
                           const std::string& example) {
    const std::string root = HEED_SOURCE_DIR "/";
    const std::string program = heed::autograd::read_file(root + example);
    return heed::autograd::read_file(root + page).find("```" + language + "\n" + program + "```") !=
           std::string::npos;
  };
  CHECK(contains("autograd/check/YOUR_GRADIENT_CPP.md", "cpp", "examples/your_gradient.cpp"));
  CHECK(contains("autograd/check/YOUR_GRADIENT_C.md", "c", "examples/your_gradient.c"));
}
