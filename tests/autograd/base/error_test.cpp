// Tests of the texts of errors, and of the exceptions that check() and fail() throw.
#include "autograd/autograd.h"
#include "tests/support/catch.h"

using namespace heed::autograd;

TEST_CASE("an error's text formats its parts as a stream does") {
  const auto error = [](const auto&... parts) {
    return heed::error_text("op", {heed::Part(parts)...});
  };
  const std::string text = "text";
  const std::string_view view(text);
  const double numbers[] = {0,         -0.0,           1,        0.1,     1e5,   123456,
                            1234567,   1e-4,           1e-5,     1.5e9,   1e300, -2.5e-7,
                            1 / 3.0,   0x1p63,         -1e19,    100000,  1e6,   INFINITY,
                            -INFINITY, 0.000123456789, 99999.95, 999999.5};
  for (const double v : numbers) {
    std::ostringstream out;
    out << "op: " << v << ' ' << float(v) << " -";
    CHECK(error(v, ' ', float(v), " -") == out.str());
  }
  std::ostringstream out;
  out << "op: " << text << view << "literal" << 'c' << true << -1 << 7u << std::size_t(8)
      << Index{-9} << ~std::uint64_t{0} << Shape{2, 3} << Shape() << float32;
  CHECK(error(text, view, "literal", 'c', true, -1, 7u, std::size_t(8), Index{-9},
              ~std::uint64_t{0}, Shape{2, 3}, Shape(), float32) == out.str());
  CHECK_THROWS_WITH(heed::fail("op", "parts ", 1), "op: parts 1");
  CHECK_THROWS_AS(heed::fail<IoError>("op"), IoError);
  CHECK_NOTHROW(heed::check(true, "op", "never"));
  CHECK_THROWS_AS(heed::check<ValueError>(false, "op", "now"), ValueError);
}
