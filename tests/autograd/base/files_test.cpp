// Whole files: what else than a regular file may be read; a write replaces a file, or changes
// nothing.
#include "autograd/base/files.h"

#include <unistd.h>

#include "autograd/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"

namespace {

using namespace heed::autograd;
using namespace heed::testing;
namespace fs = std::filesystem;

TEST_CASE("read_file reads a pipe to its end, and no more than the limit") {
  constexpr std::string_view kText = "from a pipe";
  const auto read = [&](std::uint64_t limit) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    REQUIRE(::write(ends[1], kText.data(), kText.size()) == std::ssize(kText));
    ::close(ends[1]);
    const std::string path = "/dev/fd/" + std::to_string(ends[0]);
    std::string text;
    const std::string error = message_of<IoError>([&] { text = read_file(path, limit); });
    ::close(ends[0]);
    return text + error;
  };
  CHECK(read(100) == kText);
  CHECK(read(kText.size()) == kText);
  CHECK(read(kText.size() - 1).ends_with("it has more than 10 bytes"));
  CHECK_THROWS_WITH(read_file("/"), "file: cannot read /: Is a directory");
}

TEST_CASE("write_file replaces a file, or leaves it and nothing else") {
  const Folder folder;
  const std::string path = folder / "f";
  write_file(path, std::string_view("old"));
  CHECK(read_file(path) == "old");
  write_file(path, std::string_view(""));
  CHECK(read_file(path).empty());
  write_file(path, std::string_view("old"));
  fs::create_symlink("f", folder / "link");
  write_file(folder / "link", std::string_view("new"));
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(read_file(path) == "new");
  CHECK(folder.files() == 2);

  CHECK_THROWS_WITH(write_file(folder / "no/f", std::string_view("x")),
                    Contains("no/f: No such file or directory"));
  CHECK_THROWS_WITH(write_file(folder / "f/g", std::string_view("x")), Contains("Not a directory"));
  CHECK_THROWS_WITH(write_file(folder.path().string(), std::string_view("x")),
                    Contains("it is a directory"));
  CHECK_THROWS_WITH(write_file("/dev/null", std::string_view("x")), Contains("regular file"));
  CHECK(folder.files() == 2);
}

TEST_CASE("a write that fails half way keeps the old file") {
  const Folder folder;
  const std::string path = folder / "f";
  write_file(path, std::string_view("old"));
  std::string text;
  {
    const FullDisk full(1000);
    text = message_of<IoError>([&] { write_file(path, std::string(40000, 'x')); });
  }
  CHECK_THAT(text, Contains("cannot write") && Contains("File too large"));
  CHECK(read_file(path) == "old");
  CHECK(folder.files() == 1);
}

}  // namespace
