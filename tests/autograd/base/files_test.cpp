// Tests of reading and writing whole files. Only regular files can be read. A write replaces the
// whole file or changes nothing.
#include "autograd/base/files.h"

#include <sys/stat.h>

#include "autograd/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"

namespace {

using namespace heed::autograd;
using namespace heed::testing;
namespace fs = std::filesystem;

TEST_CASE("read_file reads a regular file, and no more than the limit") {
  const Folder folder;
  const std::string path = folder / "f";
  write_file(path, std::string_view("eleven byte"));
  CHECK(read_file(path, 11) == "eleven byte");
  CHECK_THROWS_WITH(read_file(path, 10), "cannot read " + path + ": it has more than 10 bytes");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(read_file(folder / "pipe"), Contains("pipe: it is not a regular file"));
  CHECK_THROWS_WITH(read_file("/dev/zero"), Contains("it is not a regular file"));
  CHECK_THROWS_WITH(read_file("/"), "cannot read /: it is a directory");
}

TEST_CASE("write_file replaces a file, or changes nothing and leaves no temporary file") {
  const Folder folder;
  const std::string path = folder / "f";
  write_file(path, std::string_view("old"));
  CHECK(read_file(path) == "old");
  write_file(path, std::string_view(""));
  CHECK(read_file(path).empty());
  write_file(path, std::string_view("old"));
  CHECK_THROWS_WITH(write_file(folder / "no/f", std::string_view("x")),
                    Contains("no/f: No such file or directory"));
  CHECK_THROWS_WITH(write_file(folder / "f/g", std::string_view("x")), Contains("Not a directory"));
  CHECK_THROWS_WITH(write_file(folder.path().string(), std::string_view("x")),
                    Contains("it is a directory"));
  CHECK_THROWS_WITH(write_file("/dev/null", std::string_view("x")), Contains("regular file"));
  CHECK(folder.files() == 1);
}

TEST_CASE("a replaced file keeps its permissions") {
  const Folder folder;
  const std::string path = folder / "f";
  write_file(path, std::string_view("old"));
  const fs::perms fresh = fs::status(path).permissions();
  for (const fs::perms mode :
       {fs::perms(0600), fs::perms(0640), fs::perms(0444), fs::perms(0755)}) {
    fs::permissions(path, mode);
    write_file(path, std::string_view("new"));
    CHECK(fs::status(path).permissions() == mode);
  }
  write_file(folder / "g", std::string_view("new"));
  CHECK(fs::status(folder / "g").permissions() == fresh);
}

TEST_CASE("is_there and is_file throw if they cannot find out") {
  const Folder folder;
  const std::string path = folder / "f";
  write_file(path, std::string_view("old"));
  fs::create_symlink("loop", folder / "loop");
  fs::create_symlink("nowhere", folder / "dangling");
  CHECK((is_there(path) && is_file(path)));
  CHECK((is_there(folder.path()) && !is_file(folder.path())));
  for (const fs::path& none :
       {folder / "none", folder / "f/g", folder / "dangling", folder / std::string(5000, 'x')})
    CHECK((!is_there(none) && !is_file(none)));
  for (const fs::path& unknown : {folder / "loop", folder / "loop/f"}) {
    CHECK_THROWS_WITH(is_there(unknown), Contains("Too many levels of symbolic links"));
    CHECK_THROWS_WITH(is_file(unknown), Contains(unknown.string()));
  }
#ifdef __linux__
  CHECK_THROWS_WITH(InputFile("/proc/self/status"), Contains("it has contents, but size 0"));
#endif
}

TEST_CASE("no function writes through a symbolic link") {
  const Folder folder;
  const std::string path = folder / "f", link = folder / "link";
  write_file(path, std::string_view("mine"));
  fs::create_directory(folder / "d");
  for (const char* target : {"f", "none"}) {
    fs::create_symlink(target, link);
    CHECK_THROWS_WITH(AppendFile(link), Contains("cannot write " + link));
    write_file(link, std::string_view("new"));
    CHECK((!fs::is_symlink(link) && read_file(link) == "new" && read_file(path) == "mine"));
    fs::remove(link);
  }
  for (const char* target : {"/dev/null", "d"}) {
    fs::create_symlink(target, link);
    CHECK_THROWS_AS(write_file(link, std::string_view("x")), IoError);
    CHECK(fs::is_symlink(link));
    fs::remove(link);
  }
  AppendFile(path).write("+");
  CHECK(read_file(path) == "mine+");
  CHECK(folder.files() == 2);
}

TEST_CASE("a write that fails in the middle keeps the old file") {
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
