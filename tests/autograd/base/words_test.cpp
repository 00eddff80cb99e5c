// Numbers read from text, text split, words joined.
#include "autograd/base/text.h"
#include "tests/support/catch.h"

namespace {

using heed::join;
using heed::parse_number;

TEST_CASE("a number is the whole text, or none") {
  CHECK(parse_number<std::int64_t>("-12") == -12);
  CHECK(parse_number<double>("1e-3") == 1e-3);
  CHECK(parse_number<std::uint64_t>("ff", 16) == 255u);
  for (const char* text : {"", "1 ", " 1", "0x10", "1e3", "99999999999999999999"})
    CHECK_FALSE(parse_number<std::int64_t>(text));
  CHECK_FALSE(parse_number<double>("1.5x"));
}

TEST_CASE("words are joined with another word before the last") {
  CHECK(join({}).empty());
  CHECK(join({"a"}) == "a");
  CHECK(join({"a", "b", "c"}) == "a, b and c");
  CHECK(join({"a", "b"}, " or ") == "a or b");
}

TEST_CASE("n separators give n + 1 parts") {
  using Parts = std::vector<std::string>;
  CHECK(heed::split("", ',') == Parts{""});
  CHECK(heed::split("a b", ',') == Parts{"a b"});
  CHECK(heed::split("a,b c,d", ',') == Parts{"a", "b c", "d"});
  CHECK(heed::split(",a,,b,", ',') == Parts{"", "a", "", "b", ""});
}

}  // namespace
