// Tests of the manifest of a result: which files a later result replaces, and which it never
// touches. For kills and failures, see tests/tools/heed/faults_test.sh.
#include "nn/run/result_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include "autograd/base/files.h"
#include "nn/run/own_files.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"

namespace {

namespace fs = std::filesystem;
using namespace heed::nn;
using namespace heed::testing;
using heed::autograd::Directory;
using heed::autograd::IoError;
using heed::autograd::read_file;
using heed::autograd::ValueError;

const std::string kKind = "study";

void write(const fs::path& file, std::string_view text) {
  fs::create_directories(file.parent_path());
  heed::autograd::write_file(file.string(), text);
}

void add(ResultFolder& result, const std::string& name, std::string_view text) {
  heed::autograd::write_file(result.file(name), text);
}

void publish(const fs::path& folder, const std::vector<std::string>& names, std::string_view text) {
  ResultFolder result(folder, kKind);
  for (const std::string& name : names) add(result, name, text);
  result.complete();
}

// Returns "NAME=TEXT" for each file, and "NAME" for each directory.
std::set<std::string> contents(const fs::path& folder) {
  std::set<std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    all.insert(entry.path().lexically_relative(folder).string() +
               (entry.is_regular_file() ? "=" + read_file(entry.path().string()) : ""));
  return all;
}

using Contents = std::set<std::string>;

static_assert(!std::is_copy_assignable_v<FolderLock>, "a copy would close the descriptor twice");

TEST_CASE("a result replaces only the files of the earlier result") {
  const Folder temporary;
  const fs::path folder = temporary / "new" / "deeper";
  publish(folder, {"b", "a"}, "1");
  CHECK(contents(folder) ==
        Contents{"a=1", "b=1", "heed-files.txt=heed study 1\na\nb\ncomplete\n"});
  write(folder / "mine", "mine");
  write(folder / "c", "mine");
  write(folder / "b.tmp12.0", "unfinished");
  write(folder / "mine.tmp12.0", "mine");
  fs::permissions(folder / "a", fs::perms(0600));
  publish(folder, {"a"}, "2");
  CHECK(contents(folder) == Contents{"a=2", "mine=mine", "c=mine", "mine.tmp12.0=mine",
                                     "heed-files.txt=heed study 1\na\ncomplete\n"});
  CHECK(fs::status(folder / "a").permissions() == fs::perms(0600));
  write(folder / "b", "mine");  // was a file of the first result
  CHECK_THROWS_WITH(publish(folder, {"b"}, "3"), Contains("b: heed did not write it"));
  CHECK(contents(folder).contains("b=mine"));
}

TEST_CASE("files that heed did not write, links and directories are not replaced") {
  const Folder temporary;
  const fs::path folder = temporary / "d", outside = temporary / "outside";
  write(outside, "mine");
  publish(folder, {"a", "b"}, "1");
  for (const char* name : {"b", "c"}) {
    INFO(name);
    fs::remove(folder / name);
    fs::create_symlink("../outside", folder / name);
    const Contents before = contents(folder);
    CHECK_THROWS_AS(ResultFolder(folder, kKind).list({"a", name}), IoError);
    CHECK(contents(folder) == before);
    fs::remove(folder / name);
    fs::create_directory(folder / name);
    CHECK_THROWS_WITH(ResultFolder(folder, kKind).list({"a", name}), Contains("it is a directory"));
    CHECK(fs::is_directory(folder / name));
    fs::remove(folder / name);
  }
  CHECK(read_file((folder / "a").string()) + read_file(outside.string()) == "1mine");
}

TEST_CASE("a manifest cannot name files outside of its directory") {
  const Folder temporary;
  const fs::path folder = temporary / "result";
  write(temporary / "outside/c", "mine");
  for (const std::string& name :
       std::vector<std::string>{"../outside/c", "s/c", "", "..", "heed-files.txt"}) {
    INFO(name);
    fs::remove_all(folder);
    fs::create_directory(folder);
    fs::create_directory_symlink("../outside", folder / "s");
    write(folder / "heed-files.txt", "heed study 1\n" + name + "\ncomplete\n");
    CHECK_THROWS_AS(publish(folder, {"a"}, "1"), ValueError);
    CHECK(contents(folder).size() == 2);
  }
  CHECK(fs::exists(temporary / "outside/c"));
  fs::remove(folder / "heed-files.txt");
  CHECK_THROWS_AS(publish(folder, {"s/c"}, "1"), ValueError);
  for (const char* text : {"", "notes\n", "heed comparison 1\ncomplete\n", "heed study 2\n"}) {
    write(folder / "heed-files.txt", text);
    CHECK_THROWS_AS(publish(folder, {"a"}, "1"), ValueError);
  }
  fs::remove(folder / "heed-files.txt");
  fs::create_symlink("../outside/c", folder / "heed-files.txt");
  CHECK_THROWS_WITH(publish(folder, {"a"}, "1"), Contains("is not a regular file"));
}

TEST_CASE("an incomplete result is recognized and replaced") {
  const Folder temporary;
  const fs::path folder = temporary / "d";
  write(folder / "heed-files.txt", "heed study 1\na\nb\nc");  // the last name is truncated
  for (const char* name : {"a", "b", "c"}) write(folder / name, "1");
  CHECK_FALSE(ResultFolder(folder, kKind).holds_result());
  publish(folder, {"a"}, "2");
  CHECK(contents(folder) == Contents{"a=2", "c=1", "heed-files.txt=heed study 1\na\ncomplete\n"});
  CHECK(ResultFolder(folder, kKind).holds_result());
}

TEST_CASE("files of a result that is not completed are removed, with the directory made for them") {
  const Folder temporary;
  const fs::path folder = temporary / "new";
  {
    ResultFolder result(folder, kKind);
    CHECK_FALSE((result.holds_result() || result.is_foreign()));
    add(result, "c", "1");
    CHECK_THROWS_AS(ResultFolder(folder, kKind), FolderInUse);
  }
  CHECK_FALSE(fs::exists(folder));
  write(folder / "heed-files.txt.tmp1.0", "heed stu");  // of a killed process
  CHECK_FALSE(ResultFolder(folder, kKind).is_foreign());
  write(folder / "mine", "mine");
  CHECK(ResultFolder(folder, kKind).is_foreign());
  { ResultFolder(folder, kKind).file("c"); }
  CHECK(contents(folder) == Contents{"mine=mine"});  // the first file() removed the temporary one
}

TEST_CASE("a directory that is moved receives its files, and not another one at its path") {
  const Folder temporary;
  const fs::path folder = temporary / "d", moved = temporary / "moved";
  ResultFolder result(folder, kKind);
  add(result, "a", "1");
  fs::rename(folder, moved);
  write(folder / "a", "of another process");
  add(result, "b", "2");
  CHECK(contents(moved) == Contents{"a=1", "b=2", "heed-files.txt=heed study 1\na\nb\n"});
  fs::remove_all(moved);
  CHECK_THROWS_AS(result.file("b"), IoError);
  CHECK(contents(folder) == Contents{"a=of another process"});
}

// The user that root becomes for a while, to test files of others.
class OtherUser {
 public:
  OtherUser() {
    if (::seteuid(65534) != 0) throw std::runtime_error("seteuid");
  }
  ~OtherUser() {
    if (::seteuid(0) != 0) std::abort();
  }
};

TEST_CASE(
    "an overwrite that would be refused changes nothing: files of others, a sticky directory") {
  const Folder temporary;
  const fs::path folder = temporary / "d";
  publish(folder, {"a", "b"}, "1");
  const Contents before = contents(folder);
  if (::geteuid() != 0) {
    fs::permissions(folder, fs::perms(0500));
    CHECK_THROWS_AS(publish(folder, {"a"}, "2"), IoError);
    fs::permissions(folder, fs::perms(0700));
    CHECK(contents(folder) == before);
    std::cout << "skipped: files of other users, because only root can make them\n";
    return;
  }
  // The manifest of another user lists a file of root, and is not a reason to remove it.
  const auto give = [&](const char* name) {
    return ::chown((folder / name).c_str(), 65534, 65534);
  };
  REQUIRE(give("heed-files.txt") == 0);
  CHECK_THROWS_WITH(publish(folder, {"a"}, "2"), Contains("heed did not write it"));
  CHECK(contents(folder) == before);
  // In a sticky directory of root, other users cannot remove the files of root.
  fs::remove_all(folder);
  publish(folder, {"a", "b"}, "1");
  fs::permissions(temporary.path(), fs::perms(0755));
  fs::permissions(folder, fs::perms(01777));
  const OtherUser other;
  ResultFolder result(folder, kKind);
  CHECK_THROWS_WITH(result.check_replaceable(), Contains("heed did not write it"));
  CHECK_THROWS_AS(result.file("a"), IoError);
  CHECK(contents(folder) == before);
}

}  // namespace
