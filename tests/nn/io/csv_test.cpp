// Tests of reading CSV files: with and without names, and every error.
#include "nn/io/csv.h"

#include "autograd/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"

namespace {

using namespace heed::nn;
using heed::autograd::IoError;
using heed::testing::Folder;
using Names = std::vector<std::string>;

CsvMatrix load(const Folder& folder, const std::string& text) {
  std::ofstream(folder / "m.csv", std::ios::binary) << text;
  return load_csv(folder / "m.csv");
}

TEST_CASE("a CSV file may have names of columns and rows") {
  const Folder folder;
  for (const char* text : {"1,2,3\n4,5,6\n", "1,2,3\r\n4,5,6", "1, 2,3 \n4e0,5.0,6",
                           "\xEF\xBB\xBF"
                           "1,2,3\n4,5,6\n"}) {
    const CsvMatrix m = load(folder, text);
    CHECK(m.rows == 2);
    CHECK(m.cols == 3);
    CHECK(m.values == std::vector<double>{1, 2, 3, 4, 5, 6});
    CHECK(m.row_names.empty());
    CHECK(m.col_names.empty());
  }
  CsvMatrix m = load(folder, "a,b\n1,2\n");
  CHECK(m.col_names == Names{"a", "b"});
  CHECK(m.row_names.empty());
  CHECK(m.values == std::vector<double>{1, 2});
  m = load(folder, ",a,\"b, \"\"c\"\"\"\nx,1,2\n\"y\",3,4\n");
  CHECK(m.col_names == Names{"a", "b, \"c\""});
  CHECK(m.row_names == Names{"x", "y"});
  CHECK(m.values == std::vector<double>{1, 2, 3, 4});
  m = load(folder, "x,1,2\ny,3,4\n");
  CHECK(m.col_names.empty());
  CHECK(m.row_names == Names{"x", "y"});
  CHECK_THROWS_WITH(load(folder, "0.5,1\nO.7,2\n0.9,3\n"),
                    Contains("line 2: its first field, \"O.7\", is not a number, but that of line "
                             "1 is"));
  CHECK_THROWS_WITH(load(folder, "a,1\n2,3\n"), Contains("is a number, but that of line 1 is not"));
  m = load(folder, ",p,q\na,1,2\n7,3,4\n");  // with column names, a row name may be a number
  CHECK(m.row_names == Names{"a", "7"});
  CHECK(load(folder, "+1,2\n").values == std::vector<double>{1, 2});
  CHECK_THROWS_AS(load(folder, "1,2\n1,+-1\n"), IoError);
  m = load(folder, "1,-inf\n,nan\n");
  CHECK(m.values[1] == -HUGE_VAL);
  CHECK(std::isnan(m.values[2]));
  CHECK(std::isnan(m.values[3]));
}

TEST_CASE("errors in a CSV file name the line") {
  const Folder folder;
  const auto check_error = [&](const std::string& text, const std::string& what) {
    const std::string error = message_of<IoError>([&] { load(folder, text); });
    INFO(error);
    CHECK(error.find(what) != std::string::npos);
    CHECK(error.find('\n') == std::string::npos);
  };
  check_error("", "the file has no numbers");
  check_error("a,b\n", "the file has no numbers");
  check_error("1,2\n3\n", "line 2: it has 1 numbers, but the lines before it have 2");
  check_error("1,2\n3,x\n", "line 2: \"x\" is not a number");
  check_error("a,b,c\n1,2\n", "names 3 columns, but the rows have 2");
  check_error("1,2\n3,\"4\n", "line 2: a quote has no end");
  check_error("1,\"2\"x\n", "line 1: there is text between a quoted field and a comma");
  check_error("1\n" + std::string(65'536, ','), "line 2: it has more than 65536 fields");
  CHECK_THROWS_AS(load_csv(folder / "absent.csv"), IoError);
  std::ofstream(folder / "large.csv") << std::string(33'000'000, ',');
  CHECK_THROWS_AS(load_csv(folder / "large.csv"), IoError);
}

TEST_CASE("random bytes are read or throw an error") {
  const Folder folder;
  std::mt19937 random(3);
  const std::string letters = "01.,\n\r\"e-nai\xff";
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text(random() % 30, ' ');
    for (char& c : text) c = letters[random() % letters.size()];
    try {
      const CsvMatrix m = load(folder, text);
      CHECK(std::int64_t(m.values.size()) == m.rows * m.cols);
      CHECK((m.row_names.empty() || std::int64_t(m.row_names.size()) == m.rows));
      CHECK((m.col_names.empty() || std::int64_t(m.col_names.size()) == m.cols));
    } catch (const IoError&) {
      ++refused;
    }
  }
  CHECK(refused > 500);
}

}  // namespace
