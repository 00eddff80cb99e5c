// Tests of JSON values: printing, parsing and errors.
#include "nn/io/json.h"

#include "tests/support/catch.h"

namespace {

using heed::nn::Json;
using heed::nn::JsonError;

TEST_CASE("JSON values of every type are printed in order on one line") {
  Json object = Json::object({{"b", 1}, {"a", nullptr}, {"text", "q\"\n\xff"}});
  object["list"] = std::vector<double>{0.1, 1.0, 1e300, NAN, -0.0};
  object["b"] = true;
  object["none"] = std::optional<double>();
  object.update(Json::object({{"a", std::size_t{7}}, {"new", Json::array()}}));
  CHECK(object.dump() ==
        "{\"b\":true,\"a\":7,\"text\":\"q\\\"\\n\xef\xbf\xbd\","
        "\"list\":[0.1,1.0,1e+300,null,-0.0],\"none\":null,\"new\":[]}");
  CHECK(Json("é").dump(true) == "\"\\u00e9\"");
  CHECK(object.entries()[0].first == "b");
  CHECK(*object.find("a") == 7);
  CHECK(Json(-1).as<std::uint64_t>() == nullptr);
  CHECK_THROWS_AS(object.items(), JsonError);
  CHECK(Json(1).find("a") == nullptr);
}

TEST_CASE("JSON text is parsed and printed unchanged") {
  for (const std::string text :
       {R"({"z":[1,-2,0.5,"é"],"a":{"b":null},"c":false})", "[]", "{}", "3", "1e+30"})
    CHECK(Json::parse(text).dump() == text);
  CHECK(Json::parse("18446744073709551615") == UINT64_MAX);
  CHECK(Json::parse("0") == 0);
  CHECK(Json::parse("-1") == -1);
}

TEST_CASE("ambiguous or too large JSON is rejected") {
  const auto refusal = [](const std::string& text) -> std::string {
    return message_of<JsonError>([&] { Json::parse(text, {.depth = 2, .length = 3}); });
  };
  CHECK(refusal("[1,2,3]").empty());
  CHECK(refusal("[1,2,3,4]") == "has a list of more than 3 values");
  CHECK(refusal("[[1]]").empty());
  CHECK(refusal("[[[1]]]") == "is nested more than 2 levels deep");
  CHECK(refusal(R"({"a":1,"a":2})") == "contains the key \"a\" twice");
  CHECK(refusal("{\"a\" 1}") == "is not JSON in UTF-8 (error at byte 6)");
  CHECK(refusal("1e999") == "has a number out of the range of float64");
}

}  // namespace
