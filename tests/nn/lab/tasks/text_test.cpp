// Tests of the task `text`: valid and invalid files, the split, and windows.
#include "autograd/base/utf8.h"
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/files.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::testing;
using Ids = std::vector<Index>;
namespace fs = std::filesystem;

template <class E>
std::string error_of(const std::string& path, Index context) {
  return message_of<E>([&] { make_text({.path = path, .context = context}); });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::optional<char32_t> only_code_point(std::string_view text) {
  std::size_t at = 0;
  const auto c = next_code_point(text, at);
  if (c) REQUIRE(at == text.size());
  if (!c) REQUIRE(at == 0);
  return c;
}

}  // namespace

TEST_CASE("UTF-8 is read strictly", "[text]") {
  for (char32_t c = 0; c < 0x110000; c += c < 0x900 ? 1 : 37) {
    if (c >= 0xD800 && c < 0xE000) continue;
    REQUIRE(only_code_point(to_utf8(c)) == c);
  }
  for (const char32_t c :
       {0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xD7FFu, 0xE000u, 0xFFFFu, 0x10000u, 0x10FFFFu})
    REQUIRE(only_code_point(to_utf8(c)) == c);
  using namespace std::string_view_literals;
  for (const auto bad :
       {"\x80"sv, "\xBF"sv, "\xC3"sv, "\xC3("sv, "\xC0\x80"sv, "\xC1\xBF"sv, "\xE0\x80\x80"sv,
        "\xE0\x9F\xBF"sv, "\xED\xA0\x80"sv, "\xED\xBF\xBF"sv, "\xE2\x82"sv, "\xE2\x28\xA1"sv,
        "\xF0\x8F\xBF\xBF"sv, "\xF4\x90\x80\x80"sv, "\xF0\x9F\x98"sv, "\xF5\x80\x80\x80"sv,
        "\xF8\x88\x80\x80\x80"sv, "\xFE"sv, "\xFF"sv})
    REQUIRE(!only_code_point(bad));
}

TEST_CASE("a vocabulary maps tokens to symbols", "[text][vocabulary]") {
  const Vocabulary v({"a", "b"});
  REQUIRE_THROWS_AS(v.decode(Ids{2}), ValueError);
  REQUIRE_THROWS_AS(v.label(-1), ValueError);
  REQUIRE_THROWS_AS(Vocabulary({"a", "bc"}), ValueError);
  REQUIRE_THROWS_AS(Vocabulary({"a", ""}), ValueError);
  const std::vector<std::string> twice{"a", "b", "a"};
  REQUIRE(message_of<ValueError>([&] { Vocabulary{twice}; }) ==
          "vocabulary: 'a' is the symbol of token 0 and of token 2: needs a different symbol for "
          "each token");
  const Vocabulary odd({"\n", " ", "a", "b", "é", "\x07"});
  REQUIRE(odd.label(0) == "\\n");
  REQUIRE(odd.label(5) == "\\x07");
  REQUIRE(odd.summary() == "\\n space a b é \\x07");
}

TEST_CASE("a text is split, numbered and cut into windows", "[text]") {
  std::string content;  // 37 characters, two of which have 2 or 3 bytes
  for (int i = 0; i < 35; ++i) content += char('a' + i * i / 5 % 11);
  content = "é" + content + "€";
  const File file(content);
  const auto task = make_text({.path = file.path(), .context = 3});
  const Vocabulary& v = task->info().vocabulary;
  REQUIRE(v.symbols().size() == 12);
  REQUIRE(v.symbols()[0] == "a");
  REQUIRE(v.symbols()[10] == "é");
  REQUIRE(v.symbols()[11] == "€");
  REQUIRE(task->info().classes == 12);
  REQUIRE(std::isnan(task->info().optimal));
  const Ids all = v.encode(content);
  REQUIRE(all.size() == 37);
  REQUIRE(v.decode(all) == content);

  const std::ptrdiff_t cut = 33;  // int(0.9 * 37); the other 4 tokens make 1 window of 3 targets
  REQUIRE(task->evaluation_size() == 1);
  const Batch window = task->evaluation(0, 1);
  REQUIRE(window.inputs.to_vector<std::int64_t>() == Ids(all.begin() + cut, all.end() - 1));
  REQUIRE(window.targets.to_vector<std::int64_t>() == Ids(all.begin() + cut + 1, all.end()));
  REQUIRE(window.optimal.empty());
  REQUIRE_THROWS_AS(task->evaluation(1, 1), ValueError);

  // The last window is padded.
  const auto two = make_text({.path = file.path(), .context = 2});
  REQUIRE(two->evaluation_size() == 2);
  const Batch both = two->evaluation(0, 2);
  REQUIRE(both.targets.to_vector<std::int64_t>() == Ids{all[34], all[35], all[36], kIgnored});
  REQUIRE(both.inputs.at({1, 0}) == double(all[35]));
  REQUIRE(both.counted.to_vector<bool>() == std::vector<bool>{true, true, true, false});

  // Training windows lie in the training part, and every possible window is drawn.
  Generator g(1);
  std::set<Ids> starts;
  for (int i = 0; i < 2000; ++i) {
    const Batch b = task->sample(1, g);
    Ids piece = b.inputs.to_vector<std::int64_t>();
    const Ids targets = b.targets.to_vector<std::int64_t>();
    REQUIRE(Ids(piece.begin() + 1, piece.end()) == Ids(targets.begin(), targets.end() - 1));
    piece.push_back(targets.back());
    REQUIRE(std::search(all.begin(), all.begin() + cut, piece.begin(), piece.end()) !=
            all.begin() + cut);
    starts.insert(piece);
  }
  std::set<Ids> expected;
  for (auto at = all.begin(); at + 4 <= all.begin() + cut; ++at) expected.insert(Ids(at, at + 4));
  REQUIRE(expected.size() == 30);
  REQUIRE(starts == expected);

  // An empty prompt is token 0, because the text has no newline. A prompt may exceed the context.
  REQUIRE(task->prompt("").inputs.to_vector<std::int64_t>() == Ids{0});
  REQUIRE(task->prompt(content).inputs.size(1) == 37);
  REQUIRE_THROWS_AS(task->prompt("Z"), ValueError);
}

TEST_CASE("overlapping windows have each token as a target once", "[text]") {
  std::string content;
  for (int i = 0; i < 61; ++i) content += char('a' + i * i / 5 % 11);
  const File file(content);
  const Vocabulary v = Vocabulary::of("kjihgfedcbaz");
  const Ids all = v.encode(content);
  for (const Index context : {1, 2, 7, 8, 59, 60, 61, 90})
    for (Index stride = 0; stride <= context; ++stride) {
      const auto task =
          make_whole_text({.path = file.path(), .context = context, .stride = stride}, v);
      REQUIRE(task->info().vocabulary == v);
      const Index step = stride == 0 ? context : stride;
      std::size_t next = 1;  // index of the next target
      for (Index n = 0; n < task->evaluation_size(); ++n) {
        const Batch window = task->evaluation(n, 1);
        const auto inputs = window.inputs.to_vector<std::int64_t>();
        const auto targets = window.targets.to_vector<std::int64_t>();
        const auto counted = window.counted.to_vector<bool>();
        for (std::size_t t = 0; t < targets.size(); ++t) {
          REQUIRE(counted[t] == (targets[t] != kIgnored));
          if (!counted[t]) continue;
          REQUIRE(targets[t] == all[next]);
          REQUIRE(Index(next) == n * step + Index(t) + 1);
          REQUIRE(inputs[t] == all[next - 1]);
          REQUIRE((n == 0 || Index(t) >= context - step));
          ++next;
        }
      }
      REQUIRE(next == all.size());
    }
  const auto error = [&](Index stride) {
    return message_of<ValueError>(
        [&] { make_text({.path = file.path(), .context = 4, .stride = stride}); });
  };
  REQUIRE(error(5) == "`stride`: needs 1 to `context` = 4, got 5");
  REQUIRE(error(-1) == "`stride`: needs 1 to `context` = 4, got -1");
  // The validation part of a run's own text starts at token int(0.9 * 61) = 54.
  const auto own = make_text({.path = file.path(), .context = 4, .stride = 1});
  REQUIRE(own->evaluation_size() == 3);
  const auto last = own->evaluation(2, 1).targets.to_vector<std::int64_t>();
  REQUIRE(last == Ids{kIgnored, kIgnored, kIgnored, own->info().vocabulary.encode(content)[60]});
}

TEST_CASE("a whole text has the tokens of another vocabulary", "[text]") {
  const Vocabulary v = Vocabulary::of("\nab\u00e9");
  const File file("b\u00e9\nab");
  const auto task = make_whole_text({.path = file.path(), .context = 8}, v);
  REQUIRE(task->evaluation_size() == 1);
  REQUIRE(without_padding(task->evaluation(0, 1)).targets.to_vector<std::int64_t>() ==
          Ids{3, 0, 1, 2});
  Generator g(1);
  REQUIRE_THROWS_AS(task->sample(1, g), ValueError);
  const auto error = [&](const std::string& content, const Vocabulary& known,
                         bool by_line = false) {
    const File bad(content);
    const std::string text = message_of<ValueError>(
        [&] { make_whole_text({.path = bad.path(), .context = 8, .by_line = by_line}, known); });
    return text.substr(0, text.find(bad.path())) + "FILE" +
           text.substr(std::min(text.size(), text.find(bad.path()) + bad.path().size()));
  };
  REQUIRE(error("ab\nb\ta", v) ==
          "text: 'FILE' contains '\\t' in line 2, which is not in the vocabulary: \\n "
          "a b é; replace or remove it in the file");
  REQUIRE(contains(error("a", v), "' has 1 character: needs at least 2"));

  const Vocabulary few({"the", " cat", "\n"}, Unit::kWord);
  REQUIRE(contains(error("the cat\nthe dog", few),
                   "contains ' dog' in line 2, which is not in the vocabulary"));

  // All lines are sequences, in their order. The newline may be any token.
  const Vocabulary late = Vocabulary::of("ab\n");
  const File lines("ab\r\nb\n\na");
  const auto three = make_whole_text({.path = lines.path(), .context = 4, .by_line = true}, late);
  REQUIRE(three->evaluation_size() == 3);
  REQUIRE(three->evaluation(0, 3).targets.to_vector<std::int64_t>() ==
          Ids{0, 1, 2, kIgnored, 1, 2, kIgnored, kIgnored, 0, 2, kIgnored, kIgnored});
  REQUIRE(three->evaluation(0, 1).inputs.to_vector<std::int64_t>() == Ids{2, 0, 1, 2});
  REQUIRE_THROWS_AS(three->sample(1, g), ValueError);
  REQUIRE(
      contains(error("ab", Vocabulary::of("ab"), true), "needs a model that was trained on lines"));
  REQUIRE(contains(message_of<ValueError>([&] {
                     make_whole_text(
                         {.path = lines.path(), .context = 4, .by_line = true, .stride = 2}, late);
                   }),
                   "`stride`: has no effect on lines"));
}

TEST_CASE("the error for an unusable text states the reason", "[text]") {
  REQUIRE(error_of<IoError>("/nonexistent/file.txt", 4) ==
          "cannot read /nonexistent/file.txt: No such file or directory");
  const std::string folder = fs::temp_directory_path().string();
  REQUIRE(error_of<IoError>(folder, 4) == "cannot read " + folder + ": it is a directory");
  REQUIRE(contains(error_of<IoError>("", 4), "cannot read : No such file"));
  const File empty("");
  REQUIRE(contains(error_of<IoError>(empty.path(), 4), "' is empty; use another file"));

  const File brief(std::string(100, 'x'));
  REQUIRE(error_of<ValueError>(brief.path(), 64) ==
          "text: '" + brief.path() +
              "' has 100 characters, 90 to train and 10 to validate: too few for context 64; each "
              "part needs at least 65. Use a longer text or a context of at most 9");
  REQUIRE(make_text({.path = brief.path(), .context = 9})->evaluation_size() == 1);
  REQUIRE_THROWS_AS(make_text({.path = brief.path(), .context = 10}), ValueError);
  REQUIRE_THROWS_AS(make_text({.path = brief.path(), .context = 0}), ValueError);
  REQUIRE_THROWS_AS(make_text({.path = brief.path(), .context = -1}), ValueError);
  const File one("x");
  REQUIRE(contains(error_of<ValueError>(one.path(), 1), "Use a longer text"));

  REQUIRE(error_of<IoError>(one.path() + "/x", 4) ==
          "cannot read " + one.path() + "/x: Not a directory");
}
