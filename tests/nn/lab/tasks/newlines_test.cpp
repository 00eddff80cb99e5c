// Tests how text files are read: line ends, byte order marks, and files that are not UTF-8. All
// readers of texts are tested: a training file by characters, words and lines, a text in the tokens
// of a run, and read_text().
#include "nn/lab/tasks/corpus.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"

namespace {

using namespace heed::lab;
using namespace heed::testing;
using namespace std::string_literals;

std::string decoded(const Corpus& corpus) {
  std::string text;
  for (std::size_t i = 0; i < corpus.tokens.size(); ++i)
    text += corpus.vocabulary.symbols()[std::size_t(corpus.tokens[i])];
  return text;
}

const std::string kMark = "\xEF\xBB\xBF";

TEST_CASE("line ends become newlines and a byte order mark is left out") {
  struct Case {
    std::string bytes, text, lines;  // the file, and how the tasks `text` and `lines` read it
  };
  // A mark inside of the text and a newline after a newline are kept.
  const std::string inside = "a" + kMark + "\n\nb";
  // Two pieces of 1 MiB: the carriage return is the last byte of the first one.
  const std::string piece((1 << 20) - 1, 'x');
  for (const Case& c : std::vector<Case>{{"a\r\nb\n", "a\nb\n", "a\nb\n"},
                                         {"a\rb\r\r\n", "a\nb\n\n", "ab\n"},
                                         {"\n\r\n\r", "\n\n\n", "\n\n"},
                                         {kMark + "a\n", "a\n", "a\n"},
                                         {kMark + inside, inside, inside},
                                         {piece + "\r\ny", piece + "\ny", piece + "\ny"}}) {
    const File file(c.bytes);
    const bool has_returns = c.bytes.find('\r') != std::string::npos;
    for (const Unit unit : {Unit::kChar, Unit::kWord}) {
      const Corpus text = read_corpus({.path = file.path(), .unit = unit});
      CHECK(decoded(text) == c.text);
      CHECK(text.note.empty() != has_returns);
      const Corpus lines = read_corpus({.path = file.path(), .by_line = true, .unit = unit});
      CHECK(decoded(lines) == c.lines);
      CHECK(lines.note.empty() != has_returns);
      CHECK(decoded(read_corpus({.path = file.path()}, &text.vocabulary)) == c.text);
    }
    CHECK(read_text(file.path(), c.bytes.size()) == c.text);
    CHECK_THROWS_WITH(read_text(file.path(), c.bytes.size() - 1), Contains("the limit is"));
  }
}

TEST_CASE("the error for a file that is not UTF-8 text has the offset of the invalid byte") {
  const std::pair<std::string, const char*> cases[] = {
      {"\xFF\xFE"
       "A\0"s,
       "byte 0 (value 255)"},           // UTF-16 with a byte order mark
      {"A\0b\0"s, "byte 1 (value 0)"},  // UTF-16 without one
      {"caf\xC3\xA9, caf\xE9", "byte 10 (value 233)"}};
  for (const auto& [bytes, place] : cases) {
    const File file(bytes), good("A text");
    const std::string expected = std::string("is not UTF-8 text at ") + place;
    const Vocabulary known = read_corpus({.path = good.path()}).vocabulary;
    for (const bool by_line : {false, true}) {
      const TextOptions o{.path = file.path(), .by_line = by_line};
      CHECK_THROWS_WITH(read_corpus(o), Contains(expected));
      CHECK_THROWS_WITH(read_corpus(o, &known), Contains(file.path()));
    }
    CHECK_THROWS_WITH(read_text(file.path(), 1000), Contains(expected));
  }
}

}  // namespace
