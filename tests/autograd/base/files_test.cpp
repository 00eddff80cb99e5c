// Whole files: what else than a regular file may be read. Writing:
// tests/nn/io/safetensors_test.cpp.
#include "autograd/base/files.h"

#include <unistd.h>

#include <string>
#include <string_view>

#include "autograd/base/error.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;

TEST_CASE("read_file reads a pipe to its end, and no more than the limit") {
  constexpr std::string_view kText = "from a pipe";
  const auto read = [&](std::uint64_t limit) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    REQUIRE(::write(ends[1], kText.data(), kText.size()) == std::ssize(kText));
    ::close(ends[1]);
    const std::string path = "/dev/fd/" + std::to_string(ends[0]);
    std::string text;
    try {
      text = read_file(path, limit);
    } catch (const IoError& e) {
      text = e.what();
    }
    ::close(ends[0]);
    return text;
  };
  CHECK(read(100) == kText);
  CHECK(read(kText.size()) == kText);
  CHECK(read(kText.size() - 1).ends_with("it has more than 10 bytes"));
  CHECK_THROWS_WITH(read_file("/"), "read_file: cannot read /: Is a directory");
}

}  // namespace
