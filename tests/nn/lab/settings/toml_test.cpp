// Tests of the limits of TOML files. A key of many parts, or many nested values, must not overflow
// the stack.
#include "nn/lab/settings/toml.h"

#include "autograd/base/error.h"
#include "nn/io/limits.h"
#include "tests/support/catch.h"

namespace {

using heed::autograd::ValueError;
using heed::lab::read_toml;

std::string repeated(const std::string& text, std::size_t times) {
  std::string all;
  while (times-- > 0) all += text;
  return all;
}

std::string toml_refusal(const std::string& text) {
  return message_of<ValueError>([&] { read_toml(text, "f"); });
}

const std::string kTooMany =
    ": a key or section has more than 16 parts with dots between them; heed's own have one part, "
    "such as lr";

TEST_CASE("a TOML key or section has at most 16 parts") {
  const std::size_t most = heed::nn::kMaxTomlKeyParts;
  for (const std::string part : {"a.", "\"b.b\" .\t", "'c'. ", "\"\\\".\"."}) {
    INFO(part);
    const std::string fits = repeated(part, most - 1) + "a", deep = repeated(part, 20'000) + "a";
    CHECK(toml_refusal(fits + " = 1").empty());
    CHECK(toml_refusal("[" + fits + "]\n" + fits + " = {" + fits + " = 1}").empty());
    CHECK(toml_refusal(part + fits + " = 1") == "f:1" + kTooMany);
    CHECK(toml_refusal("x = 1 # a comment\n" + deep + " = 1") == "f:2" + kTooMany);
    CHECK(toml_refusal("[" + deep + "]") == "f:1" + kTooMany);
    CHECK(toml_refusal("[[" + deep + "]]") == "f:1" + kTooMany);
    CHECK(toml_refusal("x = {y = 1, " + deep + " = 1}") == "f:1" + kTooMany);
    // A string before the key must not hide it.
    for (const std::string text :
         {"\"\"", "''", "\"\\\\\"", "'\\'", "\"'\"", "'\"'", "\"#\"", R"("""
# """"")",
          R"('''
#''''')",
          R"(""" \""" """)", R"("""""")"}) {
      INFO(text);
      CHECK(toml_refusal("x = [" + text + ", {" + deep + " = 1}]") ==
            (text.find('\n') == text.npos ? "f:1" : "f:2") + kTooMany);
    }
  }
  const std::string dots = repeated(".", 100);
  CHECK(toml_refusal("# " + dots + "\nx = \"" + dots + "\"\n'" + dots + "' = '" + dots +
                     "'\ny = '''\n" + dots + "\n" + dots + "'''\nz = [0.5" +
                     repeated(", 0.5", 100) + "]")
            .empty());
}

// For these characters, toml++ 3.4 reaches code that it declares unreachable.
TEST_CASE("characters that are not ASCII are errors outside of strings and comments only") {
  for (const std::string odd : {"\xcd\x9e", "\u021e", "\u00fc", "\u2003"}) {
    for (const std::string& text :
         {odd + " = 1", "a" + odd + ".b = 1", "[" + odd + "]", "a = " + odd, "a = [1\\u00'[a" + odd,
          "a = 1='" + odd + "'", "a = \"\"\"\\" + odd + "\"\"\""}) {
      INFO(text);
      CHECK_THAT(toml_refusal("\n" + text), Catch::Matchers::StartsWith("f:2: not TOML: "));
    }
    CHECK(toml_refusal("a = \"\"\"x \\\n" + odd + "\"\"\"").empty());
    CHECK(toml_refusal("\xef\xbb\xbf# \u00e9\n'\u00e9' = \"" + odd + "\" # \u3000").empty());
  }
}

TEST_CASE("nested TOML values are rejected before they overflow the stack") {
  const std::string dotted = repeated("a.", 15) + "a";
  for (const std::string& open : {std::string("["), "{" + dotted + " = "}) {
    const std::string close = open == "[" ? "]" : "}";
    CHECK_THAT(toml_refusal("x = " + repeated(open, 100'000)),
               Contains("f:1: not TOML") && Contains("maximum nested value depth of 16"));
    CHECK(toml_refusal("x = " + repeated(open, 7) + "1" + repeated(close, 7)) ==
          (open == "[" ? "f:1: x needs true, false, a number or a text in quotes" : ""));
  }
}

TEST_CASE("invalid TOML that violates assertions of toml++ is reported as an error") {
  for (const std::string text : {"[=]", "[\1]", "x = 1\n[ \x02]", "a.=1", "a = {=1}"}) {
    INFO(text);
    CHECK_THAT(toml_refusal(text), Contains("not TOML"));
  }
}

TEST_CASE("the name of a TOML section is limited, because each of its keys has a copy") {
  const std::string most(heed::nn::kMaxTomlTableName, 'a');
  CHECK(toml_refusal("[" + most + "]\nx = 1").empty());
  CHECK(toml_refusal("\n[" + most + ".b]\nx = 1") ==
        "f:2: the name of a section has 258 bytes; the limit is 256");
}

}  // namespace
