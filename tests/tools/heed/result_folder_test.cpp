// Tests of the directory of a result: it is new, and complete or marked as unfinished.
#include "tools/heed/result_folder.h"

#include "autograd/base/files.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"

namespace {

using namespace heed;
using namespace heed::testing;
namespace fs = std::filesystem;

void write(const fs::path& file) { autograd::write_file(file.string(), std::string_view("1")); }

TEST_CASE("a result has a directory of its own, which is removed if it is not completed") {
  const Folder folder;
  const fs::path preset = folder / "study";
  fs::create_directory_symlink(".", preset);  // a link is neither followed nor replaced
  {
    ResultFolder result("", preset), other("", preset);
    write(result.file("a"));
    CHECK((fs::exists(folder / "study-2/unfinished") && fs::exists(folder / "study-3/unfinished")));
    write(folder / "study-3/mine");
    result.complete();
  }
  CHECK((folder.files() == 3 && fs::exists(folder / "study-2/a")));
  CHECK(!fs::exists(folder / "study-2/unfinished"));
  for (const auto& entry : fs::directory_iterator(folder / "study-3"))
    CHECK(entry.path().filename() == "mine");
  write(folder / "file");
  CHECK_THROWS_WITH(check_out(folder / "study-2/"),
                    Contains("is not empty; choose a new directory, "
                             "such as " +
                             (folder / "study-2-2").string()));
  CHECK_THROWS_WITH(check_out(folder / "file"), Contains("is not a directory"));
  fs::create_directory(folder / "empty");
  { ResultFolder(folder / "empty", "").file("a"); }
  CHECK(fs::is_empty(folder / "empty"));
  {
    ResultFolder result(folder / "deep/er", "");
    write(result.file("a"));
    CHECK_THROWS_WITH(ResultFolder(folder / "deep/er", ""), Contains("is not empty"));
    result.complete();
  }
  CHECK(fs::exists(folder / "deep/er/a"));
  {  // another directory takes the path
    ResultFolder result(folder / "old", "");
    write(result.file("a"));
    fs::rename(folder / "old", folder / "moved");
    fs::create_directory(folder / "old");
    write(folder / "old/a");
    CHECK_THROWS_WITH(result.complete(), Contains("was moved or removed"));
  }
  CHECK((fs::exists(folder / "old/a") && fs::exists(folder / "moved/a")));
}

}  // namespace
