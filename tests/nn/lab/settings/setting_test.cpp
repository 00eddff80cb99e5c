// Tests of settings: accepted values, and the texts of errors and help.
#include "nn/lab/settings/setting.h"

#include "autograd/base/error.h"
#include "nn/lab/settings/toml.h"
#include "tests/support/catch.h"

namespace {

using heed::lab::Range;
using heed::lab::Setting;
using heed::lab::Span;

TEST_CASE("a range has a text and contains its numbers") {
  CHECK(Range{}.text().empty());
  CHECK(Range{1, 9}.text() == "1 to 9");
  CHECK(Range{0, 1, true, true}.text() == "above 0 to below 1");
  CHECK(Range{0}.text() == "at least 0");
  CHECK(Range{0, 1}.holds(0));
  CHECK_FALSE(Range{0, 1, true}.holds(0));
  CHECK_FALSE(Range{0, 1, false, true}.holds(1));
}

TEST_CASE("a setting sets its variable or returns an error text") {
  std::int64_t steps = 3;
  std::vector<std::string> words;
  const Setting number("steps", steps, {1, 2000}, "optimizer steps");
  const Setting list("words", words, {"a", "b"}, "some");
  number.set("--steps", "7");
  CHECK(steps == 7);
  CHECK(number.problem("--steps", "1e3") ==
        "--steps needs a whole number, 1 to 2000, got '1e3'; write 1000");
  CHECK_THROWS_AS(number.set("--steps", "0"), heed::autograd::ValueError);
  CHECK(number.description() == "optimizer steps; 1 to 2000 (default: 3)");
  list.set("words", "b,a");
  CHECK(words == std::vector<std::string>{"b", "a"});
  CHECK(list.problem("words", "a,c") == "words: 'c' is not one of a or b; did you mean 'a'?");
  Span span{3, 24};
  const Setting periods("periods", span, {1, 52}, "lengths");
  CHECK(periods.description() == "lengths; 1 to 52 (default: 3..24)");
  periods.set("--periods", "5..5");
  CHECK(span == Span{5, 5});
  CHECK(periods.get() == "5..5");
  for (const char* wrong : {"5", "5..", "..5", "6..5", "0..5", "5..53", "5...7", "a..b", ""})
    CHECK(periods.problem("--periods", wrong) ==
          std::string("--periods needs two whole numbers, 1 to 52, the smaller first, such as "
                      "3..24, got '") +
              wrong + "'");
  CHECK(list.problem("words", "a,") == "words: '' is not one of a or b; did you mean 'a'?");
}

enum class Rule { kHalf, kOne };

}  // namespace

template <>
inline constexpr auto heed::nn::kEnumNames<Rule> = std::to_array({"half", "one"});

namespace {

TEST_CASE("a setting accepts a name or a number") {
  std::variant<Rule, double> value = Rule::kHalf;
  const Setting scale("scale", value, {0, 9}, "times this");
  CHECK(scale.description() == "times this; 0 to 9, or half or one (default: half)");
  CHECK(scale.get() == "half");
  CHECK(heed::lab::toml_line(scale) == "scale = \"half\"\n");
  scale.set("--scale", "0.1");
  CHECK(std::get<double>(value) == 0.1);
  CHECK(heed::lab::toml_line(scale) == "scale = 0.1\n");
  scale.set("--scale", "one");
  CHECK(std::get<Rule>(value) == Rule::kOne);
  CHECK(scale.problem("--scale", "10") == "--scale needs a number, 0 to 9, got '10'");
  CHECK(scale.problem("--scale", "nan") == "--scale needs a number, 0 to 9, got 'nan'");
  CHECK(scale.problem("--scale", "inf") == "--scale needs a finite number, 0 to 9, got 'inf'");
  CHECK(scale.problem("--scale", "on") ==
        "--scale needs a number or a name: 'on' is not one of half or one; did you mean 'one'?");
  for (const std::string text : {"scale = 2", "scale = \"half\"", "scale = 0.5"}) {
    const auto items = heed::lab::read_toml("[t]\n" + text, "f");
    CHECK_NOTHROW(heed::lab::setting_named(items.back(), {scale}));
  }
  CHECK_THROWS_WITH(
      heed::lab::setting_named(heed::lab::read_toml("[t]\nscale = true", "f").back(), {scale}),
      "f:2: scale needs a number, or a name in quotes, got true");
}

}  // namespace
