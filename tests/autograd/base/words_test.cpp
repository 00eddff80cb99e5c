// Tests of text.h: parsing numbers, splitting text and joining words.
#include "autograd/base/text.h"
#include "tests/support/catch.h"

namespace {

using heed::join;
using heed::parse_number;

TEST_CASE("parse_number accepts a text only if all of it is a number") {
  CHECK(parse_number<std::int64_t>("-12") == -12);
  CHECK(parse_number<double>("1e-3") == 1e-3);
  CHECK(parse_number<std::uint64_t>("ff", 16) == 255u);
  for (const char* text : {"", "1 ", " 1", "0x10", "1e3", "99999999999999999999"})
    CHECK_FALSE(parse_number<std::int64_t>(text));
  CHECK_FALSE(parse_number<double>("1.5x"));
}

TEST_CASE("join puts commas between words and another separator before the last one") {
  CHECK(join({}).empty());
  CHECK(join({"a"}) == "a");
  CHECK(join({"a", "b", "c"}) == "a, b and c");
  CHECK(join({"a", "b"}, " or ") == "a or b");
}

TEST_CASE("split returns n + 1 parts for n separators") {
  using Parts = std::vector<std::string>;
  CHECK(heed::split("", ',') == Parts{""});
  CHECK(heed::split("a b", ',') == Parts{"a b"});
  CHECK(heed::split("a,b c,d", ',') == Parts{"a", "b c", "d"});
  CHECK(heed::split(",a,,b,", ',') == Parts{"", "a", "", "b", ""});
}

}  // namespace
