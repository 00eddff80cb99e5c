// Tests of the page of a study: the precision of its maps, the escaping of its texts, and its size.
#include "tools/heed/study/page/page.h"

#include "tests/support/catch.h"
#include "tests/support/page_map.h"

namespace {

using heed::encode_map;
using heed::study_page;
using heed::nn::Json;
using heed::testing::data_of;
using heed::testing::decoded;

// Returns a map of n x n sines.
heed::nn::BlockMap waves(std::int64_t n) {
  heed::nn::BlockMap map{n, {}, std::vector<std::uint8_t>(std::size_t(n * n), 0)};
  for (std::int64_t i = 0; i < n * n; ++i) map.values.push_back(1e-3 * std::sin(0.7 * double(i)));
  return map;
}

TEST_CASE("a map of the page has each value within half a step of its scale") {
  for (const std::int64_t n : {1, 2, 3, 5, 16}) {
    heed::nn::BlockMap map = waves(n);
    if (n > 3) {  // masked cells do not affect the scale
      map.values[std::size_t(2 * n)] = 100, map.hidden[std::size_t(2 * n)] = 1;
      map.values[std::size_t(2 * n + 1)] = -std::numeric_limits<double>::infinity();
    }
    const Json json = encode_map(map);
    const std::vector<double> got = decoded(json);
    const double scale = json.find("scale")->number();
    std::size_t at = 0;
    double largest = 0;
    for (std::int64_t row = 0; row < n; ++row)
      for (std::int64_t column = 0; column <= row; ++column, ++at) {
        REQUIRE(at < got.size());
        CAPTURE(n, row, column);
        if (n > 3 && row == 2 && column < 2) {
          CHECK(std::isnan(got[at]));
          continue;
        }
        const double value = map.values[std::size_t(row * n + column)];
        REQUIRE(std::abs(got[at] - value) <= scale / 65534 * 1.000001);
        largest = std::max(largest, std::abs(value));
      }
    CHECK(at == got.size());
    CHECK(scale == largest);
  }
  CHECK(decoded(encode_map({2, std::vector<double>(4), std::vector<std::uint8_t>(4)})) ==
        std::vector<double>(3, 0.0));
}

TEST_CASE("no text of a study ends the data element of the page") {
  const Json data = Json::object({{"title", "</script><script>alert(1)</script><!-- <script>"},
                                  {"bytes", "\xff é /* report.css */"}});
  const std::string json = data_of(study_page(data));
  CHECK(json.find('<') == std::string::npos);
  CHECK(Json::parse(json).find("title")->text() == data.find("title")->text());
  CHECK(Json::parse(json).find("bytes")->text() == "\xef\xbf\xbd é /* report.css */");
}

TEST_CASE("the title of the page's document is that of the study, as text") {
  const auto title_of = [](const Json& data) {
    const std::string page = study_page(data);
    const std::size_t at = page.find("<title>") + 7;
    return page.substr(at, page.find("</title>", at) - at);
  };
  CHECK(title_of(Json::object({{"title", "runs/a: L of é"}})) == "runs/a: L of é");
  CHECK(title_of(Json::object({{"title", "</title><b>&lt; /* the data */ /* the title */"}})) ==
        "&lt;/title>&lt;b>&amp;lt; /* the data */ /* the title */");
  const Json data = Json::object({{"title", "/* report.css */ /* the scripts */"}});
  CHECK(Json::parse(data_of(study_page(data))) == data);
}

TEST_CASE("the page refers to no other file and uses no network") {
  const std::string page = study_page(Json::object());
  for (const char* foreign : {"http:", "https:", "src=", "@import", "url(", "fetch(", "XMLHttp"})
    CHECK(page.find(foreign) == std::string::npos);
  CHECK(page.find("default-src 'none'") != std::string::npos);
  CHECK(page.size() < 60'000);
}

// A page of 4 x 4 heads has 16 such maps for each quantity and checkpoint.
TEST_CASE("a map of 128 tokens takes at most 2.7 characters a cell") {
  CHECK(encode_map(waves(128)).dump().size() < 22'500);
}

}  // namespace
