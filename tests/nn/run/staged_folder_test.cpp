// Tests the contents of a directory after a result was published, rejected or partly published. For
// kills during a publication, see tests/tools/heed/kills_test.sh.
#include "nn/run/staged_folder.h"

#include "autograd/base/files.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"

namespace {

namespace fs = std::filesystem;
using namespace heed::nn;
using namespace heed::testing;
using heed::autograd::IoError;
using heed::autograd::read_file;
using heed::autograd::ValueError;

ResultFiles result_files() {
  return {{"a"},
          [](const std::string& name) { return name == "a" || name == "b" || name == "s/c"; },
          "s"};
}

void write(const fs::path& file, std::string_view text) {
  fs::create_directories(file.parent_path());
  heed::autograd::write_file(file.string(), text);
}

void publish(const fs::path& folder, const std::vector<std::string>& names, std::string_view text) {
  StagedFolder staged(folder, result_files());
  for (const std::string& name : names) write(staged.staging() / name, text);
  staged.publish();
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

TEST_CASE("a published file keeps the permissions of the file that it replaces") {
  const Folder folder;
  const fs::path file = folder / "d/a";
  const ResultFiles files{{"a"},
                          [](const std::string& name) { return name == "a" || name == "b"; }};
  for (const char* text : {"old", "new"}) {
    StagedFolder staged(folder / "d", files);
    for (const char* name : {"a", "b"})
      heed::autograd::write_file(staged.staging() / name, std::string_view(text));
    staged.publish({});
    CHECK(heed::autograd::read_file(file) == text);
    if (text == std::string("old")) fs::permissions(file, fs::perms(0600));
  }
  CHECK(fs::status(file).permissions() == fs::perms(0600));
  CHECK(fs::status(folder / "d/b").permissions() != fs::perms(0600));
}

}  // namespace

TEST_CASE("a published result replaces only the files of the earlier result") {
  const Folder temporary;
  const fs::path folder = temporary / "new" / "deeper";
  publish(folder, {"a", "b", "s/c"}, "1");
  CHECK(contents(folder) == Contents{"a=1", "b=1", "s", "s/c=1"});
  write(folder / "mine", "mine");
  write(folder / "s/mine", "mine");
  write(folder / "b.tmp12.0", "unfinished");
  write(folder / "mine.tmp12.0", "mine");
  publish(folder, {"a"}, "2");
  CHECK(contents(folder) == Contents{"a=2", "mine=mine", "s", "s/mine=mine", "mine.tmp12.0=mine"});
}

TEST_CASE("a directory that is moved receives the result, and another one at its path does not") {
  const Folder temporary;
  const fs::path folder = temporary / "d", moved = temporary / "moved", again = temporary / "again";
  StagedFolder staged(folder, result_files());
  const auto take_path = [&](const fs::path& to) {
    fs::rename(staged.folder(), to);
    fs::remove_all(folder);
    write(folder / ".staging/heed-journal", "of another process");
  };
  take_path(moved);
  const fs::path file = staged.staging() / "s/c";
  write(file, "1");
  take_path(again);
  CHECK(staged.publish({file}) == std::vector{fs::canonical(again) / "s/c"});
  CHECK(contents(again) == Contents{"s", "s/c=1"});
  CHECK(contents(folder) == Contents{".staging", ".staging/heed-journal=of another process"});
  fs::remove_all(again);
  CHECK_THROWS_WITH(staged.staging(), Contains("was removed after heed had"));
  CHECK_THROWS_WITH(staged.publish(), Contains("was removed after heed had"));
}

TEST_CASE("without an earlier result, files with names of a result belong to the user") {
  const Folder temporary;
  write(temporary / "b", "mine");
  publish(temporary.path(), {"a", "s/c"}, "1");
  CHECK(contents(temporary.path()) == Contents{"a=1", "b=mine", "s", "s/c=1"});
}

TEST_CASE("files that are not published are removed, with the directory created for them") {
  const Folder temporary;
  const fs::path folder = temporary / "new";
  {
    StagedFolder staged(folder, result_files());
    CHECK_FALSE(staged.holds_result());
    write(staged.staging() / "s/c", "1");
    CHECK_THROWS_AS(StagedFolder(folder, result_files()), FolderInUse);
  }
  CHECK_FALSE(fs::exists(folder));
  publish(folder, {"a"}, "1");
  {
    StagedFolder staged(folder, result_files());
    CHECK(staged.holds_result());
    const fs::path file = staged.staging() / "other";
    write(file, "2");
    // If this file were published, later results would not remove it.
    CHECK_THROWS_AS(staged.publish({file}), ValueError);
  }
  CHECK(contents(folder) == Contents{"a=1"});
}

TEST_CASE("finish_publication() completes a committed result from any step") {
  for (const int moved : {0, 1, 2, 3}) {
    INFO(moved);
    const Folder temporary;
    const fs::path folder = temporary.path(), from = folder / ".publish";
    publish(folder, {"a", "b"}, "1");
    write(from / "heed-journal", "- b\n+ a\n+ s/c\n");
    if (moved > 0) fs::remove(folder / "b");
    write((moved > 1 ? folder : from) / "a", "2");
    write((moved > 2 ? folder : from) / "s/c", "2");
    finish_publication(folder);
    CHECK(contents(folder) == Contents{"a=2", "s", "s/c=2"});
  }
}

TEST_CASE("a journal cannot change files outside of its directory") {
  const Folder temporary;
  const fs::path folder = temporary / "result";
  write(temporary / "outside/c", "mine");
  for (const std::string& name : std::vector<std::string>{
           "../outside/c", "s/../../outside/c", "", "s/c", (temporary / "outside/c").string()}) {
    INFO(name);
    fs::remove_all(folder);
    fs::create_directory(folder);
    fs::create_directory_symlink("../outside", folder / "s");
    write(folder / ".publish/heed-journal", "- " + name + "\n");
    CHECK_THROWS_AS(finish_publication(folder), IoError);
    CHECK(fs::exists(temporary / "outside/c"));
  }
}

TEST_CASE("directories of a user cause an error and are not removed") {
  const Folder temporary;
  const fs::path folder = temporary.path();
  for (const char* name : {".staging", ".publish", "b"}) {
    INFO(name);
    write(folder / name / "note", "mine");
    CHECK_THROWS_AS(publish(folder, {"a", "b"}, "1"), IoError);
    finish_publication(folder);
    CHECK(contents(folder) == Contents{name, std::string(name) + "/note=mine"});
    fs::remove_all(folder / name);
  }
  fs::create_directory(temporary / "s2");
  fs::create_directory_symlink("s2", folder / "s");
  CHECK_THROWS_AS(publish(folder, {"a"}, "1"), ValueError);
}

TEST_CASE("an empty .publish is removed by a writer, not by a reader") {
  const Folder temporary;
  const fs::path folder = temporary.path();
  fs::create_directory(folder / ".publish");
  finish_publication(folder);
  CHECK(fs::exists(folder / ".publish"));
  publish(folder, {"a"}, "1");
  CHECK(contents(folder) == Contents{"a=1"});
}

TEST_CASE("an interrupted publication of heed 0.1 is an error") {
  const Folder temporary;
  fs::create_directory(temporary / "new-run.whole");
  CHECK_THROWS_AS(finish_publication(temporary.path()), IoError);
  CHECK_THROWS_AS(StagedFolder(temporary.path(), result_files()), IoError);
}
