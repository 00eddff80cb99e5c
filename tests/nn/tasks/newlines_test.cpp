// Tests how text files are read: line ends, byte order marks, and files in other encodings. All
// readers of texts are tested: a training file by characters, words and lines, a held-out file, a
// text in the tokens of a run, and read_text().
#include <fmt/format.h>

#include "autograd/base/files.h"
#include "nn/run/run_folder.h"
#include "nn/tasks/corpus.h"
#include "nn/train/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"

namespace {

using namespace heed::nn;
using namespace heed::testing;
using namespace std::string_literals;

std::string decoded(const Corpus& corpus) {
  std::string text;
  for (std::size_t i = 0; i < corpus.tokens.size(); ++i)
    text += corpus.vocabulary.symbols()[std::size_t(corpus.tokens[i])];
  return text;
}

const std::string kMark = "\xEF\xBB\xBF";

TEST_CASE("line ends become newlines and a byte order mark is left out, unless they are kept") {
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
      const Corpus kept =
          read_corpus({.path = file.path(), .unit = unit, .newlines = Newlines::kKeep});
      CHECK(decoded(kept) == c.bytes);
      CHECK(kept.note.empty());
      CHECK(kept.data.at("text_hash") == text.data.at("text_hash"));
      // The tokens of a run decide how another text is read.
      TextOptions o{.path = file.path(), .unit = unit};
      CHECK(decoded(read_corpus(o, &text.vocabulary)) == c.text);
      o.newlines = Newlines::kKeep;
      CHECK(decoded(read_corpus(o, &kept.vocabulary)) == c.bytes);
      if (has_returns) CHECK(decoded(read_corpus(o, &text.vocabulary)) == c.text);
    }
    const Corpus both = read_corpus({.path = file.path(), .val_path = file.path()});
    CHECK(decoded(both) == c.text + c.text);
    CHECK(read_text(file.path(), c.bytes.size()) == c.text);
    CHECK_THROWS_WITH(read_text(file.path(), c.bytes.size() - 1), Contains("the limit is"));
  }
}

// Returns a text of ASCII characters as UTF-16. `first` is 0 (little endian) or 1 (big endian).
std::string utf16(const std::string& text, std::size_t first) {
  std::string bytes(2 * text.size(), '\0');
  for (std::size_t i = 0; i < text.size(); ++i) bytes[2 * i + first] = text[i];
  return bytes;
}

TEST_CASE("an error for a file that is not UTF-8 text names the probable encoding") {
  const std::string text = "A text with a line.\r\n";
  const std::pair<std::string, const char*> cases[] = {
      {"\xFF\xFE" + utf16(text, 0), "UTF-16"},
      {"\xFE\xFF" + utf16(text, 1), "UTF-16"},
      {utf16(text, 0), "UTF-16LE"},
      {utf16(text, 1), "UTF-16BE"},
      {text + "\x93quoted\x94, caf\xE9", "cp1252"},
      {text + "caf\xE9", "latin1"},
      {"caf\xC3\xA9, " + text + "\xE9", "the text before it is UTF-8"},
      {"\x7F"
       "ELF\x02\x01\x01\0\0\0 text\xFF"s,
       "not a text file"},
      {text + '\0', "not a text file"}};
  for (const auto& [bytes, name] : cases) {
    const File file(bytes), good("A text");
    const std::string expected =
        std::string(name).find(' ') == std::string::npos
            ? fmt::format("it is probably {0}; convert it with iconv -f {0} -t UTF-8", name)
            : name;
    INFO(expected);
    const Vocabulary known = read_corpus({.path = good.path()}).vocabulary;
    for (const bool by_line : {false, true}) {
      const TextOptions o{.path = file.path(), .by_line = by_line};
      CHECK_THROWS_WITH(read_corpus(o),
                        Contains("is not UTF-8 text at byte ") && Contains(expected));
      CHECK_THROWS_WITH(read_corpus(o, &known), Contains(file.path()));
    }
    CHECK_THROWS_WITH(read_text(file.path(), 1000), Contains(expected));
    CHECK_THROWS_WITH(read_corpus({.path = good.path(), .val_path = file.path()}),
                      Contains(file.path()));
  }
}

TEST_CASE("a configuration without the key newlines keeps its line ends") {
  const Folder folder;
  std::string text = kMark;
  for (int i = 0; i < 40; ++i) text += fmt::format("line {}\r\n", i);
  heed::autograd::write_file(folder / "text", text);
  RunConfig c = preset("shakespeare-cpu");
  c.text = folder / "text", c.newlines = Newlines::kKeep;
  c.model.layers = 1, c.model.context = 8, c.model.attention.d_model = 16, c.steps = 2, c.batch = 2;
  std::filesystem::create_directory(folder / "run");
  const RunFolder run(folder / "run");
  run.save(Trainer(c).snapshot());
  const std::string file = run.file(RunFolder::kConfig);
  std::string config = heed::autograd::read_file(file);
  const std::string line = "newlines = \"keep\"\n";
  REQUIRE(config.find(line) != std::string::npos);
  config.erase(config.find(line), line.size());
  heed::autograd::write_file(file, config);
  std::filesystem::remove(run.file(RunFolder::kState));  // it has the configuration, too
  CHECK(run.open(RunFolder::kModel, Use::kSequences).task->info().vocabulary.find("\r"));
  // In a new configuration, the default is kLf.
  CHECK(RunConfig().newlines == Newlines::kLf);
}

}  // namespace
